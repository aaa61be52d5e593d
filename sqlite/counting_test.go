package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

// fileState is all by which a write could be told: the file's version as another connection sees it, the log's size, the next event's id and the fence.
type fileState struct{ version, wal, sequence, fence int64 }

func stateOf(t *testing.T, other *sql.Conn, path string) fileState {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return fileState{
		version:  number(t, other, "PRAGMA data_version"),
		wal:      info.Size(),
		sequence: number(t, other, "SELECT seq FROM sqlite_sequence WHERE name = 'fencepost_events'"),
		fence:    number(t, other, "SELECT sum(fence_token) FROM fencepost_leases"),
	}
}

// A crowd that is refused must not write, or it would wear out the disk and wake everybody who watches the file.
func TestRefusalsWriteNothing(t *testing.T) {
	path := newFile(t)
	store := openStore(t, path)
	acquire(t, store, "job", "A", time.Hour)
	released := acquire(t, store, "released", "A", time.Hour).Token
	if _, err := store.Release(t.Context(), released); err != nil {
		t.Fatal(err)
	}
	if marked, err := store.Want(t.Context(), "job"); err != nil || !marked {
		t.Fatal(marked, err)
	}
	other, err := applicationPool(t, path, "deferred", "busy_timeout(30000)").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	foreign := fencepost.Token{Name: "job", Owner: "B", Fence: 1}
	for name, refused := range map[string]func(ctx context.Context) error{
		"Acquire": func(ctx context.Context) error {
			_, err := store.Acquire(ctx, fencepost.AcquireRequest{Name: "job", Owner: "B", TTL: time.Hour})
			return err
		},
		"Acquire by the holder": func(ctx context.Context) error {
			_, err := store.Acquire(ctx, fencepost.AcquireRequest{Name: "job", Owner: "A", TTL: time.Hour})
			return err
		},
		"Renew":         func(ctx context.Context) error { _, err := store.Renew(ctx, []fencepost.Token{foreign}); return err },
		"Release":       func(ctx context.Context) error { _, err := store.Release(ctx, foreign); return err },
		"Release again": func(ctx context.Context) error { _, err := store.Release(ctx, released); return err },
		"Preempt": func(ctx context.Context) error {
			_, err := store.Preempt(ctx, fencepost.PreemptRequest{Name: "job", Fence: 7, Owner: "B", TTL: time.Hour})
			return err
		},
		"Check": func(ctx context.Context) error { return store.Check(ctx, foreign) },
		"Want":  func(ctx context.Context) error { _, err := store.Want(ctx, "job"); return err },
		"Guard": func(ctx context.Context) error {
			tx, err := store.DB().BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			return store.Guard(ctx, tx, foreign)
		},
	} {
		t.Run(name, func(t *testing.T) {
			times := 50
			if name == "Acquire" {
				times = 1000
			}
			before := stateOf(t, other, path)
			for range times {
				if err := refused(t.Context()); err != nil && !errors.Is(err, fencepost.ErrHeld) && !errors.Is(err, fencepost.ErrStale) {
					t.Fatal(err)
				}
			}
			if after := stateOf(t, other, path); after != before {
				t.Errorf("%d refusals changed the file: %+v, before %+v", times, after, before)
			}
		})
	}
}

// Every beat renews all leases of a process. One statement must do for all of them, and look each up by the primary key.
func TestOneStatementRenewsAllLeases(t *testing.T) {
	const leases = 10_000
	path := newFile(t)
	pool := applicationPool(t, path, "immediate", "busy_timeout(30000)", "journal_mode(WAL)")
	pool.SetMaxOpenConns(1)
	store, err := sqlite.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, pool, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000)
		INSERT INTO fencepost_leases (lease_name, owner_token, fence_token, ttl_ms, leased_until)
		SELECT 'job-' || i, 'A', i, 3600000, unixepoch() * 1000 + 60000 FROM n`)
	tokens := make([]fencepost.Token, leases)
	for i := range tokens {
		tokens[i] = fencepost.Token{Name: "job-" + strconv.Itoa(i+1), Owner: "A", Fence: int64(i + 1)}
	}
	other, err := applicationPool(t, path, "deferred", "busy_timeout(30000)").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	changes, version, events := number(t, pool, "SELECT total_changes()"), number(t, other, "PRAGMA data_version"), number(t, pool, "SELECT count(*) FROM fencepost_events")

	renewals, err := store.Renew(t.Context(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range renewals {
		if r.Err != nil || !r.LeasedUntil.Equal(renewals[0].LeasedUntil) {
			t.Fatalf("lease %d: %+v, the first %+v; one statement reads the clock once", i, r, renewals[0])
		}
	}
	if n := number(t, pool, "SELECT total_changes()") - changes; n != leases {
		t.Errorf("%d rows changed, want one per lease", n)
	}
	if n := number(t, other, "PRAGMA data_version") - version; n != 1 {
		t.Errorf("%d commits", n)
	}
	if n := number(t, pool, "SELECT count(*) FROM fencepost_events") - events; n != 0 {
		t.Errorf("renewals wrote %d events", n)
	}
}

func TestLeasesAreLookedUpByTheirName(t *testing.T) {
	store := openStore(t, newFile(t))
	for _, name := range []string{"acquire", "renew", "release", "preempt", "guard", "inspect", "inspect_many", "awaited", "want", "list"} {
		text, err := os.ReadFile("sql/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		args := make([]any, highestParameter(string(text))) // NULLs
		rows, err := store.DB().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+string(text), args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		rows.Close()
		all := strings.Join(plan, "; ")
		if !strings.Contains(all, "SEARCH fencepost_leases USING PRIMARY KEY (lease_name") || strings.Contains(all, "SCAN fencepost_leases") {
			t.Errorf("%s: %s", name, all)
		}
	}
}

func highestParameter(text string) int {
	for n := 9; n > 0; n-- {
		if strings.Contains(text, "?"+strconv.Itoa(n)) {
			return n
		}
	}
	return 0
}
