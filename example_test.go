package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

// openExample returns a store on a new file, with a table for the job's result.
func openExample() (store *sqlite.Store, done func()) {
	dir, err := os.MkdirTemp("", "fencepost-example-")
	if err != nil {
		log.Fatal(err)
	}
	store, err = sqlite.Open(context.Background(), "sqlite:"+filepath.Join(dir, "jobs.db"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := store.DB().Exec("CREATE TABLE reports (id INTEGER PRIMARY KEY, result TEXT)"); err != nil {
		log.Fatal(err)
	}
	return store, func() {
		store.Close()
		os.RemoveAll(dir)
	}
}

// A singleton job: it waits for the lease, runs while it is held, and completes through a fenced write.
func ExampleClient_Do() {
	ctx := context.Background()
	store, done := openExample()
	defer done()
	client := fencepost.New(store, fencepost.Options{TTL: 30 * time.Second})

	err := client.Do(ctx, "admin:reconciliation", func(ctx context.Context, l *fencepost.Lease) error {
		_, err := store.Exec(ctx, l.Token(), "INSERT INTO reports VALUES (1, 'no orphans')")
		fmt.Println("completed under fence", l.Token().Fence)
		return err
	})
	fmt.Println("error:", err)
	// Output:
	// completed under fence 1
	// error: <nil>
}

// A replica that does not get the lease learns who has it, and for how long.
func ExampleClient_TryAcquire() {
	ctx := context.Background()
	store, done := openExample()
	defer done()
	first := fencepost.New(store, fencepost.Options{Holder: "billing-7f9c"})
	second := fencepost.New(store, fencepost.Options{Holder: "billing-2b41"})

	lease, err := first.TryAcquire(ctx, "admin:reconciliation")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	_, err = second.TryAcquire(ctx, "admin:reconciliation")
	if held, ok := errors.AsType[*fencepost.HeldError](err); ok {
		fmt.Printf("held by %s, fence %d, more than 20 s left: %v\n", held.Holder, held.Fence, held.Remaining > 20*time.Second)
	}
	// Output: held by billing-7f9c, fence 1, more than 20 s left: true
}

// An operator takes a live lease away. What its holder writes from then on is refused by the database.
func ExampleClient_PreemptFree() {
	ctx := context.Background()
	store, done := openExample()
	defer done()
	client := fencepost.New(store, fencepost.Options{Holder: "worker"})

	lease, err := client.TryAcquire(ctx, "nightly")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	if _, err := client.PreemptFree(ctx, "nightly", lease.Token().Fence, "maintenance", fencepost.WithActor("ops")); err != nil {
		log.Fatal(err)
	}

	_, err = store.Exec(ctx, lease.Token(), "INSERT INTO reports VALUES (1, 'too late')")
	if stale, ok := errors.AsType[*fencepost.StaleError](err); ok {
		fmt.Printf("%s: presented fence %d, current fence %d\n", stale.Reason, stale.Presented, stale.Current)
	}
	// Output: superseded: presented fence 1, current fence 2
}
