package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpSignals end a command that waits, except those that it was started with ignored: nohup is to have its effect.
func giveUpSignals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, signal.Ignored)
}

// giveUpTime is how long a command that waits may take to leave after a signal: less than the second after which
// people and supervisors get impatient.
const giveUpTime = 800 * time.Millisecond

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return s.String()
}

// untilSignal returns a context that a signal cancels, with a signalError as its cause. A database that does not answer must not keep the
// command from leaving, so that the process exits soon after the signal in any case, until stop was called.
func (a *app) untilSignal(ctx context.Context, doing string) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	if wanted := giveUpSignals(); len(wanted) > 0 { // without an argument it would subscribe to everything
		signal.Notify(signals, wanted...)
	}
	done := make(chan struct{})
	go func() {
		select {
		case got := <-signals:
			err := signalError{got.(syscall.Signal), doing}
			cancel(err)
			patience := time.NewTimer(giveUpTime)
			defer patience.Stop()
			select {
			case <-patience.C:
				os.Exit(a.finish(err))
			case <-done:
			}
		case <-done:
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	})
}

// signalled returns the signal that ended a context.
func signalled(ctx context.Context) error {
	if err, ok := errors.AsType[signalError](context.Cause(ctx)); ok {
		return err
	}
	return nil
}
