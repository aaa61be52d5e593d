//go:build linux

package supervise_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/supervise"
)

// A stop that comes while the watchdog is being started reaches a copy of this process that has not become the watchdog yet, and once
// kept this process in the fork for good. The command sends its group nothing but stops, which it ignores itself.
func TestAStopDuringTheStartHoldsUpNothing(t *testing.T) {
	const script = `trap '' TSTP; n=0; while [ $n -lt 400 ]; do kill -s TSTP 0; n=$((n+1)); done; exit 7`
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 200 {
			command := supervise.Command{Args: []string{sh, "-c", script}}
			result, err := command.Run(t.Context(), nil)
			if err != nil || result.ExitCode != 7 {
				t.Errorf("Run = %+v, %v", result, err)
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("a start does not end")
	}
}
