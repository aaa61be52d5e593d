//go:build linux

package supervise

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"
)

var errLost = errors.New("the right to run was lost")

func TestStopAsksFirst(t *testing.T) {
	r := begin(t, part("record", "leader", "exits"))
	pids := append(r.pids(1), r.pids(1)...)
	r.stop(errLost)
	result := r.over()
	if result.ExitCode != 7 || !result.Stopped || result.Cause != errLost {
		t.Errorf("the command was to end by its own handler: %+v", result)
	}
	mustBeGone(t, pids...)
}

func TestStopKillsWhatIgnoresTheRequest(t *testing.T) {
	c := part("stubborn")
	c.KillAfter = 300 * time.Millisecond
	r := begin(t, c)
	pids := r.pids(3) // the leader, a member of its group, and a daemon outside
	asked := time.Now()
	r.stop(errLost)
	result := r.over()
	if took := time.Since(asked); took < c.KillAfter {
		t.Errorf("it was killed after %v, which is less than it was promised", took)
	}
	if result.Signal != syscall.SIGKILL || result.ExitCode != 137 || !result.Killed || !result.Stopped {
		t.Errorf("%+v", result)
	}
	mustBeGone(t, pids...)
}

func TestStopIsBoundByTheHardTime(t *testing.T) {
	c := part("stubborn")
	c.KillAfter = time.Hour
	c.KillBy = func() time.Time { return time.Now().Add(-time.Second) }
	var sent []syscall.Signal
	c.hooks.signalling = func(_ int, sig syscall.Signal) { sent = append(sent, sig) }
	r := begin(t, c)
	pids := r.pids(3)
	r.stop(errLost)
	if result := r.over(); !result.Killed || sent[0] != syscall.SIGKILL {
		t.Errorf("no patience was left, yet the first of %v was sent: %+v", sent, result)
	}
	mustBeGone(t, pids...)
}

func TestStopWakesAPausedCommand(t *testing.T) {
	r := begin(t, part("record", "alone", "exits"))
	pid := r.pids(1)[0]
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command is paused", func() bool { return stateOf(pid) == "T" })
	r.mustRun()
	r.stop(errLost)
	if result := r.over(); result.ExitCode != 7 || result.Killed {
		t.Errorf("a paused command could not act on the request: %+v", result)
	}
}

func TestPauseByAnybodyElseIsLeftAlone(t *testing.T) {
	r := begin(t, part("record", "alone", "exits"))
	pid := r.pids(1)[0]
	for range 3 {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the command is paused", func() bool { return stateOf(pid) == "T" })
		r.signals <- syscall.SIGUSR1
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if got := r.line(); got != "alone user defined signal 1" {
			t.Fatalf("after the pause came %q", got)
		}
	}
	r.signals <- syscall.SIGTERM
	if result := r.over(); result.ExitCode != 7 || result.Stopped {
		t.Errorf("%+v", result)
	}
}

func TestNotStartedAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errLost)
	result, err := shell("exit 0").Run(ctx, nil)
	if !errors.Is(err, ErrNotStarted) || !errors.Is(err, errLost) || result.PID != 0 || result.ExitCode != -1 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestSignalsGoToTheWholeGroup(t *testing.T) {
	r := begin(t, part("record", "leader"))
	r.pids(2)
	for _, sig := range forwarded {
		r.signals <- sig
		got := map[string]bool{r.line(): true, r.line(): true}
		if !got["leader "+sig.String()] || !got["member "+sig.String()] {
			t.Errorf("%v: %v", sig, got)
		}
	}
	r.mustRun()
	r.signals <- syscall.SIGKILL
	if result := r.over(); result.Signal != syscall.SIGKILL {
		t.Errorf("%+v", result)
	}
}
