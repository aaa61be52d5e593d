package sqlite_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

func TestAdoptTakesOverFences(t *testing.T) {
	store := openStore(t, newFile(t))
	db := store.DB()
	lower := acquire(t, store, "lower there", "ours", time.Hour)
	higher := acquire(t, store, "higher there", "ours", time.Hour)
	mustExec(t, db, `CREATE TABLE "team's leases" (lease_name TEXT PRIMARY KEY, owner_token TEXT, fence_token INTEGER, leased_until TEXT, extra TEXT)`)
	mustExec(t, db, `INSERT INTO "team's leases" (lease_name, owner_token, fence_token, leased_until) VALUES
		('free', 'theirs', 41, NULL), ('ran out', 'theirs', 7, '2020-01-01 00:00:00'), ('nobody', NULL, 3, NULL),
		('lower there', 'theirs', 1, NULL), ('higher there', 'theirs', 12, NULL), ('Größe ü', 'theirs', 9223372036854775806, NULL), ('never held', '', 0, NULL)`)
	adopted, err := sqlite.Adopt(t.Context(), db, "team's leases")
	if err != nil || adopted != 5 {
		t.Fatalf("%d adopted, %v; want 5", adopted, err)
	}
	if err := store.Check(t.Context(), lower.Token); err != nil {
		t.Errorf("a lease whose fence is not lower was touched: %v", err)
	}
	if err := store.Check(t.Context(), higher.Token); !errors.Is(err, fencepost.ErrStale) {
		t.Errorf("a lease whose fence is lower goes on: %v", err)
	}
	for name, want := range map[string]int64{"free": 42, "ran out": 8, "nobody": 4, "higher there": 13, "Größe ü": 9223372036854775807, "never held": 1} {
		if grant := acquire(t, store, name, "next", time.Hour); grant.Token.Fence != want {
			t.Errorf("%s: fence %d, want %d", name, grant.Token.Fence, want)
		}
	}
	if n := number(t, db, `SELECT count(*) FROM "team's leases" WHERE owner_token = 'theirs'`); n != 5 {
		t.Errorf("the source was changed: %d rows", n)
	}
	if adopted, err := sqlite.Adopt(t.Context(), db, "team's leases"); err != nil || adopted != 0 {
		t.Errorf("again: %d adopted, %v", adopted, err)
	}
}

// Whatever the team's column is made of: what is not surely over is refused, by name, and nothing is adopted.
func TestAdoptRefusesWhatIsStillLeased(t *testing.T) {
	for name, until := range map[string]string{
		"milliseconds":    "unixepoch() * 1000 + 60000",
		"seconds":         "unixepoch() + 60",
		"real seconds":    "unixepoch('subsec') + 60.5",
		"text":            "datetime('now', '+1 minute')",
		"text with T":     "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 minute')",
		"zone":            "strftime('%Y-%m-%dT%H:%M:%f', 'now', '+1 hour', '+1 minute') || '+01:00'",
		"text of seconds": "CAST(unixepoch() + 60 AS TEXT)",
		"text of ms":      "CAST(unixepoch() * 1000 + 60000 AS TEXT)",
		"not understood":  "'next tuesday'",
		"an empty text":   "''",
		"bytes":           "x'00ff'",
	} {
		t.Run(name, func(t *testing.T) {
			store := openStore(t, newFile(t))
			db := store.DB()
			mustExec(t, db, "CREATE TABLE old (lease_name, owner_token, fence_token, leased_until)")
			mustExec(t, db, "INSERT INTO old VALUES ('over', 'theirs', 5, 1), ('live', 'theirs', 6, "+until+")")
			adopted, err := sqlite.Adopt(t.Context(), db, "old")
			if !errors.Is(err, fencepost.ErrInvalid) || !strings.Contains(err.Error(), `"live"`) || strings.Contains(err.Error(), `"over"`) || adopted != 0 {
				t.Errorf("%d adopted, %v", adopted, err)
			}
			if n := number(t, db, "SELECT count(*) FROM fencepost_leases"); n != 0 {
				t.Errorf("%d leases", n)
			}
		})
	}
}

func TestAdoptRefusesWhatIsNoLeaseTable(t *testing.T) {
	db := openStore(t, newFile(t)).DB()
	mustExec(t, db, "CREATE TABLE incomplete (lease_name TEXT, owner_token TEXT)")
	mustExec(t, db, "CREATE TABLE odd (lease_name, owner_token, fence_token, leased_until)")
	mustExec(t, db, "INSERT INTO odd VALUES ('good', 'theirs', 5, NULL), ('', 'theirs', 5, NULL)")
	mustExec(t, db, "CREATE TABLE words (lease_name, owner_token, fence_token, leased_until)")
	mustExec(t, db, "INSERT INTO words VALUES ('good', 'theirs', 'five', NULL)")
	for _, table := range []string{"", "missing", "incomplete", `x"; DROP TABLE odd; --`, "odd", "words"} {
		adopted, err := sqlite.Adopt(t.Context(), db, table)
		if err == nil || adopted != 0 {
			t.Errorf("%q: %d adopted, %v", table, adopted, err)
		} else if !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("%q: %v; want ErrInvalid", table, err)
		}
	}
	if n := number(t, db, "SELECT count(*) FROM fencepost_leases"); n != 0 {
		t.Errorf("%d leases", n)
	}
}
