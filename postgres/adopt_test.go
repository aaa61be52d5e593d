package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

const teamTable = "CREATE TABLE team_leases (lease_name text PRIMARY KEY, owner_token text NOT NULL, fence_token bigint NOT NULL, leased_until timestamptz)"

func TestAdoptKeepsTheGreaterFence(t *testing.T) {
	store, pool := openStore(t)
	run(t, pool, `CREATE SCHEMA "Old Team"`, strings.Replace(teamTable, "team_leases", `"Old Team".team_leases`, 1),
		`INSERT INTO "Old Team".team_leases VALUES ('new', 'o1', 41, NULL), ('lower here', 'o2', 7, now() - interval '1 s'), ('greater here', 'o3', 1, NULL), ('free', 'o4', 2, '-infinity')`)
	for range 3 {
		for _, name := range []string{"lower here", "greater here"} {
			if _, err := store.Release(t.Context(), acquire(t, store, name, long).Token); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := read[string](t, pool, `SELECT string_agg(t::text, ';' ORDER BY lease_name) FROM "Old Team".team_leases AS t`)
	n, err := postgres.Adopt(t.Context(), pool, "Old Team.team_leases")
	if err != nil || n != 3 {
		t.Fatalf("adopted %d, %v", n, err)
	}
	for name, fence := range map[string]int64{"new": 41, "lower here": 7, "greater here": 3, "free": 2} {
		if i := inspect(t, store, name); i.Fence != fence || i.State() != fencepost.StateFree {
			t.Errorf("%s: %+v, want it free with fence %d", name, i, fence)
		}
		if g := acquire(t, store, name, long); g.Token.Fence != fence+1 {
			t.Errorf("%s: the next fence is %d", name, g.Token.Fence)
		}
	}
	if after := read[string](t, pool, `SELECT string_agg(t::text, ';' ORDER BY lease_name) FROM "Old Team".team_leases AS t`); after != before {
		t.Errorf("the team's table changed from %s to %s", before, after)
	}
}

func TestAdoptRefusesWhatMayBeLive(t *testing.T) {
	for _, c := range []struct {
		what, table, rows string
		class             error
		names             []string
	}{
		{"live", teamTable, "('a', 'o', 1, now() + interval '1 min'), ('b', 'o', 1, NULL), ('c', 'o', 1, 'infinity')", fencepost.ErrHeld, []string{`"a"`, `"c"`}},
		{"without a zone", strings.Replace(teamTable, "timestamptz", "timestamp", 1),
			"('live', 'o', 1, (now() AT TIME ZONE 'UTC') + interval '1 min'), ('doubt', 'o', 1, (now() AT TIME ZONE 'UTC') - interval '13 h'), ('past', 'o', 1, (now() AT TIME ZONE 'UTC') - interval '15 h')",
			fencepost.ErrHeld, []string{`"live"`, `"doubt"`, "time zone"}},
		{"names that no lease can have", teamTable, "('', 'o', 1, NULL), (repeat('x', 201), 'o', 1, NULL), (E'a\\nb', 'o', 1, NULL)", fencepost.ErrInvalid, []string{"empty", "201", "control"}},
		{"a fence below the first", teamTable, "('a', 'o', 0, NULL)", fencepost.ErrInvalid, []string{"fences start at 1"}},
		{"live here with a lower fence", teamTable, "('held', 'o', 9, NULL)", fencepost.ErrHeld, []string{`"held"`}},
	} {
		t.Run(c.what, func(t *testing.T) {
			store, pool := openStore(t)
			token := acquire(t, store, "held", long).Token
			run(t, pool, c.table, "INSERT INTO team_leases VALUES "+c.rows)
			n, err := postgres.Adopt(t.Context(), pool, "team_leases")
			if n != 0 || !errors.Is(err, c.class) {
				t.Fatalf("adopted %d, %v", n, err)
			}
			for _, name := range c.names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%v does not say %s", err, name)
				}
			}
			if infos, err := store.List(t.Context(), fencepost.ListQuery{}); err != nil || len(infos) != 1 {
				t.Errorf("leases %+v, %v", infos, err)
			}
			if err := store.Check(t.Context(), token); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAdoptSaysWhatIsWrongWithTheTable(t *testing.T) {
	_, pool := openStore(t)
	run(t, pool, "CREATE TABLE other (id int)", "CREATE TABLE texts (lease_name text, owner_token text, fence_token text, leased_until text)", "INSERT INTO texts VALUES ('a', 'o', 'many', 'soon')")
	for _, table := range []string{"", "nowhere", "other", "texts", "a.b.c", "x\x00y", `other"; DROP TABLE work; --`} {
		if n, err := postgres.Adopt(t.Context(), pool, table); n != 0 || !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("%q: adopted %d, %v", table, n, err)
		}
	}
	if _, err := postgres.Adopt(t.Context(), openPool(t, newDatabase(t)), "team_leases"); err == nil {
		t.Error("adopted without a schema")
	}
}

// A table to adopt is often called like the one to adopt into: the advice must be about the right one.
func TestAdoptTellsTheTwoTablesApart(t *testing.T) {
	pool := openPool(t, newDatabase(t))
	_, err := postgres.Adopt(t.Context(), pool, "old_fencepost_leases")
	if !errors.Is(err, fencepost.ErrInvalid) || strings.Contains(err.Error(), "migrate up") {
		t.Errorf("the table to adopt is missing: %v", err)
	}
	run(t, pool, "CREATE TABLE old_fencepost_leases (lease_name text, owner_token text, fence_token bigint, leased_until timestamptz)")
	_, err = postgres.Adopt(t.Context(), pool, "old_fencepost_leases")
	if !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "migrate up") {
		t.Errorf("the schema is missing: %v", err)
	}
}
