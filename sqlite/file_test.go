package sqlite_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

func newFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "leases.db")
}

func openStore(t *testing.T, path string, opts ...sqlite.Option) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), "sqlite:"+path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return store
}

// applicationPool is a pool as an application would open it, with transactions of the given kind (deferred, immediate) and PRAGMAs.
func applicationPool(t *testing.T, path, txlock string, pragmas ...string) *sql.DB {
	t.Helper()
	pool, err := poolOf(path, txlock, pragmas...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

func poolOf(path, txlock string, pragmas ...string) (*sql.DB, error) {
	query := url.Values{"_pragma": pragmas, "_txlock": {txlock}}
	return sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
}

func mustExec(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func number(t *testing.T, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, query string, args ...any) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func acquire(t *testing.T, store fencepost.Store, name, owner string, ttl time.Duration) fencepost.Grant {
	t.Helper()
	grant, err := store.Acquire(t.Context(), fencepost.AcquireRequest{Name: name, Owner: owner, Holder: "holder of " + owner, TTL: ttl})
	if err != nil {
		t.Fatalf("acquire %q: %v", name, err)
	}
	return grant
}

// lockFile takes the file's write lock on a connection of its own; unlock gives it back.
func lockFile(t *testing.T, path string) (unlock func()) {
	t.Helper()
	pool := applicationPool(t, path, "immediate", "busy_timeout(30000)")
	tx, err := pool.BeginTx(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		pool.Close()
	}
}
