package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

func init() { roles["hold"] = holdLease }

// holdLease holds the lease "job" until it is told to release it.
func holdLease(args []string, in *bufio.Scanner) error {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, "sqlite:"+args[0])
	if err != nil {
		return err
	}
	defer store.Close()
	grant, err := store.Acquire(ctx, fencepost.AcquireRequest{Name: "job", Owner: "A", TTL: time.Hour})
	if err != nil {
		return err
	}
	fmt.Println("held")
	in.Scan()
	_, err = store.Release(ctx, grant.Token)
	fmt.Println("released")
	return err
}

func watch(t *testing.T, store *sqlite.Store, name string) (wake <-chan struct{}, stop func()) {
	t.Helper()
	wake, stop, err := store.Watch(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return wake, stop
}

func wantWake(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(30 * time.Second):
		t.Error("not woken within 30 s")
	}
}

func TestAReleaseInAnotherProcessWakes(t *testing.T) {
	for name, open := range map[string]func(path string) *sqlite.Store{
		"Open": func(path string) *sqlite.Store { return openStore(t, path) },
		"a pool of one connection": func(path string) *sqlite.Store {
			pool := applicationPool(t, path, "deferred", "busy_timeout(30000)")
			pool.SetMaxOpenConns(1)
			store, err := sqlite.New(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newFile(t)
			store := open(path)
			holder := startProcess(t, "hold", path)
			holder.hear()
			wake, stop := watch(t, store, "job")
			defer stop()
			holder.say("release")
			holder.hear()
			wantWake(t, wake)
			acquire(t, store, "job", "B", time.Hour)
			holder.end()
		})
	}
}

// A preemption that leaves the lease free wakes too, and so does a second release.
func TestEveryReleaseWakes(t *testing.T) {
	path := newFile(t)
	store, other := openStore(t, path), openStore(t, path)
	acquire(t, other, "job", "A", time.Hour)
	wake, stop := watch(t, store, "job")
	defer stop()
	if _, err := other.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: 1, Owner: "free", Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	wantWake(t, wake)
	for i := range 5 {
		grant := acquire(t, other, "job", "B"+strconv.Itoa(i), time.Hour)
		select {
		case <-wake: // of the release before
		default:
		}
		if _, err := other.Release(t.Context(), grant.Token); err != nil {
			t.Fatal(err)
		}
		wantWake(t, wake)
	}
}

// The commits of an application that shares the file must not make all waiters ask.
func TestForeignWritesWakeNobody(t *testing.T) {
	path := newFile(t)
	store := openStore(t, path)
	acquire(t, store, "job", "A", time.Hour)
	sentinel := acquire(t, store, "sentinel", "A", time.Hour)
	pool := applicationPool(t, path, "immediate", "busy_timeout(30000)")
	mustExec(t, pool, "CREATE TABLE results (what INTEGER)")
	wake, stop := watch(t, store, "job")
	defer stop()
	seen, stopSeen := watch(t, store, "sentinel")
	defer stopSeen()
	for i := range 300 {
		mustExec(t, pool, "INSERT INTO results VALUES (?)", i)
	}
	if _, err := store.Release(t.Context(), sentinel.Token); err != nil {
		t.Fatal(err)
	}
	wantWake(t, seen) // whoever looks has seen all the writes by now
	select {
	case <-wake:
		t.Error("woken by a foreign write")
	default:
	}
}

func TestNoGoroutineIsLeftWithoutWaiters(t *testing.T) {
	path := newFile(t)
	store := openStore(t, path)
	before := goleak.IgnoreCurrent()
	_, stopA := watch(t, store, "a")
	_, stopB := watch(t, store, "b")
	stopA()
	stopA()
	stopB()
	// The connection that looked stays in its pool, with its opener.
	if err := goleak.Find(before, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener")); err != nil {
		t.Errorf("after the last stop: %v", err)
	}

	_, stop := watch(t, store, "a")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := goleak.Find(before, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener")); err != nil {
		t.Errorf("after Close: %v", err)
	}
	stop()
	if _, _, err := store.Watch(t.Context(), "a"); !errors.Is(err, fencepost.ErrUnavailable) {
		t.Errorf("Watch after Close: %v", err)
	}
}

// A waiter that comes in the moment in which the last one leaves must be looked for like any other.
func TestAWaiterThatComesWhileTheLastOneLeavesIsWoken(t *testing.T) {
	store := openStore(t, newFile(t))
	free := acquire(t, store, "free", "A", time.Hour)
	if _, err := store.Release(t.Context(), free.Token); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		_, leave := watch(t, store, "other")
		begin := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			<-begin
			leave()
		})
		wakes, stops := make([]<-chan struct{}, 16), make([]func(), 16)
		for i := range wakes {
			all.Go(func() {
				<-begin
				wakes[i], stops[i] = watch(t, store, "free")
			})
		}
		close(begin)
		all.Wait()
		for _, wake := range wakes {
			wantWake(t, wake)
		}
		for _, stop := range stops {
			stop()
		}
		if t.Failed() {
			return
		}
	}
}
