package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	moderncsqlite "modernc.org/sqlite"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
	"github.com/fencepost/fencepost/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) fencepost.Store {
		return openConformance(t, filepath.Join(t.TempDir(), "leases.db"))
	})
}

func TestTheBooksOfRuns(t *testing.T) {
	storetest.Runs(t, func(t *testing.T) storetest.RunBooks {
		return openConformance(t, filepath.Join(t.TempDir(), "leases.db"))
	})
}

// conformanceStore can raise a fence, which the protocol cannot.
type conformanceStore struct{ *sqlite.Store }

func (s conformanceStore) SetFence(ctx context.Context, name string, fence int64) error {
	_, err := s.DB().ExecContext(ctx, "UPDATE fencepost_leases SET fence_token = ? WHERE lease_name = ?", fence, name)
	return err
}

func openConformance(t *testing.T, path string) conformanceStore {
	t.Helper()
	store, err := sqlite.Open(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conformanceStore{store}
}

// SQLite knows one isolation level. What differs between applications is how their transactions begin: only a deferred one
// can have read before it becomes a writer.
func TestFencing(t *testing.T) {
	const (
		held   = "l.lease_name = '{name}' AND l.owner_token = '{owner}' AND l.fence_token = {fence} AND l.leased_until > unixepoch('subsec') * 1000"
		exists = "EXISTS (SELECT 1 FROM fencepost_leases l WHERE " + held + ")"
	)
	storetest.Fencing(t, storetest.Engine{
		Levels: []string{"immediate", "deferred"},
		Open: func(t *testing.T, level string) storetest.Database {
			path := filepath.Join(t.TempDir(), "leases.db")
			store := openConformance(t, path)
			query := url.Values{"_pragma": {"busy_timeout(30000)"}, "_txlock": {level}}
			pool, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { pool.Close() })
			return fencingDatabase{store, pool}
		},
		Complete:     "UPDATE runs SET status = 'completed', result = (SELECT fence_token FROM fencepost_leases WHERE lease_name = '{name}') WHERE id = {id}",
		SlowComplete: "UPDATE runs SET status = 'completed', result = conformance_gate('{gate}') WHERE id = {id}",
		Naive: []storetest.Naive{
			{
				Name:         "EXISTS",
				Complete:     "UPDATE runs SET status = 'completed' WHERE id = {id} AND " + exists,
				SlowComplete: "UPDATE runs SET status = 'completed', result = conformance_gate('{gate}') WHERE id = {id} AND " + exists,
				Insert:       "INSERT INTO reports (id, note) SELECT {id}, 'written' FROM fencepost_leases l WHERE " + held,
				// One writer per file, which reads what is newest: nothing can come in between.
				Stale: func(string, string) bool { return false },
			},
		},
		OneWriter: true,
	})
}

// fencingDatabase shows a file to the fencing suite: the store, and the application's own pool.
type fencingDatabase struct {
	store conformanceStore
	pool  *sql.DB
}

func (d fencingDatabase) Store() fencepost.Store { return d.store }

func (d fencingDatabase) Run(ctx context.Context, stmt string) error {
	_, err := d.pool.ExecContext(ctx, stmt)
	return err
}

func (d fencingDatabase) Text(ctx context.Context, query string) (string, error) {
	var text sql.NullString
	err := d.pool.QueryRowContext(ctx, query).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return text.String, err
}

func (d fencingDatabase) Begin(ctx context.Context) (storetest.Tx, error) {
	tx, err := d.pool.BeginTx(ctx, nil)
	return fencingTx{tx}, err
}

func (d fencingDatabase) Tx(ctx context.Context, token fencepost.Token, fn func(storetest.Tx) error) error {
	return sqlite.Tx(ctx, d.pool, token, func(tx *sql.Tx) error { return fn(fencingTx{tx}) })
}

func (d fencingDatabase) Exec(ctx context.Context, token fencepost.Token, stmt string) (int64, error) {
	return sqlite.Exec(ctx, d.pool, token, stmt)
}

// Waiting is not asked of an engine with one writer.
func (d fencingDatabase) Waiting(context.Context, string) (bool, error) { return false, nil }

// gates are the closed gates, by name.
var gates sync.Map // string -> chan struct{}

func init() {
	moderncsqlite.MustRegisterScalarFunction("conformance_gate", 1, func(_ *moderncsqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		if closed, ok := gates.Load(args[0]); ok {
			<-closed.(chan struct{})
		}
		return args[0], nil
	})
}

func (d fencingDatabase) CloseGate(_ context.Context, gate string) (open func(), err error) {
	closed := make(chan struct{})
	gates.Store(gate, closed)
	return func() { close(closed) }, nil
}

type fencingTx struct{ tx *sql.Tx }

func (t fencingTx) Exec(ctx context.Context, stmt string) (int64, error) {
	result, err := t.tx.ExecContext(ctx, stmt)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t fencingTx) Guard(ctx context.Context, token fencepost.Token) error {
	return sqlite.Guard(ctx, t.tx, token)
}

func (t fencingTx) Commit(context.Context) error { return t.tx.Commit() }
func (t fencingTx) Rollback()                    { t.tx.Rollback() }
