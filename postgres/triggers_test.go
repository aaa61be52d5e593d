package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

// The database itself keeps what leases promise, also against a person with a console.
func TestTheDatabaseKeepsFencesFromFalling(t *testing.T) {
	store, pool := openStore(t)
	for range 3 {
		token := acquire(t, store, "job", long).Token
		if _, err := store.Release(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	before := inspect(t, store, "job")
	for _, forbidden := range []string{
		"UPDATE fencepost_leases SET fence_token = 2",
		"UPDATE fencepost_leases SET fence_token = 2, owner_token = 'x'",
		"UPDATE fencepost_leases SET owner_token = 'x'",
		"UPDATE fencepost_leases SET lease_name = 'other'",
		"UPDATE fencepost_leases SET fence_token = 0",
		"UPDATE fencepost_leases SET fence_token = NULL",
		"UPDATE fencepost_leases SET owner_token = NULL",
		"UPDATE fencepost_leases SET leased_until = 'infinity'",
		"UPDATE fencepost_leases SET leased_until = '-infinity'",
		"DELETE FROM fencepost_leases",
		"TRUNCATE fencepost_leases",
		"TRUNCATE fencepost_events, fencepost_leases",
		"INSERT INTO fencepost_leases (lease_name, owner_token, fence_token) VALUES ('job', 'x', 1) ON CONFLICT (lease_name) DO UPDATE SET fence_token = excluded.fence_token",
		"INSERT INTO fencepost_leases (lease_name, owner_token, fence_token) VALUES ('', 'x', 1)",
		"INSERT INTO fencepost_leases (lease_name, owner_token, fence_token) VALUES ('negative', 'x', -1)",
		"INSERT INTO fencepost_leases (lease_name, owner_token, fence_token) VALUES (repeat('x', 201), 'x', 1)",
	} {
		if _, err := pool.Exec(t.Context(), forbidden); err == nil {
			t.Errorf("allowed: %s", forbidden)
		}
	}
	if after := inspect(t, store, "job"); after != before {
		t.Errorf("%+v became %+v", before, after)
	}
	// A before trigger of the team's own runs first, and is seen through.
	run(t, pool, `CREATE FUNCTION lower_it() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.fence_token := 1; RETURN NEW; END$$`,
		"CREATE TRIGGER zzz BEFORE UPDATE ON fencepost_leases FOR EACH ROW EXECUTE FUNCTION lower_it()")
	if _, err := pool.Exec(t.Context(), "UPDATE fencepost_leases SET holder = 'x'"); err == nil || !strings.Contains(err.Error(), "never falls") {
		t.Errorf("got %v", err)
	}
}

// The history tells of changes by any program.
func TestTheDatabaseWritesTheHistory(t *testing.T) {
	store, pool := openStore(t)
	acquire(t, store, "job", long)
	run(t, pool, "UPDATE fencepost_leases SET leased_until = NULL",
		"UPDATE fencepost_leases SET fence_token = 10, owner_token = 'console', leased_until = clock_timestamp() + interval '1 h'",
		"UPDATE fencepost_leases SET fence_token = 11, owner_token = 'again', leased_until = clock_timestamp() + interval '1 h', preempted_by = 'me', preempt_reason = 'it hangs'",
		"UPDATE fencepost_leases SET leased_until = clock_timestamp() + interval '2 h', renewed_at = clock_timestamp()")
	tx := begin(t, pool, pgx.TxOptions{})
	run(t, tx, "UPDATE fencepost_leases SET leased_until = NULL")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := store.Events(t.Context(), fencepost.EventQuery{Lease: "job"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, string(e.Kind))
	}
	if want := "acquired released acquired preempted"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if last := events[len(events)-1]; last.Fence != 11 || last.Actor != "me" || last.Reason != "it hangs" {
		t.Errorf("%+v", last)
	}
}

// Bulk loads and restores switch triggers off, and forget to switch them on.
func TestMissingTriggersAndKeysAreFound(t *testing.T) {
	_, pool := openStore(t)
	level := func(check string) fencepost.Level {
		findings, err := postgres.Diagnose(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		return finding(t, findings, check).Level
	}
	want := func(check string, l fencepost.Level) {
		t.Helper()
		if got := level(check); got != l {
			t.Errorf("%s is %s, want %s", check, got, l)
		}
	}
	want("triggers", fencepost.LevelOK)
	want("fence key", fencepost.LevelOK)
	want("time columns", fencepost.LevelOK)
	run(t, pool, "ALTER TABLE fencepost_leases DISABLE TRIGGER ALL")
	want("triggers", fencepost.LevelWarning)
	run(t, pool, "ALTER TABLE fencepost_leases ENABLE TRIGGER ALL")
	want("triggers", fencepost.LevelOK)
	run(t, pool, "DROP TRIGGER fencepost_leases_delete ON fencepost_leases")
	want("triggers", fencepost.LevelWarning)
	run(t, pool, "DROP TRIGGER fencepost_leases_granted ON fencepost_leases", "DROP TRIGGER fencepost_leases_released ON fencepost_leases",
		"ALTER TABLE fencepost_leases ALTER COLUMN renewed_at TYPE timestamptz(0)")
	want("time columns", fencepost.LevelFailure)

	// Without the key a fenced write would not keep a takeover out: leases do not work then.
	run(t, pool, "ALTER TABLE fencepost_leases DROP CONSTRAINT fencepost_leases_fence")
	want("fence key", fencepost.LevelFailure)
	if _, err := postgres.New(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "fence_token") {
		t.Errorf("New: %v", err)
	}
}
