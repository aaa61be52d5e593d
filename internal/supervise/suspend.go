//go:build linux || darwin

package supervise

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// leaderStopped answers a stop of the command. At a terminal this process has to stop as well, otherwise the shell would
// wait for ever; anywhere else somebody has paused the command on purpose, and this process goes on.
func (s *supervision) leaderStopped(ctx context.Context) {
	sig := takeStop(s.leader.pid)
	if sig == 0 || s.stopping {
		return
	}
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	asked := s.askedToStop
	s.askedToStop = false
	switch {
	case wantsTerminal && s.terminal.ours():
		// The terminal was left to the rest of the pipeline; now the command needs it.
		if err := s.terminal.give(s.leader.pid); err == nil {
			s.signalGroup(syscall.SIGCONT)
		}
	case s.terminal == nil && !asked:
		s.log.Info("the command is paused", "pid", s.leader.pid, "signal", unix.SignalName(sig))
	case canSuspend():
		s.suspend(ctx)
	case sig == syscall.SIGTSTP:
		// No shell is there to continue anything: Ctrl-Z has no effect, as the kernel rules for a single process.
		s.signalGroup(syscall.SIGCONT)
	default:
		s.log.Warn("the command is paused and nobody is there to continue it", "pid", s.leader.pid, "signal", unix.SignalName(sig))
	}
}

// suspend stops this process with the command, and continues both when the shell says so.
func (s *supervision) suspend(ctx context.Context) {
	if s.command.OnStop != nil {
		s.command.OnStop()
	}
	// The terminal told only the command's group to stop; the rest of our own, such as the script that we are called
	// from, has to stop as well. Without the terminal, the rest was told by it.
	target := os.Getpid()
	if s.terminal != nil && s.terminal.held {
		target = 0
		s.terminal.takeBack()
	}
	s.drainJobControl()
	// SIGTSTP would be the polite one, but it may be ignored or caught; this one certainly comes, so the SIGCONT that
	// follows can be waited for.
	if err := unix.Kill(target, syscall.SIGSTOP); err == nil {
		for sig := range s.jobControl {
			if sig == syscall.SIGCONT {
				break
			}
		}
	}
	if s.command.OnContinue != nil {
		s.command.OnContinue()
	}
	if s.terminal.ours() {
		_ = s.terminal.give(s.leader.pid)
	}
	if ctx.Err() == nil {
		s.signalGroup(syscall.SIGCONT)
	}
}

func (s *supervision) drainJobControl() {
	for {
		select {
		case <-s.jobControl:
		default:
			return
		}
	}
}

// canSuspend says whether somebody is there to continue this process: an ancestor in the same session and in another
// group. Where there is none, as in a container or under a remote shell, a stop would be the end.
func canSuspend() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	group := unix.Getpgrp()
	for pid := parentOf(os.Getpid()); pid > 0; pid = parentOf(pid) {
		if other, err := unix.Getsid(pid); err != nil || other != session {
			return false
		}
		if other, err := unix.Getpgid(pid); err != nil || other != group {
			return err == nil
		}
	}
	return false
}
