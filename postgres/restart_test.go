package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
)

// A server that is restarted, or crashes and recovers, within the TTL costs a retried beat and nothing else.
func TestLeasesOutliveTheServersRestart(t *testing.T) {
	server := testenv.PrivatePostgres(t)
	store, pool := openStoreAt(t, newDatabaseOn(t, server))
	run(t, pool, "CREATE TABLE work (n int NOT NULL)", "INSERT INTO work VALUES (0)")
	client := fencepost.New(store, fencepost.Options{TTL: 5 * time.Minute})
	lease, err := client.TryAcquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	for round, down := range []func() error{server.Stop, server.Kill} {
		if err := down(); err != nil {
			t.Fatal(err)
		}
		_, err := store.Acquire(t.Context(), request("another", long))
		if !errors.Is(err, fencepost.ErrUnavailable) && !errors.Is(err, fencepost.ErrUnknown) {
			t.Errorf("without a server: %v", err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		// The pool may still hand out a connection that was lost with the server, each of them once.
		eventually(t, "a fenced write", func() bool {
			n, err := store.Exec(t.Context(), lease.Token(), "UPDATE work SET n = $1", round+1)
			if errors.Is(err, fencepost.ErrStale) {
				t.Fatal(err)
			}
			return n == 1 && err == nil
		})
		eventually(t, "a renewal", func() bool { return lease.Renew(t.Context()) == nil })
		if lease.Err() != nil || lease.Token().Fence != 1 {
			t.Fatalf("%v: %v", lease.Token(), lease.Err())
		}
		if n := read[int](t, pool, "SELECT n FROM work"); n != round+1 {
			t.Errorf("%d was written", n)
		}
	}
	if changed, err := lease.Release(t.Context()); err != nil || !changed {
		t.Errorf("released: %v, %v", changed, err)
	}
}
