package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/mysql"
	"github.com/fencepost/fencepost/storetest"
)

func TestConformanceMariaDB(t *testing.T) {
	server := testenv.PrivateMariaDB(t, "innodb_flush_log_at_trx_commit=0")
	storetest.Run(t, func(t *testing.T) fencepost.Store { return openConformance(t, server, "") })
}

func TestConformanceMySQL(t *testing.T) {
	server := testenv.PrivateMySQL(t, "innodb_flush_log_at_trx_commit=0", "skip-log-bin")
	storetest.Run(t, func(t *testing.T) fencepost.Store { return openConformance(t, server, "") })
}

func TestFencingMariaDB(t *testing.T) {
	e := fencingEngine(testenv.MariaDB(t), "tx_isolation")
	e.PauseLimit = "SET SESSION idle_transaction_timeout = 1"
	storetest.Fencing(t, e)
}

func TestFencingMySQL(t *testing.T) {
	e := fencingEngine(testenv.MySQL(t), "transaction_isolation")
	e.PauseLimit = "SET SESSION wait_timeout = 1"
	storetest.Fencing(t, e)
}

// conformanceStore can raise a fence, which the protocol cannot.
type conformanceStore struct{ *mysql.Store }

func (s conformanceStore) SetFence(ctx context.Context, name string, fence int64) error {
	_, err := s.DB().ExecContext(ctx, "UPDATE fencepost_leases SET fence_token = ? WHERE lease_name = ?", fence, name)
	return err
}

// openConformance opens a store on a new database. isolation is a parameter of the driver that sets the level of every session.
func openConformance(t *testing.T, server *testenv.Server, isolation string) conformanceStore {
	t.Helper()
	name := testenv.DatabaseName(t)
	admin, err := mysql.OpenPool(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	address := server.URLFor(name)
	if isolation != "" {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.RawQuery += "&" + isolation
		address = u.String()
	}
	pool, err := mysql.OpenPool(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := mysql.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	store, err := mysql.Open(t.Context(), address)
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

func fencingEngine(server *testenv.Server, isolationVariable string) storetest.Engine {
	const (
		held   = "l.lease_name = '{name}' AND l.owner_token = '{owner}' AND l.fence_token = {fence} AND l.leased_until > UTC_TIMESTAMP(6)"
		exists = "EXISTS (SELECT 1 FROM fencepost_leases l WHERE " + held + ")"
		scalar = "1 = (SELECT COUNT(*) FROM fencepost_leases l WHERE " + held + ")"
		slow   = "GET_LOCK('{gate}', 60)"
	)
	// A joined row is locked by the statement at every level; a row of a subquery is not at READ COMMITTED.
	never := func(string, string) bool { return false }
	unlocked := func(interleaving, level string) bool {
		return level == "READ-COMMITTED" && interleaving != storetest.OldSnapshot
	}
	existsUnlocked := func(interleaving, level string) bool {
		switch interleaving {
		case storetest.RowLocked, storetest.RowChanged, storetest.ReleasedEarly:
			// MySQL makes a semijoin of it, and gets to the lease only after the wait for the row.
			return server.Kind == testenv.KindMariaDB && unlocked(interleaving, level)
		}
		return unlocked(interleaving, level)
	}
	return storetest.Engine{
		Levels: []string{"READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"},
		Open: func(t *testing.T, level string) storetest.Database {
			store := openConformance(t, server, isolationVariable+"=%27"+level+"%27")
			return fencingDatabase{store}
		},
		SlowComplete: "UPDATE runs SET status = 'completed', result = " + slow + " WHERE id = {id}",
		// A rollback to a savepoint ends all that InnoDB did in a transaction which InnoDB had no part in before the savepoint.
		SavepointDropsGuard: true,
		Naive: []storetest.Naive{
			{
				Name:         "join",
				Complete:     "UPDATE runs r JOIN fencepost_leases l ON " + held + " SET r.status = 'completed' WHERE r.id = {id}",
				SlowComplete: "UPDATE runs r JOIN fencepost_leases l ON " + held + " SET r.status = 'completed', r.result = " + slow + " WHERE r.id = {id}",
				Stale:        never,
			},
			{
				Name:         "EXISTS",
				Complete:     "UPDATE runs SET status = 'completed' WHERE id = {id} AND " + exists,
				SlowComplete: "UPDATE runs SET status = 'completed', result = " + slow + " WHERE id = {id} AND " + exists,
				Insert:       "INSERT INTO reports (id, note) SELECT {id}, 'written' FROM fencepost_leases l WHERE " + held,
				Stale:        existsUnlocked,
			},
			{
				Name:         "scalar subquery",
				Complete:     "UPDATE runs SET status = 'completed' WHERE id = {id} AND " + scalar,
				SlowComplete: "UPDATE runs SET status = 'completed', result = " + slow + " WHERE id = {id} AND " + scalar,
				Stale:        unlocked,
			},
		},
	}
}

// fencingDatabase shows a database to the fencing suite.
type fencingDatabase struct{ store conformanceStore }

func (d fencingDatabase) Store() fencepost.Store { return d.store }

func (d fencingDatabase) Run(ctx context.Context, stmt string) error {
	_, err := d.store.DB().ExecContext(ctx, stmt)
	return err
}

func (d fencingDatabase) Text(ctx context.Context, query string) (string, error) {
	var text sql.NullString
	err := d.store.DB().QueryRowContext(ctx, query).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return text.String, err
}

func (d fencingDatabase) Begin(ctx context.Context) (storetest.Tx, error) {
	tx, err := d.store.DB().BeginTx(ctx, nil)
	return fencingTx{tx}, err
}

func (d fencingDatabase) Tx(ctx context.Context, token fencepost.Token, fn func(storetest.Tx) error) error {
	return mysql.Tx(ctx, d.store.DB(), token, func(tx *sql.Tx) error { return fn(fencingTx{tx}) })
}

func (d fencingDatabase) Exec(ctx context.Context, token fencepost.Token, stmt string) (int64, error) {
	return d.store.Exec(ctx, token, stmt)
}

// Waiting asks InnoDB's monitor: information_schema.innodb_trx is a copy that is not refreshed while somebody reads it more
// often than every 100 ms.
func (d fencingDatabase) Waiting(ctx context.Context, marker string) (waiting bool, err error) {
	err = d.store.DB().QueryRowContext(ctx,
		"SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE state = 'User lock' AND info LIKE CONCAT('%', ?, '%')", marker).Scan(&waiting)
	if err != nil || waiting {
		return waiting, err
	}
	var engine, name, monitor string
	if err := d.store.DB().QueryRowContext(ctx, "SHOW ENGINE INNODB STATUS").Scan(&engine, &name, &monitor); err != nil {
		return false, err
	}
	for _, transaction := range strings.Split(monitor, "---TRANSACTION ")[1:] {
		if strings.Contains(transaction, "LOCK WAIT") && strings.Contains(transaction, marker) {
			return true, nil
		}
	}
	return false, nil
}

func (d fencingDatabase) CloseGate(ctx context.Context, gate string) (open func(), err error) {
	conn, err := d.store.DB().Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "DO GET_LOCK(?, 0)", gate); err != nil {
		conn.Close()
		return nil, err
	}
	return func() {
		conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", gate)
		conn.Close()
	}, nil
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
	return mysql.Guard(ctx, t.tx, token)
}

func (t fencingTx) Commit(context.Context) error { return t.tx.Commit() }
func (t fencingTx) Rollback()                    { t.tx.Rollback() }
