package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
)

const (
	// long is the TTL of a lease that must not end during a test.
	long = time.Hour
	// patience bounds what must happen.
	patience = 30 * time.Second
)

// execer is a pool, a connection or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func run(t testing.TB, on execer, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := on.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// read is the first column of the first row.
func read[T any](t testing.TB, on execer, query string, args ...any) (v T) {
	t.Helper()
	if err := on.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// poolWith opens a pool whose configuration a test changes first.
func poolWith(t testing.TB, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

var owners atomic.Int64

func request(name string, ttl time.Duration) fencepost.AcquireRequest {
	return fencepost.AcquireRequest{Name: name, Owner: fmt.Sprintf("owner-%d", owners.Add(1)), Holder: "holder", TTL: ttl}
}

func acquire(t testing.TB, s fencepost.Store, name string, ttl time.Duration) fencepost.Grant {
	t.Helper()
	grant, err := s.Acquire(t.Context(), request(name, ttl))
	if err != nil {
		t.Fatalf("acquiring %q: %v", name, err)
	}
	return grant
}

func renew(ctx context.Context, s fencepost.Store, token fencepost.Token) error {
	renewals, err := s.Renew(ctx, []fencepost.Token{token})
	if err != nil {
		return err
	}
	return renewals[0].Err
}

func inspect(t testing.TB, s fencepost.Store, name string) fencepost.LeaseInfo {
	t.Helper()
	info, found, err := s.Inspect(t.Context(), name)
	if err != nil || !found {
		t.Fatalf("inspecting %q: found %v, %v", name, found, err)
	}
	return info
}

// expire ends a lease as time would.
func expire(t testing.TB, on execer, name string) {
	t.Helper()
	run(t, on, "UPDATE fencepost_leases SET leased_until = clock_timestamp() - interval '1 ms' WHERE lease_name = '"+name+"'")
}

func wantStale(t testing.TB, err error, reason fencepost.Reason) {
	t.Helper()
	if stale, ok := errors.AsType[*fencepost.StaleError](err); !ok || stale.Reason != reason {
		t.Errorf("got %v, want stale: %s", err, reason)
	}
}

func wantHeld(t testing.TB, err error, busy bool) *fencepost.HeldError {
	t.Helper()
	held, ok := errors.AsType[*fencepost.HeldError](err)
	if !ok || held.Busy != busy {
		t.Fatalf("got %v, want held, busy %v", err, busy)
	}
	return held
}

// eventually asks until it is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !so() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited %v for: %s", patience, what)
		}
	}
}

// awaitBlocked waits until a statement that contains a text waits for a lock.
func awaitBlocked(t testing.TB, on execer, text string) {
	t.Helper()
	eventually(t, "a blocked "+text, func() bool {
		return read[bool](t, on, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid())", text)
	})
}

// begin opens a transaction that ends with the test.
func begin(t testing.TB, pool *pgxpool.Pool, o pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

// hostPort is where a pool is to connect instead.
func hostPort(t testing.TB, addr string) (host string, port uint16, fallbacks []*pgconn.FallbackConfig) {
	t.Helper()
	host, number, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return host, uint16(n), nil
}

// code is the server's code of an error.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
