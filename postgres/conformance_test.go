package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/postgres"
	"github.com/fencepost/fencepost/storetest"
)

func TestConformance(t *testing.T) {
	server := testenv.PrivatePostgres(t, "fsync=off", "synchronous_commit=off")
	storetest.Run(t, func(t *testing.T) fencepost.Store { return openConformance(t, server, "") })
}

func TestTheBooksOfRuns(t *testing.T) {
	server := testenv.PrivatePostgres(t, "fsync=off", "synchronous_commit=off")
	storetest.Runs(t, func(t *testing.T) storetest.RunBooks { return openConformance(t, server, "") })
}

// conformanceStore can raise a fence, which the protocol cannot.
type conformanceStore struct{ *postgres.Store }

func (s conformanceStore) SetFence(ctx context.Context, name string, fence int64) error {
	_, err := s.Pool().Exec(ctx, "UPDATE fencepost_leases SET fence_token = $1 WHERE lease_name = $2", fence, name)
	return err
}

// openConformance opens a store on a new database, with every session at the given isolation level unless that is empty.
func openConformance(t *testing.T, server *testenv.Server, level string) conformanceStore {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	name := testenv.DatabaseName(t)
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server.URLFor(name))
	if err != nil {
		t.Fatal(err)
	}
	if level != "" {
		u.RawQuery += "&default_transaction_isolation=" + url.PathEscape(level)
	}
	pool, err := postgres.OpenPool(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.Open(t.Context(), u.String())
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

func TestFencing(t *testing.T) {
	const (
		readCommitted = "read committed"

		held   = "l.lease_name = '{name}' AND l.owner_token = '{owner}' AND l.fence_token = {fence} AND l.leased_until > clock_timestamp()"
		exists = "EXISTS (SELECT 1 FROM fencepost_leases l WHERE " + held + ")"
		slow   = "pg_advisory_xact_lock(hashtext('{gate}'))::text"
	)
	// The lease is read from the statement's or the transaction's snapshot, and not locked.
	stale := func(interleaving, level string) bool {
		switch interleaving {
		case storetest.RowChanged:
			return false // the condition is judged again with the time of then, or a serialization failure
		case storetest.OldSnapshot:
			return level != readCommitted
		}
		return true
	}
	// The subquery does not depend on the row: its answer is kept when the rest is judged again.
	existsStale := func(interleaving, level string) bool {
		return stale(interleaving, level) || interleaving == storetest.RowChanged && level == readCommitted
	}
	server := testenv.Postgres(t)
	storetest.Fencing(t, storetest.Engine{
		Levels: []string{readCommitted, "repeatable read", "serializable"},
		Open: func(t *testing.T, level string) storetest.Database {
			return fencingDatabase{openConformance(t, server, level)}
		},
		SlowComplete: "UPDATE runs SET status = 'completed', result = " + slow + " WHERE id = {id}",
		Naive: []storetest.Naive{
			{
				Name:         "UPDATE FROM",
				Complete:     "UPDATE runs SET status = 'completed' FROM fencepost_leases l WHERE id = {id} AND " + held,
				SlowComplete: "UPDATE runs SET status = 'completed', result = " + slow + " FROM fencepost_leases l WHERE id = {id} AND " + held,
				Insert:       "INSERT INTO reports (id, note) SELECT {id}, 'written' FROM fencepost_leases l WHERE " + held,
				Stale:        stale,
			},
			{
				Name:         "EXISTS",
				Complete:     "UPDATE runs SET status = 'completed' WHERE id = {id} AND " + exists,
				SlowComplete: "UPDATE runs SET status = 'completed', result = " + slow + " WHERE id = {id} AND " + exists,
				Stale:        existsStale,
			},
		},
		SavepointDropsGuard: true,
		PauseLimit:          "SET LOCAL idle_in_transaction_session_timeout = '1s'",
		TxEndsPaused:        true,
	})
}

// fencingDatabase shows a database to the fencing suite.
type fencingDatabase struct{ store conformanceStore }

func (d fencingDatabase) Store() fencepost.Store { return d.store }

func (d fencingDatabase) Run(ctx context.Context, stmt string) error {
	_, err := d.store.Pool().Exec(ctx, stmt)
	return err
}

func (d fencingDatabase) Text(ctx context.Context, query string) (string, error) {
	var text *string
	err := d.store.Pool().QueryRow(ctx, query).Scan(&text)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && text == nil:
		return "", nil
	case err != nil:
		return "", err
	}
	return *text, nil
}

func (d fencingDatabase) Begin(ctx context.Context) (storetest.Tx, error) {
	tx, err := d.store.Pool().Begin(ctx)
	return fencingTx{tx}, err
}

func (d fencingDatabase) Tx(ctx context.Context, token fencepost.Token, fn func(storetest.Tx) error) error {
	return postgres.Tx(ctx, d.store.Pool(), token, func(tx pgx.Tx) error { return fn(fencingTx{tx}) })
}

func (d fencingDatabase) Exec(ctx context.Context, token fencepost.Token, stmt string) (int64, error) {
	return postgres.Exec(ctx, d.store.Pool(), token, stmt)
}

func (d fencingDatabase) Waiting(ctx context.Context, marker string) (waiting bool, err error) {
	err = d.store.Pool().QueryRow(ctx, `
		SELECT count(*) > 0 FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`,
		marker).Scan(&waiting)
	return waiting, err
}

func (d fencingDatabase) CloseGate(ctx context.Context, gate string) (open func(), err error) {
	conn, err := d.store.Pool().Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", gate); err != nil {
		conn.Release()
		return nil, err
	}
	return func() {
		conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext($1))", gate)
		conn.Release()
	}, nil
}

type fencingTx struct{ tx pgx.Tx }

func (t fencingTx) Exec(ctx context.Context, stmt string) (int64, error) {
	tag, err := t.tx.Exec(ctx, stmt)
	return tag.RowsAffected(), err
}

func (t fencingTx) Guard(ctx context.Context, token fencepost.Token) error {
	return postgres.Guard(ctx, t.tx, token)
}

func (t fencingTx) Commit(ctx context.Context) error { return t.tx.Commit(ctx) }
func (t fencingTx) Rollback()                        { t.tx.Rollback(context.Background()) }
