package sqlite_test

import (
	"context"
	"database/sql"
	"strconv"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

// A PRAGMA that is run once reaches one connection of a pool. All must have the settings, also those that replace recycled ones.
func TestEveryConnectionOfThePoolHasTheSettings(t *testing.T) {
	pool, err := sqlite.OpenPool(t.Context(), "sqlite:"+newFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	const connections = 8
	check := func(when string) {
		t.Helper()
		conns := make([]*sql.Conn, connections)
		for i := range conns {
			if conns[i], err = pool.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if open := pool.Stats().OpenConnections; open != connections {
			t.Errorf("%s: %d connections open, want %d", when, open, connections)
		}
		for i, conn := range conns {
			for pragma, want := range map[string]int64{"busy_timeout": 10000, "foreign_keys": 1, "synchronous": 2} {
				if got := number(t, conn, "PRAGMA "+pragma); got != want {
					t.Errorf("%s: connection %d has %s %d, want %d", when, i, pragma, got, want)
				}
			}
			var journal string
			if err := conn.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&journal); err != nil || journal != "wal" {
				t.Errorf("%s: connection %d has journal mode %q, %v", when, i, journal, err)
			}
		}
		for _, conn := range conns {
			conn.Close()
		}
	}
	check("at first")
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxLifetime(time.Nanosecond)
	check("while connections are recycled")
	if closed := pool.Stats().MaxLifetimeClosed; closed == 0 {
		t.Error("no connection was recycled")
	}
	check("afterwards")
}

// A lease is a row, not a session: it outlives the connection that it was acquired on.
func TestRecycledConnectionsLoseNoLease(t *testing.T) {
	pool := applicationPool(t, newFile(t), "deferred", "busy_timeout(30000)", "journal_mode(WAL)")
	pool.SetConnMaxLifetime(time.Nanosecond)
	store, err := sqlite.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, "CREATE TABLE results (what INTEGER)")
	grant := acquire(t, store, "job", "A", time.Minute)
	before := pool.Stats().MaxLifetimeClosed
	for i := range 100 {
		renewals, err := store.Renew(t.Context(), []fencepost.Token{grant.Token})
		if err != nil || renewals[0].Err != nil {
			t.Fatalf("renewal %d: %v, %v", i, err, renewals)
		}
		if _, err := store.Exec(t.Context(), grant.Token, "INSERT INTO results VALUES (?)", i); err != nil {
			t.Fatal(err)
		}
	}
	if recycled := pool.Stats().MaxLifetimeClosed - before; recycled < 100 {
		t.Errorf("only %d connections were recycled", recycled)
	}
	if info, _, err := store.Inspect(t.Context(), "job"); err != nil || info.Fence != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A job that holds every connection of the pool must not starve the renewals of its own lease.
func TestAJobThatHoldsThePoolDoesNotStarveRenewals(t *testing.T) {
	store := openStore(t, newFile(t))
	store.DB().SetMaxOpenConns(3)
	grant := acquire(t, store, "job", "A", time.Hour)
	for i := range 3 {
		tx, err := store.DB().BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if n := number(t, tx, "SELECT count(*) FROM fencepost_leases"); n != 1 {
			t.Fatalf("transaction %d sees %d leases", i, n)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	renewals, err := store.Renew(ctx, []fencepost.Token{grant.Token})
	if err != nil || renewals[0].Err != nil || !renewals[0].LeasedUntil.After(grant.LeasedUntil.Add(-1)) {
		t.Errorf("renew: %v, %+v", err, renewals)
	}
	if err := store.Check(ctx, grant.Token); err != nil {
		t.Errorf("check: %v", err)
	}
	if _, err := store.Release(ctx, grant.Token); err != nil {
		t.Errorf("release: %v", err)
	}
}

// Leases and waiters must not hold connections: there are far more of them here.
func TestManyLeasesAndWaitersShareFewConnections(t *testing.T) {
	for _, connections := range []int{1, 5} {
		t.Run(strconv.Itoa(connections), func(t *testing.T) { shareConnections(t, connections) })
	}
}

func shareConnections(t *testing.T, connections int) {
	pool := applicationPool(t, newFile(t), "immediate", "busy_timeout(30000)", "journal_mode(WAL)")
	pool.SetMaxOpenConns(connections)
	store, err := sqlite.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	client := fencepost.New(store, fencepost.Options{TTL: 20 * time.Second, Holder: "holder"})
	const held, waiting = 20, 50
	leases := make([]*fencepost.Lease, held)
	for i := range leases {
		if leases[i], err = client.TryAcquire(t.Context(), "job-"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, waiting)
	for i := range waiting {
		go func() {
			lease, err := client.Acquire(ctx, "job-"+strconv.Itoa(i%held))
			if err == nil {
				_, err = lease.Release(ctx)
			}
			done <- err
		}()
	}
	for _, lease := range leases {
		if _, err := lease.Release(ctx); err != nil {
			t.Errorf("release: %v", err)
		}
	}
	for range waiting {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// The goroutine that looks for waiters ended with the last of them.
	if inUse := pool.Stats().InUse; inUse != 0 {
		t.Errorf("%d connections are still in use", inUse)
	}
}
