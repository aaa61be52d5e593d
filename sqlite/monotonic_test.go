package sqlite_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

// Whatever statement comes from whatever program: a fence never falls, an owner never changes without a higher fence, and no row goes away.
func TestNoStatementTakesAFenceBack(t *testing.T) {
	const row = "(lease_name, owner_token, fence_token) VALUES "
	statements := []string{
		"UPDATE fencepost_leases SET fence_token = 1 WHERE lease_name = 'job'",
		"UPDATE OR IGNORE fencepost_leases SET fence_token = 1 WHERE lease_name = 'job'",
		"UPDATE OR REPLACE fencepost_leases SET fence_token = 1 WHERE lease_name = 'job'",
		"UPDATE fencepost_leases SET fence_token = -5 WHERE lease_name = 'job'",
		"UPDATE fencepost_leases SET owner_token = 'thief' WHERE lease_name = 'job'",
		"UPDATE fencepost_leases SET lease_name = 'renamed' WHERE lease_name = 'job'",
		"UPDATE OR REPLACE fencepost_leases SET lease_name = 'job' WHERE lease_name = 'other'", // removes the row of job
		"DELETE FROM fencepost_leases",
		"DELETE FROM fencepost_leases WHERE lease_name = 'job'",
		"INSERT INTO fencepost_leases " + row + "('job', 'thief', 1)",
		"INSERT OR REPLACE INTO fencepost_leases " + row + "('job', 'thief', 1)",
		"REPLACE INTO fencepost_leases " + row + "('job', 'thief', 99)",
		"INSERT OR IGNORE INTO fencepost_leases " + row + "('job', 'thief', 1)",
		"INSERT INTO fencepost_leases " + row + "('job', 'thief', 1) ON CONFLICT (lease_name) DO UPDATE SET owner_token = excluded.owner_token, fence_token = excluded.fence_token",
		"INSERT INTO fencepost_leases " + row + "('new', 'thief', 0)",
	}
	for _, recursive := range []string{"recursive_triggers(0)", "recursive_triggers(1)"} {
		t.Run(recursive, func(t *testing.T) {
			path := newFile(t)
			store := openStore(t, path)
			acquire(t, store, "other", "A", time.Hour)
			acquire(t, store, "job", "A", time.Hour)
			token := preempt(t, store, 1, "B").Token
			pool := applicationPool(t, path, "deferred", "busy_timeout(30000)", recursive)
			for _, statement := range statements {
				result, err := pool.Exec(statement)
				if err != nil {
					if strings.Contains(err.Error(), "syntax") {
						t.Errorf("%s: %v", statement, err)
					}
				} else if n, _ := result.RowsAffected(); n != 0 {
					t.Errorf("%s: %d rows", statement, n)
				}
				if err := store.Check(t.Context(), token); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			leases, err := store.List(t.Context(), fencepost.ListQuery{})
			if err != nil || len(leases) != 2 {
				t.Errorf("%+v, %v", leases, err)
			}
			// Upwards is the protocol itself.
			mustExec(t, pool, "UPDATE fencepost_leases SET fence_token = 100, owner_token = 'C' WHERE lease_name = 'job'")
		})
	}
}
