package sqlite_test

import (
	"database/sql"
	"testing"

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
			for _, check := range []string{"server", "clock", "isolation", "journal", "durability", "busy-timeout", "schema", "write", "round-trip"} {
				if !seen[check] {
					t.Errorf("nothing about %s", check)
				}
			}
		})
	}
}
