//go:build linux || darwin

package supervise

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	firstLook  = time.Millisecond
	lastLook   = 50 * time.Millisecond
	complainIn = 5 * time.Second
)

// signalGroup may be called as long as the leader is not reaped.
func (s *supervision) signalGroup(sig syscall.Signal) {
	if s.lost {
		return
	}
	s.announce(-s.leader.pid, sig)
	if err := unix.Kill(-s.leader.pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		s.log.Warn("the command's process group cannot be signalled", "pgid", s.leader.pid, "signal", unix.SignalName(sig), "err", err)
	}
}

// signalOne says whether the process may be signalled at all.
func (s *supervision) signalOne(p process, sig syscall.Signal) bool {
	s.announce(p.pid, sig)
	if f := s.command.hooks.forbidden; f != nil && f(p.pid) {
		return false
	}
	return !errors.Is(s.tree.signal(p, sig), unix.EPERM)
}

func (s *supervision) announce(pid int, sig syscall.Signal) {
	if f := s.command.hooks.signalling; f != nil {
		f(pid, sig)
	}
}

func (s *supervision) look() (alive []process, reaped bool, err error) {
	if s.tree == nil {
		return nil, false, errors.ErrUnsupported
	}
	return s.tree.look(s.leader.pid, s.watchdog.pid())
}

// stop begins the end: TERM to all, and from now on the clock runs.
func (s *supervision) stop() {
	s.setDeadline()
	if !time.Now().Before(s.deadline) {
		return // no patience is left, the caller kills at once
	}
	// Listed before the signal: what a handler of it starts to clean up must not count as told to end.
	alive, _, _ := s.look()
	s.signalGroup(syscall.SIGTERM)
	for _, p := range alive {
		s.told[p.identity()] = true
		if p.group != s.leader.pid {
			s.signalOne(p, syscall.SIGTERM)
			s.signalOne(p, syscall.SIGCONT)
		}
	}
	s.signalGroup(syscall.SIGCONT)
}

func (s *supervision) setDeadline() {
	deadline := time.Now().Add(s.command.KillAfter)
	if s.command.KillBy != nil {
		if by := s.command.KillBy(); by.Before(deadline) {
			deadline = by
		}
	}
	if !s.stopping || deadline.Before(s.deadline) {
		s.deadline = deadline
	}
	s.stopping = true
}

// kill ends all, and returns what this user may not signal.
func (s *supervision) kill() (beyond []process) {
	s.result.Killed = true
	s.signalGroup(syscall.SIGKILL) // the kernel does this at one moment: nobody in the group forks away
	alive, _, _ := s.look()
	for _, p := range alive {
		if !s.signalOne(p, syscall.SIGKILL) {
			beyond = append(beyond, p)
		}
	}
	return beyond
}

// sweep deals with what outlived the leader, which stays unreaped meanwhile and so reserves the group's id.
func (s *supervision) sweep(ctx context.Context, signals <-chan os.Signal) {
	ended := ctx.Done()
	if s.result.Stopped {
		ended = nil
	}
	beyond := map[identity]bool{}
	complain := time.Now().Add(s.command.KillAfter + complainIn)
	for pause, first := firstLook, true; ; pause = min(2*pause, lastLook) {
		alive, reaped, err := s.look()
		if err != nil {
			s.sweepBlindly()
			return
		}
		alive = slices.DeleteFunc(alive, func(p process) bool { return beyond[p.identity()] })
		if len(alive) == 0 {
			if reaped {
				continue
			}
			return
		}
		if first {
			first = false
			s.report(alive)
			if s.command.Orphans == Kill && !s.stopping {
				s.setDeadline()
			}
		}
		if s.command.Orphans == Warn && !s.stopping {
			return
		}
		if s.stopping {
			s.end(alive, beyond)
		}
		if s.stopping && time.Now().After(complain) {
			complain = time.Now().Add(time.Hour)
			s.log.Error("processes do not die: the kernel holds them", "pid", alive[0].pid, "name", alive[0].name, "count", len(alive))
		}
		select {
		case <-ended:
			ended = nil
			s.setDeadline()
		case sig, open := <-signals:
			if !open {
				signals = nil
			}
			s.forwardToAll(sig, alive)
		case <-time.After(pause):
		}
	}
}

// end tells each process once to end, and kills them all when the time is up.
func (s *supervision) end(alive []process, beyond map[identity]bool) {
	if !time.Now().Before(s.deadline) {
		for _, p := range s.kill() {
			beyond[p.identity()] = true
			s.log.Error("a process that the command left behind belongs to another user and goes on", "pid", p.pid, "name", p.name)
		}
		return
	}
	for _, p := range alive {
		if !s.told[p.identity()] {
			s.told[p.identity()] = true
			s.signalOne(p, syscall.SIGTERM)
			s.signalOne(p, syscall.SIGCONT)
		}
	}
}

// forwardToAll is for the time after the leader: whoever waits for a daemon must be able to end it.
func (s *supervision) forwardToAll(sig os.Signal, alive []process) {
	s.forward(sig)
	if number, ok := sig.(syscall.Signal); ok {
		for _, p := range alive {
			if p.group != s.leader.pid {
				s.signalOne(p, number)
			}
		}
	}
}

// sweepBlindly is for a system without a readable /proc: the group can be signalled, but not be seen to be empty.
func (s *supervision) sweepBlindly() {
	if s.stopping || s.command.Orphans == Kill {
		s.signalGroup(syscall.SIGKILL)
	}
}

func (s *supervision) report(alive []process) {
	slices.SortFunc(alive, func(a, b process) int { return a.pid - b.pid })
	for _, p := range alive {
		s.result.Orphans = append(s.result.Orphans, Orphan{PID: max(p.pid, 0), Name: p.name})
		if !s.stopping { // otherwise they had no chance to be faster
			s.log.Warn("a process outlived the command", "pid", p.pid, "name", p.name, "policy", s.command.Orphans.String())
		}
	}
}
