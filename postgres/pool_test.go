package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

// Leases that pin connections make everything hang once there are as many jobs as connections.
func TestManyLeasesAndWaitersOnAFewConnections(t *testing.T) {
	_, plain := openStore(t)
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) { c.MaxConns = 5 })
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	client := fencepost.New(store, fencepost.Options{TTL: 10 * time.Second})
	const held, waiters = 20, 50
	var leases []*fencepost.Lease
	for i := range held {
		lease, err := client.TryAcquire(t.Context(), fmt.Sprintf("job-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
	}
	var granted atomic.Int64
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			other := fencepost.New(store, fencepost.Options{TTL: 10 * time.Second})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := other.Do(ctx, fmt.Sprintf("job-%d", i%held), func(context.Context, *fencepost.Lease) error { granted.Add(1); return nil })
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		})
	}
	eventually(t, "waiters that are marked for", func() bool {
		return read[int](t, plain, "SELECT count(*)::int FROM fencepost_leases WHERE wanted") == held
	})
	if n := read[int](t, plain, "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"); n != 0 {
		t.Errorf("%d sessions idle in a transaction", n)
	}
	for _, lease := range leases {
		if _, err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if granted.Load() != waiters {
		t.Errorf("%d of %d waiters got their lease", granted.Load(), waiters)
	}
	eventually(t, "all connections to be given back", func() bool { return pool.Stat().AcquiredConns() == 0 })
}

// A job that holds every connection of the pool must not keep its own lease from being renewed.
func TestRenewalsDoNotNeedThePool(t *testing.T) {
	_, plain := openStore(t)
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) { c.MaxConns = 2 })
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	token := acquire(t, store, "job", long).Token
	begin(t, pool, pgx.TxOptions{})
	begin(t, pool, pgx.TxOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := renew(ctx, store, token); err != nil {
		t.Fatalf("with the pool used up: %v", err)
	}
	if n := read[int](t, plain, "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%fencepost renewals%'"); n != 1 {
		t.Errorf("%d connections for renewals", n)
	}
}

// Where the server gives no further connection, renewals go through the pool.
func TestRenewalsFallBackToThePool(t *testing.T) {
	_, plain := openStore(t)
	var refuse atomic.Bool
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) {
		c.MaxConns, c.MinConns = 1, 1
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			if refuse.Load() {
				return fmt.Errorf("no more connections")
			}
			return nil
		}
	})
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	token := acquire(t, store, "job", long).Token
	refuse.Store(true)
	if err := renew(t.Context(), store, token); err != nil {
		t.Fatal(err)
	}
}

// The connections beside the pool are set up as the pool's own are: a hook may give them their password, role or search_path.
func TestConnectionsBesideThePoolPassItsHooks(t *testing.T) {
	_, plain := openStore(t)
	var before, after, heard atomic.Int64
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { before.Add(1); return nil }
		c.AfterConnect = func(context.Context, *pgx.Conn) error { after.Add(1); return nil }
		c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { heard.Add(1) }
		c.ConnConfig.RuntimeParams["application_name"] = "billing"
	})
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	token := acquire(t, store, "job", long).Token
	if before.Load() != 1 || after.Load() != 1 {
		t.Fatalf("hooks ran %d and %d times for one connection", before.Load(), after.Load())
	}
	if err := renew(t.Context(), store, token); err != nil {
		t.Fatal(err)
	}
	wake, stop, err := store.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	<-wake // it listens now
	if before.Load() != 3 || after.Load() != 3 {
		t.Errorf("hooks ran %d and %d times for three connections", before.Load(), after.Load())
	}
	names := read[string](t, plain, "SELECT string_agg(application_name, ',' ORDER BY application_name) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'billing%'")
	if names != "billing,billing (fencepost renewals),billing (fencepost waiters)" {
		t.Errorf("connections %s", names)
	}
	if _, err := store.Want(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Release(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	select {
	case <-wake:
	case <-time.After(patience):
		t.Error("the release woke nobody")
	}
	if heard.Load() != 0 {
		t.Errorf("the caller's own handler heard %d of our notifications", heard.Load())
	}
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	url := newDatabase(t)
	pool := openPool(t, url)
	if _, err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	pool.Close()
	running := goleak.IgnoreCurrent()
	store, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	token := acquire(t, store, "job", long).Token
	if err := renew(t.Context(), store, token); err != nil {
		t.Fatal(err)
	}
	wake, stop, err := store.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	<-wake
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, running)
	stop()
	// Closed twice, and watched after the end: nothing happens.
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	_, stop, err = store.Watch(t.Context(), "job")
	if err != nil {
		t.Error(err)
	}
	stop()
	goleak.VerifyNone(t, running)
}

// The listening connection breaks like any other.
func TestWaitersAreWokenAfterTheirConnectionBroke(t *testing.T) {
	store, pool := openStore(t)
	wake, stop, err := store.Watch(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	<-wake
	for round := range 3 {
		if n := read[int](t, pool, "SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%fencepost waiters'"); n != 1 {
			t.Fatalf("%d listening connections", n)
		}
		select {
		case <-wake: // what happened while nobody listened has to be looked at
		case <-time.After(patience):
			t.Fatal("not woken after listening again")
		}
		token := acquire(t, store, "job", long).Token
		if marked, err := store.Want(t.Context(), "job"); err != nil || !marked {
			t.Fatal(marked, err)
		}
		if _, err := store.Release(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wake:
		case <-time.After(patience):
			t.Fatalf("round %d: the release woke nobody", round)
		}
	}
}
