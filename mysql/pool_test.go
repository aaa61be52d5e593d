package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/mysql"
)

// useUp takes every connection that a bounded pool still has, as jobs in transactions do.
func useUp(t *testing.T, db *sql.DB) (giveBack func()) {
	t.Helper()
	var taken []*sql.Conn
	for db.Stats().InUse < db.Stats().MaxOpenConnections {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, conn)
	}
	return func() {
		for _, conn := range taken {
			conn.Close()
		}
	}
}

func TestAJobThatUsesUpThePoolDoesNotStarveItsLease(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		t.Run("one connection kept", func(t *testing.T) {
			db := connect(t, p.config())
			db.SetMaxOpenConns(3)
			store := p.store(t, db)
			grant := acquire(t, store, "kept", time.Hour)
			if err := renew(t, store, grant.Token); err != nil {
				t.Fatal(err)
			}
			giveBack := useUp(t, db)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for range 3 {
				if err := renewIn(ctx, store, grant.Token); err != nil {
					t.Errorf("renew: %v", err)
				}
			}
			giveBack()
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			if n := db.Stats().InUse; n != 0 {
				t.Errorf("%d connections are still in use after Close", n)
			}
		})
		t.Run("a pool of its own", func(t *testing.T) {
			db := connect(t, p.config())
			db.SetMaxOpenConns(3)
			store := p.store(t, db, mysql.WithLeasePool(connect(t, p.config())))
			grant := acquire(t, store, "own", time.Hour)
			defer useUp(t, db)()
			if err := renew(t, store, grant.Token); err != nil {
				t.Errorf("renew: %v", err)
			}
		})
	})
}

// Leases are rows, not connections: more holders and waiters than connections get on.
func TestMoreLeasesAndWaitersThanConnections(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		db := connect(t, p.config())
		db.SetMaxOpenConns(5)
		store := p.store(t, db, mysql.WithLeasePool(connect(t, p.config())))
		client := fencepost.New(store, fencepost.Options{TTL: 20 * time.Second, Poll: 20 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		const names, waiters = 20, 50
		var held []*fencepost.Lease
		for i := range names {
			lease, err := client.Acquire(ctx, fmt.Sprintf("job-%d", i))
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, lease)
		}
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				lease, err := client.Acquire(ctx, fmt.Sprintf("job-%d", i%names))
				if err != nil {
					t.Errorf("waiter %d: %v", i, err)
					return
				}
				if _, err := lease.Release(ctx); err != nil {
					t.Errorf("waiter %d: %v", i, err)
				}
			})
		}
		for _, lease := range held {
			if _, err := lease.Release(ctx); err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
		eventually(t, "no connection is in use", func() bool { return db.Stats().InUse == 0 })
		if n := p.text(t, "SELECT COUNT(*) FROM information_schema.INNODB_TRX t JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id WHERE p.DB = ?", p.database); n != "0" {
			t.Errorf("%s transactions are left open", n)
		}
	})
}

// A lease belongs to no connection: neither retiring nor killing them loses it.
func TestConnectionsComeAndGo(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		db := connect(t, p.config())
		db.SetMaxOpenConns(4)
		db.SetConnMaxLifetime(time.Millisecond)
		store := p.store(t, db)
		grant := acquire(t, store, "job", time.Hour)
		for range 20 {
			for _, id := range p.column(t, "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND ID <> CONNECTION_ID() AND COMMAND = 'Sleep'", p.database) {
				p.admin.ExecContext(t.Context(), "KILL "+id) // it may be gone
			}
			// A beat that met a dead connection is tried again, as the keeper does.
			eventually(t, "the beat is confirmed", func() bool {
				err := renew(t, store, grant.Token)
				if errors.Is(err, fencepost.ErrStale) {
					t.Fatalf("lost: %v", err)
				}
				return err == nil
			})
		}
		i, _, err := store.Inspect(t.Context(), "job")
		if err != nil || i.Fence != grant.Token.Fence || i.Owner != grant.Token.Owner {
			t.Errorf("%+v, %v", i, err)
		}
	})
}

func (p place) column(t *testing.T, query string, args ...any) (values []string) {
	t.Helper()
	rows, err := p.admin.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	return values
}
