package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

// A context that ends during the wait for the lock ends the wait, says that nothing was applied, and nothing is.
func TestTheEndOfAContextEndsTheWaitForTheLock(t *testing.T) {
	path := newFile(t)
	store := openStore(t, path)
	mustExec(t, store.DB(), "CREATE TABLE results (what TEXT)")
	grant := acquire(t, store, "job", "A", time.Hour)
	unlock := lockFile(t, path)
	for name, operate := range map[string]func(ctx context.Context) error{
		"Acquire": func(ctx context.Context) error {
			_, err := store.Acquire(ctx, fencepost.AcquireRequest{Name: "new", Owner: "A", TTL: time.Hour})
			return err
		},
		"Renew": func(ctx context.Context) error {
			_, err := store.Renew(ctx, []fencepost.Token{grant.Token})
			return err
		},
		"Release": func(ctx context.Context) error { _, err := store.Release(ctx, grant.Token); return err },
		"Preempt": func(ctx context.Context) error {
			_, err := store.Preempt(ctx, fencepost.PreemptRequest{Name: "job", Fence: 1, Owner: "B", TTL: time.Hour})
			return err
		},
		"Want": func(ctx context.Context) error { _, err := store.Want(ctx, "job"); return err },
		"Record": func(ctx context.Context) error {
			return store.Record(ctx, fencepost.Event{Lease: "job", Kind: "lost", Fence: 1})
		},
		"Exec": func(ctx context.Context) error {
			_, err := store.Exec(ctx, grant.Token, "INSERT INTO results VALUES ('late')")
			return err
		},
		"Tx": func(ctx context.Context) error {
			return store.Tx(ctx, grant.Token, func(*sql.Tx) error { return errors.New("fn ran without the lock") })
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := operate(ctx)
		cancel()
		if !errors.Is(err, fencepost.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fencepost.ErrUnknown) {
			t.Errorf("%s: %v; want ErrUnavailable and the end of the context", name, err)
		}
	}
	unlock()
	if err := store.Check(t.Context(), grant.Token); err != nil {
		t.Error(err)
	}
	if n := number(t, store.DB(), "SELECT (SELECT count(*) FROM results) + (SELECT count(*) FROM fencepost_leases) + (SELECT count(*) FROM fencepost_events)"); n != 2 {
		t.Errorf("something was applied: %d rows instead of the lease and its event", n)
	}
}

// A context that had ended before: nothing was asked, nothing applied, and the error says so.
func TestAContextThatEndedBeforeIsUnavailable(t *testing.T) {
	store := openStore(t, newFile(t))
	token := acquire(t, store, "job", "A", time.Hour).Token
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, operate := range map[string]func() error{
		"Acquire": func() error {
			_, err := store.Acquire(ctx, fencepost.AcquireRequest{Name: "new", Owner: "A", TTL: time.Hour})
			return err
		},
		"Renew":    func() error { _, err := store.Renew(ctx, []fencepost.Token{token}); return err },
		"Release":  func() error { _, err := store.Release(ctx, token); return err },
		"Check":    func() error { return store.Check(ctx, token) },
		"Tx":       func() error { return store.Tx(ctx, token, func(*sql.Tx) error { return errors.New("fn ran") }) },
		"Exec":     func() error { _, err := store.Exec(ctx, token, "DELETE FROM missing"); return err },
		"Migrate":  func() error { _, err := sqlite.Migrate(ctx, store.DB(), sqlite.WithPrefix("new_")); return err },
		"Adopt":    func() error { _, err := sqlite.Adopt(ctx, store.DB(), "missing"); return err },
		"Diagnose": func() error { _, err := sqlite.Diagnose(ctx, store.DB()); return err },
		"Version":  func() error { _, _, err := sqlite.SchemaVersion(ctx, store.DB()); return err },
	} {
		if err := operate(); !errors.Is(err, fencepost.ErrUnavailable) || !errors.Is(err, context.Canceled) || errors.Is(err, fencepost.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A context that ends inside of the function of Tx takes everything back, also when the function says that all is well.
func TestAContextThatEndsInsideOfTxTakesAllBack(t *testing.T) {
	store := openStore(t, newFile(t))
	mustExec(t, store.DB(), "CREATE TABLE results (what TEXT)")
	token := acquire(t, store, "job", "A", time.Hour).Token
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		err := store.Tx(ctx, token, func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT INTO results VALUES ('late')")
			cancel()
			return err
		})
		if !errors.Is(err, fencepost.ErrUnavailable) || !errors.Is(err, context.Canceled) || errors.Is(err, fencepost.ErrUnknown) {
			t.Fatalf("%v; want ErrUnavailable: the commit was never asked for", err)
		}
		if n := number(t, store.DB(), "SELECT count(*) FROM results"); n != 0 {
			t.Fatalf("%d rows", n)
		}
	}
	// Ended after the commit, it changes nothing.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := store.Exec(ctx, token, "INSERT INTO results VALUES ('in time')"); err != nil {
		t.Error(err)
	}
	cancel()
	if n := number(t, store.DB(), "SELECT count(*) FROM results"); n != 1 {
		t.Errorf("%d rows", n)
	}
}
