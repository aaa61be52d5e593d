package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/postgres"
)

// A live connection has planned its statements for the table as it was and the search_path as it was.
func TestStatementsSurviveASchemaThatChanges(t *testing.T) {
	_, plain := openStore(t)
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) { c.MaxConns = 1 })
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run(t, pool, "CREATE TABLE work (n int NOT NULL)", "INSERT INTO work VALUES (0)", "CREATE SCHEMA elsewhere")
	token := acquire(t, store, "job", long).Token
	everything := func(what string) {
		t.Helper()
		for range 7 { // beyond the fifth execution the server keeps a generic plan
			if err := renew(t.Context(), store, token); err != nil {
				t.Fatalf("%s: renew: %v", what, err)
			}
			if err := store.Check(t.Context(), token); err != nil {
				t.Fatalf("%s: check: %v", what, err)
			}
			_, err := store.Acquire(t.Context(), request("job", long))
			wantHeld(t, err, false)
			if _, err := store.Exec(t.Context(), token, "UPDATE public.work SET n = n + 1"); err != nil {
				t.Fatalf("%s: Exec: %v", what, err)
			}
			if err := store.Tx(t.Context(), token, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "UPDATE public.work SET n = n + 1")
				return err
			}); err != nil {
				t.Fatalf("%s: Tx: %v", what, err)
			}
		}
	}
	everything("before")
	run(t, plain, "ALTER TABLE fencepost_leases ADD COLUMN note text DEFAULT 'x'")
	everything("after a column was added")
	run(t, plain, "ALTER TABLE fencepost_leases ALTER COLUMN holder TYPE varchar(300)", "ALTER TABLE fencepost_events ALTER COLUMN holder TYPE varchar(300)")
	everything("after a column's type was changed")
	run(t, pool, "SET search_path = elsewhere, pg_catalog")
	everything("after the search_path was changed")
	run(t, plain, "CREATE TABLE elsewhere.fencepost_leases (LIKE public.fencepost_leases)")
	everything("after a decoy was put in the path")
	if n := read[int](t, plain, "SELECT count(*)::int FROM elsewhere.fencepost_leases"); n != 0 {
		t.Errorf("%d rows in the decoy", n)
	}
	if n := read[int](t, plain, "SELECT n FROM work"); n != 2*7*5 {
		t.Errorf("%d writes, want %d", n, 2*7*5)
	}
	// The caller's own statement ages too.
	for _, add := range []string{"", "ALTER TABLE public.work ADD COLUMN more int"} {
		if add != "" {
			run(t, plain, add)
		}
		if n, err := store.Exec(context.Background(), token, "UPDATE public.work SET n = n + 1 RETURNING *"); err != nil || n != 1 {
			t.Errorf("a statement whose result changed: %d, %v", n, err)
		}
	}
}
