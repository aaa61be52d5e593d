package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

// paused tests that a holder which stands still in the middle of a guarded transaction does not keep the lease for ever: the
// server ends the transaction, the successor gets the lease, and the write is not committed.
func (g *ground) paused(t *testing.T) {
	takeOver := func(t *testing.T, j job) {
		t.Helper()
		until(t, "the successor to be granted the lease", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), attempt)
			defer cancel()
			_, err := j.Store().Acquire(ctx, fencepost.AcquireRequest{Name: j.name, Owner: "successor", TTL: long})
			return err == nil
		})
	}
	if g.PauseLimit != "" {
		t.Run("Guard", func(t *testing.T) {
			j, f := g.newJob(t), &fixture{T: t, Store: g.Store()}
			tx, err := j.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			if _, err := tx.Exec(t.Context(), g.PauseLimit); err != nil {
				t.Fatal(err)
			}
			token := f.acquire(j.name, 500*time.Millisecond).Token
			if err := tx.Guard(t.Context(), token); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), render(plainComplete, token, j.id)); err != nil {
				t.Fatal(err)
			}
			takeOver(t, j)
			if err := tx.Commit(t.Context()); err == nil {
				t.Error("the transaction that the server has ended reports a commit")
			}
			if status := j.status(t, 0); status != "running" {
				t.Errorf("status %s", status)
			}
		})
	}
	if g.TxEndsPaused {
		t.Run("Tx", func(t *testing.T) {
			j, f := g.newJob(t), &fixture{T: t, Store: g.Store()}
			token := f.acquire(j.name, 2*time.Second).Token
			took := false
			err := j.Tx(t.Context(), token, func(tx Tx) error {
				if _, err := tx.Exec(t.Context(), render(plainComplete, token, j.id)); err != nil {
					return err
				}
				if !took {
					takeOver(t, j)
					took = true
				}
				return nil
			})
			if err == nil || !took {
				t.Errorf("Tx = %v after the server has ended its transaction", err)
			}
			if status := j.status(t, 0); status != "running" {
				t.Errorf("status %s", status)
			}
		})
	}
}

// renewals tests that a long guarded transaction does not hold up the renewal of other leases, and that the renewal of its
// own is never taken for a loss.
func (g *ground) renewals(t *testing.T) {
	j, f := g.newJob(t), &fixture{T: t, Store: g.Store()}
	own, other := f.acquire(j.name, long), f.acquire(j.name+"-other", long)
	tx, err := j.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := tx.Guard(t.Context(), own.Token); err != nil {
		t.Fatal(err)
	}
	limit := patience
	if g.OneWriter {
		limit = attempt
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	renewals, err := j.Store().Renew(ctx, []fencepost.Token{own.Token, other.Token})
	if g.OneWriter {
		// Nobody else can write at all: the keeper tries again until its deadline.
		tx.Rollback()
		if err == nil && renewals[1].Err == nil {
			t.Error("renewed beside a guard, which therefore locks nothing")
		}
		return
	}
	if err != nil {
		t.Fatalf("Renew beside a guard: %v", err)
	}
	if err := renewals[0].Err; err != nil && !errors.Is(err, fencepost.ErrBusy) {
		t.Errorf("the guarded lease: %v; want it renewed or busy", err)
	}
	f.wantRenewed(renewals[1], other.Token.Name, other.LeasedUntil)
	if _, err := tx.Exec(t.Context(), render(plainComplete, own.Token, j.id)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatalf("the guarded write after a renewal: %v", err)
	}
	if status := j.status(t, 0); status != "completed" {
		t.Errorf("status %s", status)
	}
	f.wantRenewed(f.renewOne(own.Token), own.Token.Name, own.LeasedUntil)
}
