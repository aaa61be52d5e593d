package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/fencepost/fencepost"
)

// fencedWrites are the three ways to write, for tests in which nothing happens in between.
func (j job) fencedWrites(ctx context.Context, token fencepost.Token) map[string]func() error {
	stmt := render(plainComplete, token, j.id)
	return map[string]func() error{
		"Guard": func() error {
			tx, err := j.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := tx.Guard(ctx, token); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, stmt); err != nil {
				return err
			}
			return tx.Commit(ctx)
		},
		"Tx": func() error {
			return j.Tx(ctx, token, func(tx Tx) error { _, err := tx.Exec(ctx, stmt); return err })
		},
		"Exec": func() error { _, err := j.Exec(ctx, token, stmt); return err },
	}
}

// refusals tests every reason for which a write is refused.
func (g *ground) refusals(t *testing.T) {
	for reason, prepare := range map[fencepost.Reason]func(f *fixture, name string) (token fencepost.Token, current int64){
		// After a takeover the old completion is refused: the write that a fence is for.
		fencepost.ReasonSuperseded: func(f *fixture, name string) (fencepost.Token, int64) {
			old := f.acquireExpired(name).Token
			f.acquire(name, long)
			return old, 2
		},
		fencepost.ReasonExpired: func(f *fixture, name string) (fencepost.Token, int64) {
			return f.acquireExpired(name).Token, 1
		},
		fencepost.ReasonReleased: func(f *fixture, name string) (fencepost.Token, int64) {
			token := f.acquire(name, long).Token
			f.release(token)
			return token, 1
		},
		fencepost.ReasonUnknownName: func(_ *fixture, name string) (fencepost.Token, int64) {
			return fencepost.Token{Name: name, Owner: "owner", Fence: 1}, 0
		},
		// The fence is right and the owner is not: two databases, or a promoted replica, may have granted the same number.
		fencepost.ReasonNotGranted: func(f *fixture, name string) (fencepost.Token, int64) {
			token := f.acquire(name, long).Token
			token.Owner = "OWNER"
			return token, 1
		},
	} {
		t.Run(string(reason), func(t *testing.T) {
			j := g.newJob(t)
			f := &fixture{T: t, Store: g.Store()}
			token, current := prepare(f, j.name)
			for name, write := range j.fencedWrites(t.Context(), token) {
				before := len(f.events(fencepost.EventQuery{Lease: j.name}))
				f.unchangedLease(j.name, func() { f.wantStale(write(), token, reason, current) })
				if status := j.status(t, 0); status != "running" {
					t.Fatalf("%s: refused, and the run is %s", name, status)
				}
				if name == "Guard" {
					continue // it cannot write in a transaction that is about to be rolled back
				}
				until(t, "the refusal to be recorded", func() bool { return len(f.events(fencepost.EventQuery{Lease: j.name})) > before })
				e := f.events(fencepost.EventQuery{Lease: j.name, Last: true, Limit: 1})[0]
				if e.Kind != fencepost.EventStaleRefused || e.Fence != token.Fence || e.Reason != string(reason) {
					t.Errorf("%s: recorded as %+v", name, e)
				}
			}
			// The statement without any check does get through: the refusals above refused something.
			if err := j.Run(t.Context(), render(plainComplete, token, j.id)); err != nil || j.status(t, 0) != "completed" {
				t.Errorf("the unfenced statement: %v, status %s", err, j.status(t, 0))
			}
		})
	}
	t.Run("naive", func(t *testing.T) {
		// Without anything in between even the naive statements refuse: only the interleavings tell them from a fence.
		for _, n := range g.Naive {
			j := g.newJob(t)
			f := &fixture{T: t, Store: g.Store()}
			old := f.acquireExpired(j.name).Token
			f.acquire(j.name, long)
			if err := j.Run(t.Context(), render(n.Complete, old, j.id)); err != nil || j.status(t, 0) != "running" {
				t.Errorf("%s: %v, status %s", n.Name, err, j.status(t, 0))
			}
		}
	})
}

// unchangedLease is unchangedRow for a lease that may not exist.
func (f *fixture) unchangedLease(name string, do func()) {
	f.Helper()
	if _, found, err := f.Inspect(f.ctx(), name); err == nil && found {
		f.unchangedRow(name, do)
		return
	}
	do()
	if _, found, _ := f.Inspect(f.ctx(), name); found {
		f.Errorf("the write made a lease %q", name)
	}
}

var errOfApplication = errors.New("the application does not want to")

// transactions tests what a live token may do, and what the application's own failures do.
func (g *ground) transactions(t *testing.T) {
	live := func(t *testing.T) (job, *fixture, fencepost.Token) {
		j, f := g.newJob(t), &fixture{T: t, Store: g.Store()}
		return j, f, f.acquire(j.name, long).Token
	}
	t.Run("ALiveTokenWrites", func(t *testing.T) {
		for name := range (job{ground: g}).fencedWrites(t.Context(), fencepost.Token{}) {
			j, f, token := live(t)
			f.unchangedRow(j.name, func() {
				if err := j.fencedWrites(t.Context(), token)[name](); err != nil || j.status(t, 0) != "completed" {
					t.Errorf("%s: %v, status %s", name, err, j.status(t, 0))
				}
			})
			f.release(token)
		}
	})
	t.Run("ExecCountsRows", func(t *testing.T) {
		j, _, token := live(t)
		for stmt, want := range map[string]int64{
			"UPDATE runs SET status = 'counted' WHERE id = {id} OR id = {id} + 1": 2,
			"UPDATE runs SET status = 'counted' WHERE id = -{id}":                 0, // no row of the application's is not a refusal
		} {
			if n, err := j.Exec(t.Context(), token, render(stmt, token, j.id)); err != nil || n != want {
				t.Errorf("%s: %d rows, %v; want %d", stmt, n, err, want)
			}
		}
	})
	t.Run("AnErrorOfTheApplicationRollsBack", func(t *testing.T) {
		j, f, token := live(t)
		err := j.Tx(t.Context(), token, func(tx Tx) error {
			if _, err := tx.Exec(t.Context(), render(plainComplete, token, j.id)); err != nil {
				return err
			}
			return errOfApplication
		})
		if !errors.Is(err, errOfApplication) || errors.Is(err, fencepost.ErrUnknown) || errors.Is(err, fencepost.ErrStale) || j.status(t, 0) != "running" {
			t.Errorf("Tx = %v, status %s", err, j.status(t, 0))
		}
		f.release(token)
	})
	t.Run("APanicRollsBack", func(t *testing.T) {
		j, f, token := live(t)
		func() {
			defer func() {
				if r := recover(); r != errOfApplication {
					t.Errorf("recovered %v", r)
				}
			}()
			j.Tx(t.Context(), token, func(tx Tx) error {
				tx.Exec(t.Context(), render(plainComplete, token, j.id))
				panic(errOfApplication)
			})
		}()
		if status := j.status(t, 0); status != "running" {
			t.Errorf("status %s", status)
		}
		f.release(token) // no lock was left behind
	})
	t.Run("AWrongStatementIsTheApplicationsError", func(t *testing.T) {
		j, f, token := live(t)
		_, err := j.Exec(t.Context(), token, "UPDATE no_such_table SET a = 1")
		if err == nil || errors.Is(err, fencepost.ErrStale) || errors.Is(err, fencepost.ErrUnknown) || errors.Is(err, fencepost.ErrHeld) {
			t.Errorf("Exec = %v", err)
		}
		f.release(token)
	})
	t.Run("ACancelledContextWritesNothing", func(t *testing.T) {
		j, f, token := live(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, write := range j.fencedWrites(ctx, token) {
			if err := write(); !errors.Is(err, context.Canceled) || errors.Is(err, fencepost.ErrStale) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if status := j.status(t, 0); status != "running" {
			t.Errorf("status %s", status)
		}
		f.release(token)
	})
}
