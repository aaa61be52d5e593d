package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/postgres"
)

// tapped is a store whose one connection, and that of its renewals, is counted.
func tapped(t *testing.T) (*postgres.Store, *wire) {
	t.Helper()
	_, plain := openStore(t)
	w := &wire{}
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) {
		w.tap(c)
		c.MaxConns = 1
		// A connection that idled on a busy machine would be asked first whether it lives.
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, w
}

// What leases cost is what they add to a job's own statements. The first round prepares the statements of a connection.
func TestEveryOperationIsOneRoundTrip(t *testing.T) {
	store, w := tapped(t)
	run(t, store.Pool(), "CREATE TABLE work (n int NOT NULL)", "INSERT INTO work VALUES (0)")
	for round := range 3 {
		check := func(what string, statements, trips int) {
			t.Helper()
			if round > 0 {
				w.want(t, what, statements, trips)
			}
			w.reset()
		}
		w.reset()
		token := acquire(t, store, "job", long).Token
		check("acquire", 1, 1)
		_, err := store.Acquire(t.Context(), request("job", long))
		wantHeld(t, err, false)
		check("a refused try", 1, 1)
		if err := renew(t.Context(), store, token); err != nil {
			t.Fatal(err)
		}
		check("renew", 1, 1)
		if n, err := store.Exec(t.Context(), token, "UPDATE work SET n = n + $1", 1); n != 1 || err != nil {
			t.Fatalf("%d rows, %v", n, err)
		}
		check("a fenced write", 2, 1)
		err = store.Tx(t.Context(), token, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "UPDATE work SET n = n + $1", 1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		// BEGIN goes with the guard.
		check("a fenced transaction", 4, 3)
		if err := store.Check(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		check("check", 1, 1)
		if _, err := store.Want(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		check("want", 1, 1)
		if out, err := store.Release(t.Context(), token); err != nil || !out.Changed || !out.Wanted {
			t.Fatalf("%+v, %v", out, err)
		}
		check("release", 1, 1)
		taken, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: token.Fence, Owner: "operator", TTL: long})
		if err != nil {
			t.Fatal(err)
		}
		check("preempt", 1, 1)
		if _, err := store.Release(t.Context(), taken.Token); err != nil {
			t.Fatal(err)
		}
	}
	if n := read[int](t, store.Pool(), "SELECT n FROM work"); n != 6 {
		t.Errorf("%d writes, want 6", n)
	}
}

// Whoever polls for a lease must not cost the server row versions, transaction ids or identity values.
func TestARefusedTryWritesNothing(t *testing.T) {
	server := testenv.PrivatePostgres(t, "autovacuum=off", "fsync=off")
	store, pool := openStoreAt(t, newDatabaseOn(t, server))
	held := acquire(t, store, "held", long).Token
	acquire(t, store, "busy", long)
	expire(t, pool, "busy")
	guarding := begin(t, pool, pgx.TxOptions{})
	run(t, guarding, "SELECT FROM fencepost_leases WHERE lease_name = 'busy' FOR KEY SHARE")

	type state struct {
		nextXID, events, lastEvent int64
		rows                       string
	}
	look := func() state {
		return state{
			nextXID:   read[int64](t, pool, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"),
			events:    read[int64](t, pool, "SELECT count(*) FROM fencepost_events"),
			lastEvent: read[int64](t, pool, "SELECT last_value FROM "+read[string](t, pool, "SELECT pg_get_serial_sequence('fencepost_events', 'id')")),
			rows:      read[string](t, pool, "SELECT string_agg(l::text || l.xmin || l.xmax || l.ctid, ';' ORDER BY lease_name) FROM fencepost_leases AS l"),
		}
	}
	before := look()
	for range 500 {
		_, err := store.Acquire(t.Context(), request("held", long))
		wantHeld(t, err, false)
		_, err = store.Acquire(t.Context(), request("busy", long))
		wantHeld(t, err, true)
	}
	wrong := held
	wrong.Owner = "somebody else"
	wantStale(t, renew(t.Context(), store, wrong), fencepost.ReasonNotGranted)
	_, err := store.Release(t.Context(), wrong)
	wantStale(t, err, fencepost.ReasonNotGranted)
	_, err = store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "held", Fence: held.Fence + 1, Owner: "operator"})
	wantStale(t, err, fencepost.ReasonNotGranted)
	if after := look(); after != before {
		t.Errorf("refused tries changed %+v into %+v", before, after)
	}
	// The same look sees a write.
	acquire(t, store, "another", long)
	if after := look(); after.nextXID == before.nextXID || after.events == before.events || after.lastEvent == before.lastEvent {
		t.Errorf("an acquisition went unseen: %+v", after)
	}
}

func TestTenThousandLeasesAreRenewedByOneStatement(t *testing.T) {
	const leases, beats = 10_000, 4
	server := testenv.PrivatePostgres(t, "fsync=off", "synchronous_commit=off")
	_, plain := openStoreAt(t, newDatabaseOn(t, server))
	w := &wire{}
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) { w.tap(c); c.MaxConns = 8 })
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	client := fencepost.New(store, fencepost.Options{TTL: 20 * time.Second})
	held := make([]*fencepost.Lease, leases)
	var wg sync.WaitGroup
	for part := range 8 {
		wg.Go(func() {
			for i := part; i < leases; i += 8 {
				lease, err := client.TryAcquire(t.Context(), fmt.Sprintf("job-%05d", i))
				if err != nil {
					t.Errorf("acquiring: %v", err)
					return
				}
				held[i] = lease
			}
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		// Ten thousand leases that are lost later would disturb the tests that come then.
		var wg sync.WaitGroup
		for part := range 8 {
			wg.Go(func() {
				for i := part; i < leases; i += 8 {
					if held[i] != nil {
						held[i].Release(context.Background())
					}
				}
			})
		}
		wg.Wait()
	})
	if t.Failed() {
		return
	}
	const renewal = "renewed AS ("
	// Leases that were acquired at different times come to share one statement.
	same := func() bool {
		return read[bool](t, plain, "SELECT count(DISTINCT renewed_at) > 0 AND max(renewed_at) - min(renewed_at) < interval '4 s' FROM fencepost_leases")
	}
	w.reset()
	eventually(t, "the first beats", func() bool { return w.containing(renewal) >= 2 && same() })
	begun := read[time.Time](t, plain, "SELECT clock_timestamp()")
	w.reset()
	updates := func() (all, hot int64) {
		// Statistics arrive when the session that caused them idles.
		run(t, plain, "SELECT pg_stat_clear_snapshot()")
		err := plain.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'fencepost_leases'").Scan(&all, &hot)
		if err != nil {
			t.Fatal(err)
		}
		return all, hot
	}
	all0, hot0 := updates()
	eventually(t, "more beats", func() bool { return w.containing(renewal) >= beats })
	eventually(t, "the end of the last", func() bool {
		return read[bool](t, plain, "SELECT bool_and(renewed_at > $1) FROM fencepost_leases", begun)
	})
	n := w.containing(renewal)
	eventually(t, "the statistics", func() bool { all, _ := updates(); return all-all0 >= int64((n-1)*leases) })
	all, hot := updates()
	t.Logf("%d renewals of %d leases: %d updates, %d of them heap-only", n, leases, all-all0, hot-hot0)
	if all-all0 > int64((n+1)*leases) || all-all0 < int64((n-1)*leases) {
		t.Errorf("%d statements updated %d rows: they did not renew all leases each", n, all-all0)
	}
	if 10*(hot-hot0) < 9*(all-all0) {
		t.Errorf("only %d of %d updates were heap-only", hot-hot0, all-all0)
	}
	for _, lease := range held {
		if err := lease.Err(); err != nil && !errors.Is(err, fencepost.ErrBusy) {
			t.Fatalf("lost: %v", err)
		}
	}
}

// The books are kept at the price of a fenced write: no look comes first.
func TestTheBooksOfARunCostOneRoundTripEach(t *testing.T) {
	store, w := tapped(t)
	ctx := t.Context()
	token := acquire(t, store, "job", long).Token
	for round := range 3 {
		check := func(what string, statements int, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if round > 0 {
				w.want(t, what, statements, 1)
			}
			w.reset()
		}
		id := fmt.Sprintf("run-%d", round)
		letter, err := store.KeepLetter(ctx, refusedCompletion(id))
		if err != nil {
			t.Fatal(err)
		}
		w.reset()
		_, err = store.StartRun(ctx, fencepost.RunStart{Token: token, ID: id})
		check("a start", 3, err)
		check("progress", 2, store.ReportRun(ctx, fencepost.RunReport{Token: token, ID: id, Progress: []byte(`1`)}))
		_, _, err = finish(t, store, token, id)
		check("a completion", 2, err)
		_, err = store.AdoptLetter(ctx, fencepost.Adoption{Token: token, Letter: letter, RunID: id + "-adopted"})
		check("an adoption", 2, err)
		_, err = store.Prune(ctx, fencepost.PruneRequest{Token: token, Lease: "job", Keep: 1, Limit: 10})
		check("pruning", 2, err)
		_, err = store.LastSlot(ctx, "job")
		check("the last slot", 1, err)
	}
}
