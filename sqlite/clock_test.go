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

// Short enough to run out while a test waits, long enough that the waiting operation has begun before.
const shortTTL = 300 * time.Millisecond

// waitExpired returns when the lease has run out by the clock that decides.
func waitExpired(t *testing.T, db *sql.DB, name string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for number(t, db, "SELECT leased_until > unixepoch('subsec') * 1000 FROM fencepost_leases WHERE lease_name = ?", name) == 1 {
		<-tick.C
	}
}

// A lease that runs out while an operation waits for the file's lock has run out: the time before the wait must not count.
// Once as Open sets its connections up, which repeats short waits, and once with one long wait inside of SQLite.
func TestTheClockIsReadAfterTheWaitForTheLock(t *testing.T) {
	type setting struct {
		name string
		open func(t *testing.T, path string) *sqlite.Store
	}
	onPool := func(txlock string) func(t *testing.T, path string) *sqlite.Store {
		return func(t *testing.T, path string) *sqlite.Store {
			store, err := sqlite.New(t.Context(), applicationPool(t, path, txlock, "busy_timeout(30000)", "journal_mode(WAL)"))
			if err != nil {
				t.Fatal(err)
			}
			return store
		}
	}
	settings := []setting{
		{"Open", func(t *testing.T, path string) *sqlite.Store { return openStore(t, path) }},
		{"immediate pool", onPool("immediate")},
		{"deferred pool", onPool("deferred")},
	}
	wantExpired := func(t *testing.T, err error) {
		t.Helper()
		stale, ok := errors.AsType[*fencepost.StaleError](err)
		if !ok || stale.Reason != fencepost.ReasonExpired {
			t.Errorf("got %v; want a refusal as expired", err)
		}
	}
	operations := map[string]func(t *testing.T, s *sqlite.Store, token fencepost.Token) error{
		"Guard": func(t *testing.T, s *sqlite.Store, token fencepost.Token) error {
			tx, err := s.DB().BeginTx(t.Context(), nil) // an immediate one waits here
			if err != nil {
				return err
			}
			defer tx.Rollback()
			return s.Guard(t.Context(), tx, token)
		},
		"Tx": func(t *testing.T, s *sqlite.Store, token fencepost.Token) error {
			return s.Tx(t.Context(), token, func(tx *sql.Tx) error {
				_, err := tx.Exec("INSERT INTO results VALUES ('late')")
				return err
			})
		},
		"Exec": func(t *testing.T, s *sqlite.Store, token fencepost.Token) error {
			_, err := s.Exec(t.Context(), token, "INSERT INTO results VALUES ('late')")
			return err
		},
		"Renew": func(t *testing.T, s *sqlite.Store, token fencepost.Token) error {
			renewals, err := s.Renew(t.Context(), []fencepost.Token{token})
			if err != nil {
				return err
			}
			return renewals[0].Err
		},
		"Release": func(t *testing.T, s *sqlite.Store, token fencepost.Token) error {
			released, err := s.Release(t.Context(), token)
			if released.Changed {
				t.Error("an expired lease was released")
			}
			return err
		},
	}
	for _, set := range settings {
		for name, operate := range operations {
			t.Run(set.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				path := newFile(t)
				store := set.open(t, path)
				look := applicationPool(t, path, "deferred", "busy_timeout(30000)")
				mustExec(t, look, "CREATE TABLE results (what TEXT)")
				grant := acquire(t, store, "job", "A", shortTTL)
				unlock := lockFile(t, path)
				begun, done := make(chan struct{}), make(chan error, 1)
				go func() {
					close(begun)
					done <- operate(t, store, grant.Token)
				}()
				<-begun
				waitExpired(t, look, "job")
				select {
				case err := <-done:
					t.Fatalf("ended while another held the write lock: %v", err)
				default:
				}
				unlock()
				wantExpired(t, <-done)
				if n := number(t, look, "SELECT count(*) FROM results"); n != 0 {
					t.Errorf("%d rows written under an expired lease", n)
				}
			})
		}
		t.Run(set.name+"/Acquire", func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			store := set.open(t, path)
			look := applicationPool(t, path, "deferred", "busy_timeout(30000)")
			acquire(t, store, "as long", "B", shortTTL)
			unlock := lockFile(t, path)
			type answer struct {
				grant fencepost.Grant
				err   error
			}
			begun, done := make(chan struct{}), make(chan answer, 1)
			go func() {
				close(begun)
				grant, err := store.Acquire(t.Context(), fencepost.AcquireRequest{Name: "job", Owner: "A", TTL: shortTTL})
				done <- answer{grant, err}
			}()
			<-begun
			waitExpired(t, look, "as long") // the wait is nearly as long as the lease that is asked for
			unlocked := number(t, look, "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)")
			unlock()
			got := <-done
			if got.err != nil {
				t.Fatal(got.err)
			}
			if start := got.grant.LeasedUntil.Add(-shortTTL); start.UnixMilli() < unlocked {
				t.Errorf("the lease began %d ms before it could be granted: part of it was spent waiting", unlocked-start.UnixMilli())
			}
		})
	}
}

// The columns of times take whole milliseconds only: times as text, or in seconds, would not order as the times do.
func TestTheTimeColumnsTakeOnlyMilliseconds(t *testing.T) {
	path := newFile(t)
	store := openStore(t, path)
	acquire(t, store, "job", "A", time.Hour)
	pool := applicationPool(t, path, "immediate", "busy_timeout(30000)")
	for _, column := range []string{"leased_until", "acquired_at", "renewed_at"} {
		for _, value := range []any{
			"2026-01-02 03:04:05", "2026-01-02 03:04:05.678", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+02:00", "tomorrow", "", []byte{1},
			1.5, 1767323045, // seconds, today
			0, -1,
		} {
			if _, err := pool.Exec("UPDATE fencepost_leases SET "+column+" = ?", value); err == nil {
				t.Errorf("%s took %T %v", column, value, value)
			}
		}
	}
	for _, value := range []any{"2026-01-02 03:04:05", "2026-01-02T03:04:05Z", 1.5, 1767323045, nil} {
		if _, err := pool.Exec("INSERT INTO fencepost_events (lease_name, kind, fence_token, at) VALUES ('job', 'lost', 1, ?)", value); err == nil {
			t.Errorf("at took %T %v", value, value)
		}
	}
	if err := store.Check(t.Context(), fencepost.Token{Name: "job", Owner: "A", Fence: 1}); err != nil {
		t.Errorf("after the refused writes: %v", err)
	}
}

// What the clock says is kept to the millisecond: a lease may end at most one millisecond early, never more, or a holder's
// own deadline would be later than the database's.
func TestALeaseIsNotShortenedByRounding(t *testing.T) {
	store := openStore(t, newFile(t))
	for range 300 {
		before := time.Now().UnixMicro()
		grant := acquire(t, store, "job", "A", time.Hour)
		if short := before - grant.LeasedUntil.Add(-time.Hour).UnixMicro(); short > 1000 {
			t.Fatalf("the lease began %d µs before it was asked for", short)
		}
		if _, err := store.Release(context.WithoutCancel(t.Context()), grant.Token); err != nil {
			t.Fatal(err)
		}
	}
}
