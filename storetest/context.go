package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost"
)

// wantUnheard checks the error of an operation that its context ended.
func (f *fixture) wantUnheard(method string, err, cause error) {
	f.Helper()
	switch {
	case err == nil:
		f.Errorf("%s: no error", method)
	case errors.Is(err, fencepost.ErrHeld), errors.Is(err, fencepost.ErrStale), errors.Is(err, fencepost.ErrInvalid):
		f.Errorf("%s: %v; the database has not said that", method, err)
	case !errors.Is(err, fencepost.ErrUnavailable) && !errors.Is(err, fencepost.ErrUnknown):
		f.Errorf("%s: %v; want ErrUnavailable (nothing applied) or ErrUnknown", method, err)
	case !errors.Is(err, cause):
		f.Errorf("%s: %v; want %v in the chain", method, err, cause)
	}
}

var contextTests = []test{
	{"CancelledBefore", func(f *fixture) {
		g := f.acquire("job", long)
		ctx, cancel := context.WithCancel(f.ctx())
		cancel()
		f.unchanged("job", func() {
			for method, call := range map[string]func() error{
				"Acquire": func() error {
					_, err := f.Acquire(ctx, fencepost.AcquireRequest{Name: "job", Owner: "rival", TTL: long})
					return err
				},
				"Renew":   func() error { _, err := f.Renew(ctx, []fencepost.Token{g.Token}); return err },
				"Release": func() error { _, err := f.Release(ctx, g.Token); return err },
				"Preempt": func() error { _, err := f.Preempt(ctx, f.preemption("job", 1, long)); return err },
				"Check":   func() error { return f.Check(ctx, g.Token) },
				"Inspect": func() error { _, _, err := f.Inspect(ctx, "job"); return err },
				"List":    func() error { _, err := f.List(ctx, fencepost.ListQuery{}); return err },
				"Want":    func() error { _, err := f.Want(ctx, "job"); return err },
				"Record": func() error {
					return f.Record(ctx, fencepost.Event{Lease: "job", Kind: fencepost.EventLost, Fence: 1})
				},
				"Events": func() error { _, err := f.Events(ctx, fencepost.EventQuery{}); return err },
			} {
				f.wantUnheard(method, call(), context.Canceled)
			}
		})
		if err := f.Check(f.ctx(), g.Token); err != nil {
			f.Errorf("afterwards: %v", err)
		}
	}},

	{"EndedMeanwhile", func(f *fixture) {
		// Deadlines from nothing to plenty hit every moment of a request.
		const tries = 200
		granted, notGranted := 0, 0
		for i := range tries {
			name, owner := fmt.Sprintf("job-%d", i), f.owner()
			ctx, cancel := context.WithTimeout(f.ctx(), time.Duration(i)*20*time.Microsecond)
			g, err := f.Acquire(ctx, fencepost.AcquireRequest{Name: name, Owner: owner, TTL: long})
			cancel()
			if err == nil {
				granted++
				if i := f.inspect(name); i.Owner != owner || i.Fence != g.Token.Fence {
					f.Errorf("granted %v, the row says %+v", g.Token, i)
				}
				continue
			}
			f.wantUnheard("Acquire", err, context.DeadlineExceeded)
			if errors.Is(err, fencepost.ErrUnavailable) {
				notGranted++
				if info, found, err := f.Inspect(f.ctx(), name); err != nil || found {
					f.Errorf("reported as not applied, but there it is: %+v, %v", info, err)
				}
			}
			// Whatever became of it, the same owner gets an answer now.
			again, againErr := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: name, Owner: owner, TTL: long})
			if againErr != nil || again.Token.Fence != 1 {
				f.Errorf("asked again after %v: %v, %v; want fence 1", err, again.Token, againErr)
			}
		}
		f.Logf("of %d: %d granted, %d certainly not, %d unknown", tries, granted, notGranted, tries-granted-notGranted)
	}},
}
