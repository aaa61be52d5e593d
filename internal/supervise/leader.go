//go:build linux || darwin

package supervise

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// leader is the command's own process. It stays unreaped, even when it has ended, until it is released: as long as it
// is there, the kernel gives its process id and its group id to nobody else, and a signal to them cannot hit a stranger.
type leader struct {
	pid     int
	cmd     *exec.Cmd
	changes chan change   // every change of state; the next one comes after a resume
	resume  chan struct{} // the change was dealt with; after an end: reap
	reaped  chan struct{} // closed when the process id may be in use by others
	err     error         // why there is no status; valid once reaped is closed
}

// change is what happened to the leader: it ended, or else it was stopped, or seemed to.
type change struct {
	ended bool
	err   error // the leader is not ours to wait for any more: somebody else has reaped it
}

// startLeader starts the command on a thread that then waits for it and for nothing else. The kernel sends the signal
// for the death of the parent when the THREAD that forked ends, which for a thread of the Go pool is no matter of ours.
func startLeader(cmd *exec.Cmd) (*leader, error) {
	l := &leader{cmd: cmd, changes: make(chan change), resume: make(chan struct{}), reaped: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		l.pid = cmd.Process.Pid
		started <- nil
		l.follow()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return l, nil
}

func (l *leader) follow() {
	defer close(l.reaped)
	for {
		ended, err := awaitChange(l.pid)
		l.changes <- change{ended: ended || err != nil, err: err}
		<-l.resume
		if ended || err != nil {
			break
		}
	}
	if err := l.cmd.Wait(); err != nil {
		if _, status := errors.AsType[*exec.ExitError](err); !status {
			l.err = fmt.Errorf("supervise: the status of the command is lost: %w", err)
		}
	}
}

// release reaps the ended leader and returns its status.
func (l *leader) release() (syscall.WaitStatus, error) {
	l.resume <- struct{}{}
	<-l.reaped
	if l.err != nil {
		return 0, l.err
	}
	return l.cmd.ProcessState.Sys().(syscall.WaitStatus), nil
}

// awaitChange returns when the process has ended or is stopped, and takes neither off the kernel's hands.
func awaitChange(pid int) (ended bool, err error) {
	info, err := waitFor(pid, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT)
	return info.Code != stoppedCode, err
}

// takeStop takes a stop off the kernel's hands. The signal is 0 if the process was continued, or has ended, meanwhile.
func takeStop(pid int) syscall.Signal {
	info, err := waitFor(pid, unix.WSTOPPED|unix.WNOHANG)
	if err != nil || info.Code != stoppedCode {
		return 0
	}
	return syscall.Signal(info.status())
}

// stoppedCode is CLD_STOPPED.
const stoppedCode = 5

func waitFor(pid int, options int) (info siginfo, err error) {
	for {
		info = siginfo{}
		if err = waitid(pid, &info, options); !errors.Is(err, unix.EINTR) {
			return info, err
		}
	}
}
