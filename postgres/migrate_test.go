package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/postgres"
)

// All replicas of a service start at once on an empty database. CREATE TABLE IF NOT EXISTS would let the losers crash.
func TestManyReplicasMigrateAtOnce(t *testing.T) {
	const replicas, rounds = 16, 4
	server := testenv.PrivatePostgres(t, "fsync=off", "synchronous_commit=off")
	for round := range rounds {
		url := newDatabaseOn(t, server)
		var opts []postgres.Option
		if round%2 == 1 {
			opts = append(opts, postgres.WithSchema("Not There Yet"))
		}
		var mu sync.Mutex
		var applied []int64
		var wg sync.WaitGroup
		for range replicas {
			wg.Go(func() {
				pool, err := pgxpool.New(t.Context(), url)
				if err != nil {
					t.Error(err)
					return
				}
				defer pool.Close()
				versions, err := postgres.Migrate(t.Context(), pool, opts...)
				if err != nil {
					t.Errorf("Migrate: %v", err)
					return
				}
				if _, err := postgres.New(t.Context(), pool, opts...); err != nil {
					t.Errorf("New after Migrate: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				applied = append(applied, versions...)
			})
		}
		wg.Wait()
		pool := openPool(t, url)
		has, knows, err := postgres.SchemaVersion(t.Context(), pool, opts...)
		if err != nil || has != knows || has < 1 {
			t.Errorf("version %d of %d, %v", has, knows, err)
		}
		if int64(len(applied)) != knows {
			t.Errorf("%d versions, applied: %v", knows, applied)
		}
		if n := read[int](t, pool, "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); n != 0 {
			t.Errorf("%d advisory locks were left", n)
		}
	}
}

// A team with migrations of its own runs the printed file as it is.
func TestThePrintedSchemaIsTheMigratedOne(t *testing.T) {
	for _, opts := range [][]postgres.Option{nil, {postgres.WithSchema(`My "Leases"`), postgres.WithPrefix("app_")}} {
		var b strings.Builder
		if err := postgres.MigrationSQL(&b, opts...); err != nil {
			t.Fatal(err)
		}
		url := newDatabase(t)
		printed := openPool(t, url)
		if _, err := printed.Exec(t.Context(), b.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		store, err := postgres.New(t.Context(), printed, opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		acquire(t, store, "job", long)
		_, migrated := openStore(t, opts...)
		if a, b := describe(t, printed), describe(t, migrated); a != b {
			t.Errorf("printed:\n%s\nmigrated:\n%s", a, b)
		}
	}
}

// describe lists what the schema consists of, but for the table of versions.
func describe(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	return read[string](t, pool, `
		WITH mine AS (
			SELECT c.oid, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
			WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema' AND c.relname !~ 'version'
		), parts AS (
			SELECT relname || '.' || attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull || ' ' || coalesce(attcollation::regcollation::text, '')
				|| ' ' || attidentity::text AS part FROM mine JOIN pg_attribute ON attrelid = mine.oid WHERE attnum > 0
			UNION ALL SELECT relname || ': ' || pg_get_constraintdef(k.oid) FROM mine JOIN pg_constraint AS k ON k.conrelid = mine.oid
			UNION ALL SELECT relname || ': ' || pg_get_triggerdef(g.oid) FROM mine JOIN pg_trigger AS g ON g.tgrelid = mine.oid
			UNION ALL SELECT relname || ': ' || coalesce(array_to_string(reloptions, ','), '') FROM mine JOIN pg_class USING (oid, relname)
			UNION ALL SELECT pg_get_functiondef(f.oid) FROM pg_proc AS f JOIN pg_namespace AS n ON n.oid = f.pronamespace
				WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
		)
		SELECT string_agg(part, E'\n' ORDER BY part) FROM parts`)
}

// Migrating again, and by a user who could not, is no error while there is nothing to do.
func TestMigratingAgainNeedsNoRights(t *testing.T) {
	_, pool := openStore(t)
	url := roleOn(t, pool, "GRANT SELECT, INSERT, UPDATE ON fencepost_leases TO %[1]s", "GRANT SELECT, INSERT ON fencepost_events TO %[1]s", "GRANT SELECT ON fencepost_schema_version TO %[1]s")
	if applied, err := postgres.Migrate(t.Context(), openPool(t, url)); err != nil || len(applied) != 0 {
		t.Errorf("applied %v, %v", applied, err)
	}
}

// roleOn makes a role for this test, gives it rights (%[1]s stands for its name), and returns the URL for it.
func roleOn(t testing.TB, pool *pgxpool.Pool, rights ...string) string {
	t.Helper()
	name := "r_" + testenv.DatabaseName(t)
	role := pgx.Identifier{name}.Sanitize()
	run(t, pool, "CREATE ROLE "+role+" LOGIN PASSWORD 'role-secret'")
	for _, right := range rights {
		run(t, pool, fmt.Sprintf(right, role))
	}
	c := pool.Config().ConnConfig
	return fmt.Sprintf("postgres://%s:role-secret@%s:%d/%s?sslmode=disable", name, c.Host, c.Port, c.Database)
}

// toVersion1 makes the schema what it was before runs were kept.
func toVersion1(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	run(t, pool, "DROP TRIGGER fencepost_leases_abandon ON fencepost_leases", "DROP FUNCTION fencepost_abandon", "DROP TABLE fencepost_runs, fencepost_dead",
		"DELETE FROM fencepost_schema_version WHERE version_id = 2")
}

// Leases outlive the upgrade, and so do programs of the version before, with the rights that they had: takeovers included.
func TestTheUpgradeKeepsFencesAndOldProgramsGoOn(t *testing.T) {
	store, pool := openStore(t)
	token := acquire(t, store, "job", long).Token
	acquire(t, store, "other", long)
	other := acquireNext(t, store, pool, fencepost.Token{Name: "other"})
	old := openPool(t, roleOn(t, pool, leaseRights[:2]...))
	toVersion1(t, pool)
	leases := "SELECT string_agg(l::text, ';' ORDER BY lease_name) FROM fencepost_leases AS l"
	before := read[string](t, pool, leases)

	_, err := postgres.New(t.Context(), pool)
	if !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "has version 1") || !strings.Contains(err.Error(), "migrate up") {
		t.Errorf("on the schema of before: %v", err)
	}
	if _, err := postgres.New(t.Context(), old); !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "fencepost_runs") {
		t.Errorf("on the schema of before, without the right to read its version: %v", err)
	}
	findings, err := postgres.Diagnose(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, findings, "schema", fencepost.LevelFailure)
	if applied, err := postgres.Migrate(t.Context(), pool); err != nil || len(applied) != 1 || applied[0] != 2 {
		t.Fatalf("applied %v, %v", applied, err)
	}
	if after := read[string](t, pool, leases); after != before {
		t.Errorf("the leases were\n%s and are\n%s", before, after)
	}
	for _, token := range []fencepost.Token{token, other} {
		if err := store.Check(t.Context(), token); err != nil {
			t.Errorf("%s: %v", token.Name, err)
		}
	}
	start(t, store, token, "one")
	run(t, old, "UPDATE fencepost_leases SET fence_token = fence_token + 1, owner_token = 'old program', acquired_at = clock_timestamp() WHERE lease_name = 'job'")
	if r := find(t, store, "one"); r.Status != fencepost.RunAbandoned || r.ReplacedBy != token.Fence+1 {
		t.Errorf("%+v", r)
	}
	// The owner's rights are for takeovers only.
	for _, statement := range []string{"SELECT FROM fencepost_runs", "DELETE FROM fencepost_runs",
		"CREATE TEMP TABLE mine (lease_name text, fence_token bigint); CREATE TRIGGER mine AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION fencepost_abandon()"} {
		if _, err := old.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); code(err) != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
