package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/postgres"
)

// viaProxy is a store on the same database whose link can be disturbed.
func viaProxy(t *testing.T, direct *pgxpool.Pool, change func(*pgxpool.Config)) (*postgres.Store, *testenv.Proxy) {
	t.Helper()
	proxy := testenv.NewProxy(t, testenv.Postgres(t).Addr())
	pool := poolWith(t, direct.Config().ConnString(), func(c *pgxpool.Config) {
		c.ConnConfig.Host, c.ConnConfig.Port, c.ConnConfig.Fallbacks = hostPort(t, proxy.Addr())
		if change != nil {
			change(c)
		}
	})
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, proxy
}

// A reply that is lost after the server has applied the request must not make anything happen twice, nor be called a failure.
func TestALostReplyIsAnUnknownOutcome(t *testing.T) {
	direct, pool := openStore(t)
	store, proxy := viaProxy(t, pool, nil)
	run(t, pool, "CREATE TABLE work (n int NOT NULL)", "INSERT INTO work VALUES (0)")
	const rounds = 60
	for round := range rounds {
		name := fmt.Sprintf("job-%d", round%3)
		r := request(name, long)
		proxy.DropNextReply("granted AS")
		_, err := store.Acquire(t.Context(), r)
		if !errors.Is(err, fencepost.ErrUnknown) || errors.Is(err, fencepost.ErrUnavailable) {
			t.Fatalf("the acquisition whose reply was lost: %v", err)
		}
		// Asking again with the same owner token finds the grant.
		g, err := store.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if i := inspect(t, direct, name); i.Owner != r.Owner || i.Fence != g.Token.Fence || i.Fence != int64(round/3+1) {
			t.Fatalf("granted %v, the row is %+v", g.Token, i)
		}
		proxy.DropNextReply("UPDATE work")
		if _, err := store.Exec(t.Context(), g.Token, "UPDATE work SET n = n + 1"); !errors.Is(err, fencepost.ErrUnknown) {
			t.Fatalf("the fenced write whose reply was lost: %v", err)
		}
		err = store.Tx(t.Context(), g.Token, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "UPDATE work SET n = n + 1")
			proxy.DropNextReply("commit")
			return err
		})
		if !errors.Is(err, fencepost.ErrUnknown) {
			t.Fatalf("the commit whose reply was lost: %v", err)
		}
		proxy.DropNextReply("released AS")
		if _, err := store.Release(t.Context(), g.Token); !errors.Is(err, fencepost.ErrUnknown) {
			t.Fatalf("the release whose reply was lost: %v", err)
		}
		if out, err := store.Release(t.Context(), g.Token); err != nil || out.Changed {
			t.Fatalf("the release again: %+v, %v", out, err)
		}
	}
	if n := read[int](t, pool, "SELECT n FROM work"); n != 2*rounds {
		t.Errorf("%d writes were sent once each, %d were done", 2*rounds, n)
	}
	if n := read[int](t, pool, "SELECT count(*)::int FROM fencepost_events"); n != 2*rounds {
		t.Errorf("%d events of %d grants and releases", n, 2*rounds)
	}
}

// What was never sent is certain.
func TestAServerThatIsGoneIsUnavailable(t *testing.T) {
	_, pool := openStore(t)
	store, proxy := viaProxy(t, pool, nil)
	token := acquire(t, store, "job", long).Token
	proxy.Refuse()
	proxy.Cut()
	defer proxy.Restore()
	// The connections of the pool may still believe in the link: once each.
	eventually(t, "every connection to be given up", func() bool {
		_, err := store.Acquire(t.Context(), request("job", long))
		return errors.Is(err, fencepost.ErrUnavailable)
	})
	if err := renew(t.Context(), store, token); !errors.Is(err, fencepost.ErrUnavailable) {
		t.Errorf("a renewal: %v", err)
	}
	if _, err := store.Exec(t.Context(), token, "SELECT 1"); !errors.Is(err, fencepost.ErrUnavailable) {
		t.Errorf("a fenced write: %v", err)
	}
}

// The context ends while the server is applying.
func TestAnOperationThatIsGivenUpIsUnknown(t *testing.T) {
	direct, pool := openStore(t)
	store, proxy := viaProxy(t, pool, nil)
	token := acquire(t, store, "warm", long).Token
	if err := renew(t.Context(), store, token); err != nil {
		t.Fatal(err)
	}
	for name, op := range map[string]func(context.Context) error{
		"Acquire": func(ctx context.Context) error { _, err := store.Acquire(ctx, request("job", long)); return err },
		"Renew":   func(ctx context.Context) error { return renew(ctx, store, token) },
		"Exec":    func(ctx context.Context) error { _, err := store.Exec(ctx, token, "SELECT 1"); return err },
	} {
		if _, err := store.Exec(t.Context(), token, "SELECT 1"); err != nil {
			t.Fatal(err)
		}
		proxy.Hold(testenv.ToServer)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- op(ctx) }()
		proxy.AwaitHeld(t, testenv.ToServer)
		cancel()
		if err := <-done; !errors.Is(err, fencepost.ErrUnknown) && !errors.Is(err, fencepost.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		proxy.Restore()
	}
	if err := direct.Check(t.Context(), token); err != nil {
		t.Error(err)
	}
}

// A session that is ended in the middle of a write says so with its last words, and a pooler says the like when it lost the server: neither
// tells whether the write was committed before.
func TestASessionThatEndsInTheMiddleLeavesTheOutcomeUnknown(t *testing.T) {
	store, pool := openStore(t)
	creating := begin(t, pool, pgx.TxOptions{})
	run(t, creating, "INSERT INTO fencepost_leases (lease_name, owner_token, fence_token) VALUES ('job', 'first', 1)")
	done := make(chan error, 1)
	go func() { _, err := store.Acquire(t.Context(), request("job", long)); done <- err }()
	awaitBlocked(t, pool, "created AS")
	run(t, pool, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%created AS%'")
	if err := <-done; code(err) != "57P01" || !errors.Is(err, fencepost.ErrUnknown) || errors.Is(err, fencepost.ErrUnavailable) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
}

// An administrator ends sessions all the time: renewals go on.
func TestTerminatedSessionsCostNoLease(t *testing.T) {
	direct, pool := openStore(t)
	url := withParameter(t, pool.Config().ConnString(), "application_name", "victim")
	store, err := postgres.New(t.Context(), poolWith(t, url, func(c *pgxpool.Config) {
		c.MaxConnLifetime, c.MaxConnIdleTime, c.HealthCheckPeriod = 100*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	client := fencepost.New(store, fencepost.Options{TTL: 3 * time.Second, MinTTL: time.Second})
	lease, err := client.TryAcquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	fence, killed := lease.Token().Fence, 0
	first := inspect(t, direct, "job")
	seen := first.RenewedAt
	eventually(t, "a lease that outlives its sessions", func() bool {
		if err := lease.Err(); err != nil {
			t.Fatalf("lost: %v", err)
		}
		// After every renewal all of the store's sessions are ended: the next one finds none.
		if i := inspect(t, direct, "job"); i.RenewedAt.After(seen) {
			seen = i.RenewedAt
			killed += read[int](t, pool, "SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'victim%'")
		}
		return seen.After(first.LeasedUntil.Add(2*time.Second)) && killed > 2
	})
	if lease.Token().Fence != fence {
		t.Error("the fence changed")
	}
	if _, err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
