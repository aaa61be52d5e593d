package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

// guarded is a file with a lease that A holds, and the pool of an application with deferred transactions.
func guarded(t *testing.T, ttl time.Duration) (store *sqlite.Store, pool *sql.DB, token fencepost.Token) {
	t.Helper()
	path := newFile(t)
	store = openStore(t, path)
	pool = applicationPool(t, path, "deferred", "busy_timeout(30000)")
	mustExec(t, pool, "CREATE TABLE results (what TEXT)")
	return store, pool, acquire(t, store, "job", "A", ttl).Token
}

func preempt(t *testing.T, store *sqlite.Store, fence int64, owner string) fencepost.Grant {
	t.Helper()
	grant, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: fence, Owner: owner, TTL: time.Hour, Actor: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// A deferred transaction that has read sees the file as it was then, also when a lease has been taken over since. Its guard must not
// look at the old row.
func TestGuardRefusesATransactionThatIsTooOld(t *testing.T) {
	for name, between := range map[string]func(t *testing.T, store *sqlite.Store, pool *sql.DB){
		"taken over": func(t *testing.T, store *sqlite.Store, _ *sql.DB) { preempt(t, store, 1, "B") },
		"an unrelated write": func(t *testing.T, _ *sqlite.Store, pool *sql.DB) {
			mustExec(t, pool, "INSERT INTO results VALUES ('of another')")
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, pool, token := guarded(t, time.Hour)
			tx := begin(t, pool)
			number(t, tx, "SELECT count(*) FROM results")
			between(t, store, pool)
			err := sqlite.Guard(t.Context(), tx, token)
			if !errors.Is(err, fencepost.ErrBusy) || errors.Is(err, fencepost.ErrStale) {
				t.Errorf("%v; want ErrBusy: try again", err)
			}
			if _, err := tx.Exec("INSERT INTO results VALUES ('late')"); err == nil {
				t.Error("the transaction wrote after its guard had failed")
			}
			tx.Rollback()
			// The new attempt gets the true answer.
			tx = begin(t, pool)
			err = sqlite.Guard(t.Context(), tx, token)
			if stale := errors.Is(err, fencepost.ErrStale); stale != (name == "taken over") {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// Why the guard is a write: a SELECT holds nobody off, and goes on to show the lease as held after a takeover. SQLite refuses the late write, because
// the transaction's snapshot is too old, but by an error that says nothing of a lost lease.
func TestASelectDoesNotHoldOffATakeover(t *testing.T) {
	store, pool, token := guarded(t, time.Hour)
	selecting := begin(t, pool)
	if n := number(t, selecting, "SELECT count(*) FROM fencepost_leases WHERE lease_name = 'job' AND fence_token = 1 AND leased_until > unixepoch('subsec') * 1000"); n != 1 {
		t.Fatalf("the lease is not held: %d", n)
	}
	preempt(t, store, 1, "B") // would wait for a guard
	if n := number(t, selecting, "SELECT fence_token FROM fencepost_leases WHERE lease_name = 'job'"); n != 1 {
		t.Errorf("the transaction sees fence %d; a snapshot would still show 1", n)
	}
	if _, err := selecting.Exec("INSERT INTO results VALUES ('late')"); err == nil || !strings.Contains(err.Error(), "(517)") {
		t.Errorf("the write after the takeover: %v; want SQLITE_BUSY_SNAPSHOT, 517", err)
	}
	selecting.Rollback()

	guarding := begin(t, pool)
	if err := sqlite.Guard(t.Context(), guarding, token); !errors.Is(err, fencepost.ErrStale) {
		t.Errorf("guard: %v", err)
	}
}

// Until the guarded transaction ends nobody takes over.
func TestGuardHoldsOffATakeover(t *testing.T) {
	store, pool, token := guarded(t, time.Hour)
	tx := begin(t, pool)
	if err := sqlite.Guard(t.Context(), tx, token); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: 1, Owner: "B", TTL: time.Hour})
		done <- err
	}()
	mustExec(t, tx, "SAVEPOINT inner")
	mustExec(t, tx, "INSERT INTO results VALUES ('rolled back')")
	mustExec(t, tx, "ROLLBACK TO inner")
	mustExec(t, tx, "INSERT INTO results VALUES ('in time')")
	select {
	case err := <-done:
		t.Fatalf("taken over below a guard: %v", err)
	default:
	}
	if n := number(t, pool, "SELECT fence_token FROM fencepost_leases"); n != 1 {
		t.Errorf("fence %d below a guard", n)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := number(t, pool, "SELECT count(*) FROM results WHERE what = 'in time'"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// One who knows the fence, but not the owner token, is not the holder. Nor is one with a fence that was never granted.
func TestEveryFencedWriteAsksForTheOwner(t *testing.T) {
	store, pool, token := guarded(t, time.Hour)
	for _, other := range []fencepost.Token{
		{Name: "job", Owner: "B", Fence: 1},
		{Name: "job", Owner: "a", Fence: 1},
		{Name: "job", Owner: "A ", Fence: 1},
		{Name: "job", Owner: "A", Fence: 2},
		{Name: "JOB", Owner: "A", Fence: 1},
		{Name: "job ", Owner: "A", Fence: 1},
	} {
		tx := begin(t, pool)
		guard := sqlite.Guard(t.Context(), tx, other)
		tx.Rollback()
		_, exec := sqlite.Exec(t.Context(), pool, other, "INSERT INTO results VALUES ('foreign')")
		inTx := sqlite.Tx(t.Context(), pool, other, func(tx *sql.Tx) error { return errors.New("fn ran") })
		for what, err := range map[string]error{"Guard": guard, "Exec": exec, "Tx": inTx} {
			if !errors.Is(err, fencepost.ErrStale) {
				t.Errorf("%s with %v of %q: %v", what, other, other.Owner, err)
			}
		}
	}
	if _, err := store.Exec(t.Context(), token, "INSERT INTO results VALUES ('own')"); err != nil {
		t.Error(err)
	}
	if n := number(t, pool, "SELECT count(*) FROM results"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// Tx is done again as a whole when SQLite asks for it.
func TestTxRepeatsWhatSQLiteRefusesForTheMoment(t *testing.T) {
	_, pool, token := guarded(t, time.Hour)
	calls := 0
	err := sqlite.Tx(t.Context(), pool, token, func(tx *sql.Tx) error {
		if calls++; calls < 3 {
			// Another file's lock, or a SAVEPOINT too old: the real error of a real conflict.
			return busyError(t, pool)
		}
		_, err := tx.Exec("INSERT INTO results VALUES ('third')")
		return err
	})
	if err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
	if n := number(t, pool, "SELECT count(*) FROM results"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// busyError is SQLite's own answer to a connection that does not wait for the lock which the caller has.
func busyError(t *testing.T, pool *sql.DB) error {
	t.Helper()
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	mustExec(t, conn, "PRAGMA busy_timeout = 0")
	_, err = conn.ExecContext(t.Context(), "INSERT INTO results VALUES ('impatient')")
	if err == nil {
		t.Fatal("wrote beside the holder of the write lock")
	}
	mustExec(t, conn, "PRAGMA busy_timeout = 30000")
	return fmt.Errorf("in fn: %w", err)
}

// A transaction that a statement of its function ended has no fence any more: what comes after it must not be kept, and no success be claimed.
func TestNothingIsKeptAfterTheTransactionOfTxEndedWithin(t *testing.T) {
	interrupted := func(tx *sql.Tx) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		// Interrupted in the middle of writing, SQLite rolls the whole transaction back.
		tx.ExecContext(ctx, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO results SELECT 'many ' || i FROM n")
	}
	run := func(statement string) func(tx *sql.Tx) { return func(tx *sql.Tx) { tx.Exec(statement) } }
	for name, end := range map[string]func(tx *sql.Tx){
		"COMMIT":      run("COMMIT"),
		"ROLLBACK":    run("ROLLBACK"),
		"END":         run("/* the same as COMMIT */ END"),
		"OR ROLLBACK": run("INSERT OR ROLLBACK INTO results VALUES ('there')"),
		"interrupted": interrupted,
	} {
		for after, goOn := range map[string]func(tx *sql.Tx) error{
			"and no more": func(*sql.Tx) error { return nil },
			"and a write": func(tx *sql.Tx) error {
				_, err := tx.Exec("INSERT INTO results VALUES ('unfenced')")
				return err
			},
			"and a write whose error is lost": func(tx *sql.Tx) error {
				tx.Exec("INSERT INTO results VALUES ('unfenced')")
				return nil
			},
			"and a transaction": func(tx *sql.Tx) error {
				tx.Exec("BEGIN IMMEDIATE")
				_, err := tx.Exec("INSERT INTO results VALUES ('unfenced')")
				return err
			},
		} {
			t.Run(name+" "+after, func(t *testing.T) {
				_, pool, token := guarded(t, time.Hour)
				pool.SetMaxOpenConns(1)
				mustExec(t, pool, "CREATE UNIQUE INDEX once ON results (what)")
				mustExec(t, pool, "INSERT INTO results VALUES ('there')")
				err := sqlite.Tx(t.Context(), pool, token, func(tx *sql.Tx) error {
					mustExec(t, tx, "INSERT INTO results VALUES ('before')")
					end(tx)
					return goOn(tx)
				})
				if err == nil || errors.Is(err, fencepost.ErrUnknown) {
					t.Errorf("%v; want an error that is sure of itself", err)
				}
				if n := number(t, pool, "SELECT count(*) FROM results"); n != 1 {
					t.Errorf("%d rows kept", n-1)
				}
				// The connection is as good as new.
				if err := sqlite.Tx(t.Context(), pool, token, func(tx *sql.Tx) error {
					_, err := tx.Exec("INSERT INTO results VALUES ('fenced')")
					return err
				}); err != nil {
					t.Error(err)
				}
				mustExec(t, pool, "INSERT INTO results VALUES ('of the application')")
				if n := number(t, pool, "SELECT count(*) FROM results"); n != 3 {
					t.Errorf("%d rows in the end", n)
				}
			})
		}
	}
}
