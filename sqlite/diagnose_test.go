package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

func TestDiagnoseFindsWhatWeakensLeases(t *testing.T) {
	opened := func(t *testing.T, path string) *sql.DB {
		pool, err := sqlite.OpenPool(t.Context(), "sqlite:"+path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		return pool
	}
	for name, tc := range map[string]struct {
		open func(t *testing.T, path string) *sql.DB
		want map[string]fencepost.Level // the rest is ok
	}{
		"as Open does it, without a schema": {opened, map[string]fencepost.Level{"schema": fencepost.LevelWarning}},
		"with a schema":                     {func(t *testing.T, path string) *sql.DB { return openStore(t, path).DB() }, nil},
		"a newer schema": {func(t *testing.T, path string) *sql.DB {
			store := openStore(t, path)
			mustExec(t, store.DB(), "INSERT INTO fencepost_schema_version (version_id, is_applied) VALUES (99, 1)")
			return store.DB()
		}, map[string]fencepost.Level{"schema": fencepost.LevelFailure}},
		"careless settings": {func(t *testing.T, path string) *sql.DB {
			openStore(t, path).Close()
			return applicationPool(t, path, "deferred", "busy_timeout(0)", "journal_mode(DELETE)", "synchronous(NORMAL)")
		}, map[string]fencepost.Level{"busy-timeout": fencepost.LevelWarning, "journal": fencepost.LevelWarning, "durability": fencepost.LevelWarning}},
		"a pool that may only read": {func(t *testing.T, path string) *sql.DB {
			openStore(t, path)
			return applicationPool(t, path, "deferred", "busy_timeout(1)", "synchronous(FULL)", "query_only(1)")
		}, map[string]fencepost.Level{"write": fencepost.LevelFailure}},
		"a table that is not ours": {func(t *testing.T, path string) *sql.DB {
			pool := opened(t, path)
			mustExec(t, pool, "CREATE TABLE fencepost_schema_version (x)")
			return pool
		}, map[string]fencepost.Level{"schema": fencepost.LevelFailure}},
		"a trigger dropped": {func(t *testing.T, path string) *sql.DB {
			store := openStore(t, path)
			mustExec(t, store.DB(), "DROP TRIGGER fencepost_leases_delete")
			return store.DB()
		}, map[string]fencepost.Level{"triggers": fencepost.LevelFailure}},
		"the trigger of the runs dropped": {func(t *testing.T, path string) *sql.DB {
			store := openStore(t, path)
			mustExec(t, store.DB(), "DROP TRIGGER fencepost_leases_abandon")
			return store.DB()
		}, map[string]fencepost.Level{"triggers": fencepost.LevelFailure}},
		"in memory": {func(t *testing.T, _ string) *sql.DB {
			pool, err := sql.Open("sqlite", ":memory:?_pragma=busy_timeout(1)&_pragma=synchronous(FULL)")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { pool.Close() })
			return pool
		}, map[string]fencepost.Level{"filesystem": fencepost.LevelFailure, "journal": fencepost.LevelWarning, "schema": fencepost.LevelWarning}},
		"a locked file": {func(t *testing.T, path string) *sql.DB {
			openStore(t, path)
			t.Cleanup(lockFile(t, path))
			return applicationPool(t, path, "deferred", "busy_timeout(1)", "synchronous(FULL)")
		}, map[string]fencepost.Level{"write": fencepost.LevelWarning}},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := sqlite.Diagnose(t.Context(), tc.open(t, newFile(t)))
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, f := range findings {
				seen[f.Check] = true
				want := tc.want[f.Check]
				if want == "" {
					want = fencepost.LevelOK
				}
				if f.Level != want || f.Detail == "" {
					t.Errorf("%+v; want level %s", f, want)
				}
			}
			for _, check := range []string{"server", "clock", "isolation", "filesystem", "journal", "durability", "busy-timeout", "schema", "write", "round-trip"} {
				if !seen[check] {
					t.Errorf("nothing about %s", check)
				}
			}
		})
	}
}

// One connection is all that some applications allow.
func TestDiagnoseNeedsOneConnection(t *testing.T) {
	pool := applicationPool(t, newFile(t), "deferred", "busy_timeout(30000)")
	pool.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if findings, err := sqlite.Diagnose(ctx, pool); err != nil || len(findings) == 0 {
		t.Errorf("%d findings, %v", len(findings), err)
	}
}
