// Quickstart runs one singleton job under a fenced lease on embedded SQLite: the example of the README.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

func main() {
	if dir := os.Getenv("QUICKSTART_DIR"); dir != "" {
		if err := os.Chdir(dir); err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	if err := prepare(ctx); err != nil {
		log.Fatal(err)
	}
	if err := reconcile(ctx); err != nil {
		log.Fatal(err)
	}
}

func reconcile(ctx context.Context) error {
	store, err := sqlite.Open(ctx, "sqlite:jobs.db") // or postgres.New(ctx, pool), mysql.New(ctx, db)
	if err != nil {
		return err
	}
	defer store.Close()
	client := fencepost.New(store, fencepost.Options{TTL: 30 * time.Second})

	return client.Do(ctx, "admin:reconciliation", func(ctx context.Context, l *fencepost.Lease) error {
		total, err := scan(ctx) // ctx ends when the lease is lost
		if err != nil {
			return err
		}
		_, err = store.Exec(ctx, l.Token(), "UPDATE reports SET total = ? WHERE id = 1", total)
		return err // fencepost.ErrStale: somebody took over, nothing was written
	})
}

// prepare makes the table that the job reports into.
func prepare(ctx context.Context) error {
	db, err := sqlite.OpenPool(ctx, "sqlite:jobs.db")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS reports (id INTEGER PRIMARY KEY, total INTEGER);
		INSERT OR IGNORE INTO reports VALUES (1, 0)`)
	return err
}

// scan stands for the work.
func scan(ctx context.Context) (int, error) {
	store, err := sqlite.Open(ctx, "sqlite:jobs.db")
	if err != nil {
		return 0, err
	}
	defer store.Close()
	lease, _, err := store.Inspect(ctx, "admin:reconciliation")
	if err != nil {
		return 0, err
	}
	const total = 3
	fmt.Printf("total %d under fence %d, held by %s\n", total, lease.Fence, lease.Holder)
	return total, nil
}
