//go:build linux

package supervise

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A signal to a process id that was given back may hit a stranger. So at every signal the id must be reserved: the
// command is still a child of this process, dead or alive. Process ids come round meanwhile.
func TestNoSignalAfterReaping(t *testing.T) {
	churner := exec.Command(self())
	churner.Env = append(os.Environ(), roleVariable+"=churn", "GORACE=atexit_sleep_ms=0")
	output, err := churner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := churner.Start(); err != nil {
		t.Fatal(err)
	}
	churned := linesOf(output)
	nextLine(t, churned)

	var stops, ends, signals int
	for round := range 500 {
		// An end by itself, with and without something left behind, against a stop at the same moment.
		script := "echo up; read x; exit 3"
		if round%2 == 1 {
			script = "sleep 1000 & echo up; read x; exit 3"
		}
		c := shell(script)
		var reaped atomic.Bool
		c.hooks.reaped = func(int) { reaped.Store(true) }
		c.hooks.signalling = func(pid int, sig syscall.Signal) {
			signals++
			if reaped.Load() {
				t.Errorf("round %d: signal %v to %d after the command was reaped", round, sig, pid)
			}
			if pid < 0 {
				if p, err := readProcess(-pid); err != nil || p.parent != os.Getpid() || p.group != -pid {
					t.Errorf("round %d: signal %v to group %d, which may be anybody's: %+v, %v", round, sig, -pid, p, err)
				}
			}
		}
		r := begin(t, c)
		r.line()
		// Around the moment at which the command ends; no particular order is waited for.
		time.AfterFunc(rand.N(3*time.Millisecond), func() { r.stop(errLost) })
		_ = r.input.Close()
		if r.over().Stopped {
			stops++
		} else {
			ends++
		}
		if !reaped.Load() {
			t.Fatalf("round %d: the command was not reaped", round)
		}
	}
	if err := churner.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := nextLine(t, churned); got != "bad 0" {
		t.Errorf("processes that have nothing to do with the command were hit: %s", got)
	}
	if err := churner.Wait(); err != nil {
		t.Error(err)
	}
	summary := fmt.Sprintf("%d stopped, %d ended by themselves, %d signals", stops, ends, signals)
	t.Log(summary)
	if stops == 0 || ends == 0 || signals == 0 {
		t.Errorf("no race took place: %s", summary)
	}
}
