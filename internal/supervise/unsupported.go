//go:build !linux && !darwin

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
)

// Run is not supported on this system: without process groups and a wait that does not reap, a command could outlive
// the run, or a signal could hit a process that has nothing to do with it. The error matches errors.ErrUnsupported.
func (c *Command) Run(context.Context, <-chan os.Signal) (Result, error) {
	return Result{ExitCode: -1}, fmt.Errorf("supervise: running a command is not supported on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Notify subscribes to the interrupt, the only signal that every system has.
func Notify() (signals <-chan os.Signal, stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt)
	return ch, func() { signal.Stop(ch) }
}
