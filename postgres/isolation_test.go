package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

var levels = []string{"read committed", "repeatable read", "serializable"}

// atLevel is a store whose sessions all default to an isolation level.
func atLevel(t *testing.T, level string) *postgres.Store {
	t.Helper()
	store, _ := openStoreAt(t, withParameter(t, newDatabase(t), "default_transaction_isolation", level))
	if got := read[string](t, store.Pool(), "SHOW transaction_isolation"); got != level {
		t.Fatalf("the sessions are at %s", got)
	}
	return store
}

// Locking and updating are two steps of one statement, each with its own look at a row that others change meanwhile: whatever the
// interleaving, a fence has one owner, and who holds a lease is never told that it does not.
func TestTakersRenewalsAndReleasesTogether(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			store := atLevel(t, level)
			const workers, rounds = 6, 30
			var mu sync.Mutex
			granted := map[int64]string{}
			releases := 0
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for round := range rounds {
						owner := fmt.Sprintf("owner-%d-%d", w, round)
						g, err := store.Acquire(t.Context(), fencepost.AcquireRequest{Name: "job", Owner: owner, TTL: long})
						if errors.Is(err, fencepost.ErrHeld) {
							continue
						}
						if err != nil {
							t.Errorf("Acquire: %v", err)
							continue
						}
						mu.Lock()
						if other, twice := granted[g.Token.Fence]; twice {
							t.Errorf("fence %d was granted to %s and to %s", g.Token.Fence, other, owner)
						}
						granted[g.Token.Fence] = owner
						mu.Unlock()
						if err := renew(t.Context(), store, g.Token); err != nil && !errors.Is(err, fencepost.ErrBusy) {
							t.Errorf("the holder's renewal: %v", err)
						}
						if out, err := store.Release(t.Context(), g.Token); err != nil || !out.Changed {
							t.Errorf("the holder's release: %+v, %v", out, err)
							continue
						}
						mu.Lock()
						releases++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if i := inspect(t, store, "job"); i.Fence != int64(len(granted)) || i.State() != fencepost.StateFree || releases != len(granted) {
				t.Errorf("%d grants, %d releases, and the row is %+v", len(granted), releases, i)
			}
			if n := read[int](t, store.Pool(), "SELECT count(*)::int FROM fencepost_events"); n != 2*len(granted) {
				t.Errorf("%d events of %d grants and releases", n, len(granted))
			}
		})
	}
}

// A lease that runs out is taken while its holder's renewal is on the way: exactly one of them gets its way, and both know.
func TestATakeoverMeetsARenewal(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			store := atLevel(t, level)
			for round := range 40 {
				name := fmt.Sprintf("job-%d", round)
				old := acquire(t, store, name, long).Token
				expire(t, store.Pool(), name)
				var renewed, taken error
				var wg sync.WaitGroup
				wg.Go(func() { renewed = renew(t.Context(), store, old) })
				wg.Go(func() { _, taken = store.Acquire(t.Context(), request(name, long)) })
				wg.Wait()
				if !errors.Is(renewed, fencepost.ErrStale) {
					t.Fatalf("the renewal of an expired lease: %v", renewed)
				}
				if taken != nil {
					t.Fatalf("the takeover: %v", taken)
				}
				if i := inspect(t, store, name); i.Fence != 2 || i.State() != fencepost.StateHeld {
					t.Fatalf("row %+v", i)
				}
			}
		})
	}
}

// Serialization failures mean neither "lost" nor "nothing to do".
func TestSerializationFailuresAreRetried(t *testing.T) {
	store := atLevel(t, "serializable")
	pool := store.Pool()
	run(t, pool, "CREATE TABLE work (n int NOT NULL)", "INSERT INTO work VALUES (0)")
	var tokens []fencepost.Token
	for i := range 10 {
		tokens = append(tokens, acquire(t, store, fmt.Sprintf("job-%d", i), long).Token)
	}
	ctx, stop := context.WithCancel(t.Context())
	var failures atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				// Reads all the leases and the work, and writes both: every overlap is a conflict.
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "UPDATE fencepost_leases SET holder = 'touched' WHERE lease_name = 'job-0' AND (SELECT count(*) FROM fencepost_leases, work) >= 0")
					if err == nil {
						_, err = tx.Exec(ctx, "UPDATE work SET n = n + 0")
					}
					return err
				})
				if code(err) == "40001" {
					failures.Add(1)
				}
			}
		})
	}
	const writes = 30
	for range writes {
		n, err := store.Exec(t.Context(), tokens[0], "UPDATE work SET n = n + 1")
		if err != nil || n != 1 {
			t.Fatalf("a fenced write: %d rows, %v", n, err)
		}
		renewals, err := store.Renew(t.Context(), tokens)
		if err != nil {
			t.Fatalf("a renewal: %v", err)
		}
		for i, r := range renewals {
			if r.Err != nil && !errors.Is(r.Err, fencepost.ErrBusy) {
				t.Fatalf("the renewal of %v: %v", tokens[i], r.Err)
			}
		}
	}
	eventually(t, "a serialization failure", func() bool { return failures.Load() > 0 })
	stop()
	wg.Wait()
	if n := read[int](t, pool, "SELECT n FROM work"); n != writes {
		t.Errorf("%d writes were reported and %d are there", writes, n)
	}
}
