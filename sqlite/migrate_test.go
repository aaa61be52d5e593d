package sqlite_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

// An object that another process has just created looks the same as one that was always there. Whoever takes every one for the
// former asks again for ever.
func TestForeignTablesWithOurNamesAreSaidAtOnce(t *testing.T) {
	for name, statement := range map[string]string{
		"leases":           "CREATE TABLE fencepost_leases (x)",
		"a view":           "CREATE VIEW fencepost_leases AS SELECT 1 AS x",
		"events":           "CREATE TABLE fencepost_events (x)",
		"an index":         "CREATE TABLE own (lease_name); CREATE INDEX fencepost_events_lease ON own (lease_name)",
		"table of version": "CREATE TABLE fencepost_schema_version (x)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			pool := applicationPool(t, path, "deferred", "busy_timeout(30000)")
			mustExec(t, pool, statement)
			objects := number(t, pool, "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE '%schema_version' AND name NOT LIKE 'sqlite%'")
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			store, err := sqlite.Open(ctx, "sqlite:"+path)
			if err == nil {
				store.Close()
			}
			if !errors.Is(err, fencepost.ErrUnavailable) || errors.Is(err, fencepost.ErrUnknown) || ctx.Err() != nil || !strings.Contains(err.Error(), "prefix") {
				t.Errorf("%v; want ErrUnavailable that advises another prefix, before the context ends", err)
			}
			if now := number(t, pool, "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE '%schema_version' AND name NOT LIKE 'sqlite%'"); now != objects {
				t.Errorf("%d objects, before %d: half a schema was left", now, objects)
			}
		})
	}
}
