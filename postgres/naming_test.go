package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

// A search_path that leads elsewhere must lead nobody to other leases, nor a trigger to another table of events.
func TestTheSearchPathDoesNotMatter(t *testing.T) {
	_, plain := openStore(t)
	run(t, plain, "CREATE SCHEMA decoy",
		"CREATE TABLE decoy.fencepost_leases (lease_name int)", "CREATE TABLE decoy.fencepost_events (id int)", "CREATE TABLE decoy.fencepost_schema_version (id int)",
		"CREATE FUNCTION decoy.fencepost_guard(text, text, bigint) RETURNS void LANGUAGE sql AS 'SELECT'",
		"CREATE FUNCTION decoy.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT '2001-01-01'::timestamptz$$")
	for _, path := range []string{"decoy, public", "decoy", "", "decoy, pg_catalog, public"} {
		t.Run(path, func(t *testing.T) {
			pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = path })
			if _, err := postgres.Migrate(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			store, err := postgres.New(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			before := read[int](t, plain, "SELECT count(*)::int FROM public.fencepost_events")
			name := "job of " + path
			token := acquire(t, store, name, long).Token
			if err := renew(t.Context(), store, token); err != nil {
				t.Error(err)
			}
			if _, err := store.Exec(t.Context(), token, "SELECT 1"); err != nil {
				t.Error(err)
			}
			stale := token
			stale.Owner = "somebody else"
			_, err = store.Exec(t.Context(), stale, "SELECT 1")
			wantStale(t, err, fencepost.ReasonNotGranted)
			if err := store.Tx(t.Context(), token, func(pgx.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
			if _, err := store.Release(t.Context(), token); err != nil {
				t.Error(err)
			}
			if n := read[int](t, plain, "SELECT count(*)::int FROM public.fencepost_events") - before; n != 3 {
				t.Errorf("%d events, want acquired, refused and released", n)
			}
		})
	}
}

func TestTwoSchemasKeepSeparateLeases(t *testing.T) {
	_, pool := openStore(t)
	places := [][]postgres.Option{
		nil,
		{postgres.WithSchema("Leases")},
		{postgres.WithSchema("leases")},
		{postgres.WithSchema(`a "quoted"; name`)},
		{postgres.WithPrefix("other_")},
	}
	var tokens []fencepost.Token
	var stores []*postgres.Store
	for _, opts := range places {
		if _, err := postgres.Migrate(t.Context(), pool, opts...); err != nil {
			t.Fatal(err)
		}
		store, err := postgres.New(t.Context(), pool, opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		stores = append(stores, store)
		tokens = append(tokens, acquire(t, store, "job", long).Token)
	}
	for i, store := range stores {
		for j, token := range tokens {
			_, err := store.Exec(t.Context(), token, "SELECT 1")
			if i == j && err != nil {
				t.Errorf("place %d: %v", i, err)
			}
			if i != j {
				wantStale(t, err, fencepost.ReasonNotGranted)
			}
		}
		if n := len(second2(store.Events(t.Context(), fencepost.EventQuery{}))); n != len(tokens) {
			t.Errorf("place %d has %d events, want one acquisition and %d refusals", i, n, len(tokens)-1)
		}
	}
}

func second2[T any](v []T, _ error) []T { return v }

// Columns that somebody adds while leases are held must not lose them: prepared statements had been planned without them.
func TestAChangedTableLosesNothing(t *testing.T) {
	store, pool := openStore(t)
	token := acquire(t, store, "job", long).Token
	ten := make([]fencepost.Token, 0, 10)
	for _, name := range []string{"a", "b", "c"} {
		ten = append(ten, acquire(t, store, name, long).Token)
	}
	for _, change := range []string{
		"SELECT 1",
		"ALTER TABLE fencepost_leases ADD COLUMN note text",
		"ALTER TABLE fencepost_leases ALTER COLUMN holder TYPE varchar(300)",
		"ALTER TABLE fencepost_events ADD COLUMN note text DEFAULT 'x'",
		"ALTER TABLE fencepost_leases DROP COLUMN note",
		"ALTER TABLE fencepost_leases ALTER COLUMN holder TYPE text",
		"DISCARD ALL",
	} {
		// All connections of the pool meet the change; the renewals' own one too.
		run(t, pool, change)
		for range 2 {
			if renewals, err := store.Renew(t.Context(), append(ten, token)); err != nil || renewals[0].Err != nil {
				t.Fatalf("after %s: %+v, %v", change, renewals, err)
			}
			if _, err := store.Exec(t.Context(), token, "SELECT 1"); err != nil {
				t.Fatalf("after %s: Exec: %v", change, err)
			}
			if err := store.Tx(t.Context(), token, func(pgx.Tx) error { return nil }); err != nil {
				t.Fatalf("after %s: Tx: %v", change, err)
			}
			if _, err := store.Acquire(t.Context(), request("job", long)); !errors.Is(err, fencepost.ErrHeld) {
				t.Fatalf("after %s: Acquire: %v", change, err)
			}
			if err := store.Check(t.Context(), token); err != nil {
				t.Fatalf("after %s: Check: %v", change, err)
			}
		}
	}
}
