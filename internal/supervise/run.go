//go:build linux || darwin

package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// one run at a time: see ErrBusy.
var one sync.Mutex

// reapEvery bounds how often the dead are looked for while the command runs: a script that leaves hundreds of orphans a
// second must not cost a reading of all processes for each.
const reapEvery = 200 * time.Millisecond

// Run starts the command in a process group of its own, passes every signal that arrives on signals to the group, and
// returns when the command is over and, by the policy, what it left behind. It never returns while the command runs.
//
// When ctx ends first, everything that descends from the command gets SIGTERM (and SIGCONT, since a paused process could
// not act on it), then SIGKILL when KillAfter is over, or at KillBy if that is earlier. That is no error: see
// Result.Stopped. An error means that the command did not run (ErrNotFound, ErrNotExecutable, ErrNotStarted, ErrBusy, or
// why the system could not start it) or that its status is lost.
//
// With a terminal at Stdin, the command's group becomes its foreground group, so that reading works and Ctrl-C reaches
// the command once; the terminal is given back at the end. On Ctrl-Z this process suspends itself as well.
//
// On Linux this process must start no other children while Run runs: a process that the command left behind becomes a
// child of this process, and cannot be told from one.
func (c *Command) Run(ctx context.Context, signals <-chan os.Signal) (Result, error) {
	result := Result{ExitCode: -1}
	if len(c.Args) == 0 {
		return result, errors.New("supervise: no command given")
	}
	if !one.TryLock() {
		return result, ErrBusy
	}
	defer one.Unlock()
	cmd, err := c.prepare()
	if err != nil {
		result.ExitCode = exitCodeOf(err)
		return result, err
	}
	if ctx.Err() != nil {
		result.Cause = context.Cause(ctx)
		return result, fmt.Errorf("%w: %w", ErrNotStarted, result.Cause)
	}
	s := &supervision{command: c, log: c.Logger, told: map[identity]bool{}, result: result}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s.run(ctx, cmd, signals)
}

func (c *Command) prepare() (*exec.Cmd, error) {
	if c.Dir != "" {
		// The kernel's answer for a missing directory and for a missing program is the same.
		info, err := os.Stat(c.Dir)
		if err == nil && !info.IsDir() {
			err = &os.PathError{Op: "chdir", Path: c.Dir, Err: syscall.ENOTDIR}
		}
		if err != nil {
			return nil, fmt.Errorf("supervise: working directory of the command: %w", err)
		}
	}
	path, err := lookUp(c.Args[0], c.Dir)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: path, Args: c.Args, Env: c.Env, Dir: c.Dir, SysProcAttr: attributes()}
	// A nil file in an interface would not be nil any more.
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	return cmd, nil
}

// supervision is one run. Everything in it belongs to the goroutine of Run; the leader's goroutine only waits.
type supervision struct {
	command  *Command
	log      *slog.Logger
	leader   *leader
	watchdog *watchdog
	terminal *terminal // nil: none, or not ours
	tree     *tree     // nil: descendants cannot be seen

	jobControl  chan os.Signal
	askedToStop bool // SIGTSTP was passed on

	stopping bool      // TERM was sent and KILL will be
	deadline time.Time // when KILL is due
	told     map[identity]bool
	lost     bool // the group's id may be somebody else's

	result Result
}

func (s *supervision) run(ctx context.Context, cmd *exec.Cmd, signals <-chan os.Signal) (Result, error) {
	var unsubscribe func()
	s.jobControl, unsubscribe = jobControl()
	defer unsubscribe()
	orphaned := make(chan os.Signal, 1)
	signal.Notify(orphaned, syscall.SIGCHLD)
	defer signal.Stop(orphaned)

	var err error
	if s.tree, err = newTree(); err != nil {
		s.log.Warn("descendants of the command cannot be seen, only its process group", "err", err)
	} else {
		defer s.tree.close()
	}
	if err := s.start(cmd); err != nil {
		s.result.ExitCode = exitCodeOf(err)
		return s.result, err
	}
	defer standBackground()()
	s.follow(ctx, signals, orphaned)
	if !seesMembers {
		s.watchdog.dismiss()
		s.watchdog = nil
	}
	s.sweep(ctx, signals)
	s.watchdog.dismiss()
	status, err := s.leader.release()
	if s.command.hooks.reaped != nil {
		s.command.hooks.reaped(s.leader.pid)
	}
	s.terminal.takeBack()
	switch {
	case err != nil:
	case status.Signaled():
		s.result.Signal = status.Signal()
		s.result.ExitCode = 128 + int(status.Signal())
		s.terminal.restore()
	default:
		s.result.ExitCode = status.ExitStatus()
	}
	if ctx.Err() != nil {
		s.result.Cause = context.Cause(ctx)
	}
	return s.result, err
}

func (s *supervision) start(cmd *exec.Cmd) (err error) {
	if err := withholdDescriptors(); err != nil {
		s.log.Warn("the command may inherit descriptors that this process inherited", "err", err)
	}
	s.terminal = controllingTerminal(s.command.Stdin)
	if s.terminal.ours() && !sharesGroup() {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, s.terminal.fd
		s.terminal.held = true
	}
	if s.leader, err = startLeader(cmd); err != nil {
		// The process that could not become the command may have taken the terminal already.
		undo := standBackground()
		s.terminal.takeBack()
		undo()
		return startError(cmd.Path, cmd.Dir, err)
	}
	s.result.PID = s.leader.pid
	if s.watchdog, err = guard(s.leader.pid, s.jobControl); err != nil {
		s.log.Warn("what the command starts will go on if this process is killed", "err", err)
	}
	return nil
}

// follow returns when the leader has ended. It is not reaped then.
func (s *supervision) follow(ctx context.Context, signals <-chan os.Signal, orphaned <-chan os.Signal) {
	ended := ctx.Done()
	var kill, reap, complain <-chan time.Time
	for {
		select {
		case <-ended:
			ended = nil
			s.result.Stopped = true
			s.stop()
			kill = time.After(time.Until(s.deadline))
			complain = time.After(time.Until(s.deadline) + complainIn)
		case <-kill:
			s.kill()
			// What was forked while the processes were being listed is found the next time.
			kill = time.After(reapEvery)
		case <-complain:
			s.log.Error("the command does not die: the kernel holds it", "pid", s.leader.pid)
		case sig, open := <-signals:
			if !open {
				signals = nil
			}
			s.forward(sig)
		case sig := <-s.jobControl:
			s.askedToStop = sig == syscall.SIGTSTP
			s.forward(sig)
		case <-orphaned:
			if reap == nil {
				reap = time.After(reapEvery)
			}
		case <-reap:
			reap = nil
			_, _, _ = s.look()
		case change := <-s.leader.changes:
			if change.ended {
				s.lost = change.err != nil
				return
			}
			s.leaderStopped(ctx)
			s.leader.resume <- struct{}{}
		}
	}
}

func (s *supervision) forward(sig os.Signal) {
	if number, ok := sig.(syscall.Signal); ok {
		s.log.Debug("passing a signal on", "signal", number)
		s.signalGroup(number)
	}
}
