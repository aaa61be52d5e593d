package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

var leaseRights = []string{
	"GRANT SELECT, INSERT, UPDATE ON fencepost_leases TO %[1]s",
	"GRANT SELECT, INSERT ON fencepost_events TO %[1]s",
	"GRANT SELECT, INSERT, UPDATE ON fencepost_runs, fencepost_dead TO %[1]s",
}

// everything runs every operation once.
func everything(t testing.TB, s *postgres.Store) {
	t.Helper()
	ctx := t.Context()
	grant := acquire(t, s, "job", time.Minute)
	if err := renew(ctx, s, grant.Token); err != nil {
		t.Errorf("renew: %v", err)
	}
	if err := s.Check(ctx, grant.Token); err != nil {
		t.Errorf("check: %v", err)
	}
	if marked, err := s.Want(ctx, "job"); err != nil || !marked {
		t.Errorf("want: %v, %v", marked, err)
	}
	if _, err := s.Exec(ctx, grant.Token, "SELECT 1"); err != nil {
		t.Errorf("exec: %v", err)
	}
	if err := s.Tx(ctx, grant.Token, func(pgx.Tx) error { return nil }); err != nil {
		t.Errorf("tx: %v", err)
	}
	if _, err := s.StartRun(ctx, fencepost.RunStart{Token: grant.Token, ID: "one"}); err != nil {
		t.Errorf("start: %v", err)
	}
	if err := s.ReportRun(ctx, fencepost.RunReport{Token: grant.Token, ID: "one", Progress: []byte("1")}); err != nil {
		t.Errorf("report: %v", err)
	}
	if _, _, err := finish(t, s, grant.Token, "one"); err != nil {
		t.Errorf("finish: %v", err)
	}
	if letter, err := s.KeepLetter(ctx, refusedCompletion("one")); err != nil {
		t.Errorf("keep: %v", err)
	} else if _, err := s.AdoptLetter(ctx, fencepost.Adoption{Token: grant.Token, Letter: letter, RunID: "two"}); err != nil {
		t.Errorf("adopt: %v", err)
	}
	if out, err := s.Release(ctx, grant.Token); err != nil || !out.Changed || !out.Wanted {
		t.Errorf("release: %+v, %v", out, err)
	}
	if _, err := s.Preempt(ctx, fencepost.PreemptRequest{Name: "job", Fence: 1, Owner: "operator", TTL: time.Minute}); err != nil {
		t.Errorf("preempt: %v", err)
	}
	if err := s.Record(ctx, fencepost.Event{Lease: "job", Kind: fencepost.EventLost, Fence: 1}); err != nil {
		t.Errorf("record: %v", err)
	}
	events, err := s.Events(ctx, fencepost.EventQuery{Lease: "job"})
	if err != nil || len(events) != 5 {
		t.Errorf("events: %+v, %v", events, err)
	}
	if list, err := s.List(ctx, fencepost.ListQuery{}); err != nil || len(list) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// A service's user usually may not create anything.
func TestAUserThatMayOnlyReadAndWriteRowsWillDo(t *testing.T) {
	_, owner := openStore(t)
	run(t, owner, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	url := roleOn(t, owner, leaseRights...)
	w := &wire{}
	pool := poolWith(t, url, func(c *pgxpool.Config) { w.tap(c) })
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	everything(t, store)
	for _, ddl := range []string{"CREATE ", "ALTER ", "DROP ", "LOCK TABLE"} {
		if w.containing(ddl) > 0 {
			t.Errorf("a %s was sent: %q", ddl, w.statements)
		}
	}
	findings, err := postgres.Diagnose(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Level == fencepost.LevelFailure {
			t.Errorf("%+v", f)
		}
	}
}

// One error that names what to grant: run what it says, and everything works.
func TestMissingRightsAreNamed(t *testing.T) {
	for name, rights := range map[string][]string{
		"none":      nil,
		"no events": leaseRights[:1],
		"no runs":   leaseRights[:2],
		"read only": {"GRANT SELECT ON fencepost_leases, fencepost_events, fencepost_runs, fencepost_dead TO %[1]s"},
		"no schema": append([]string{"REVOKE USAGE ON SCHEMA public FROM PUBLIC, %[1]s"}, leaseRights...),
	} {
		t.Run(name, func(t *testing.T) {
			_, owner := openStore(t)
			url := roleOn(t, owner, rights...)
			pool := openPool(t, url)
			_, err := postgres.New(t.Context(), pool)
			if !errors.Is(err, fencepost.ErrUnavailable) {
				t.Fatalf("got %v, want unavailable", err)
			}
			findings, diagnoseErr := postgres.Diagnose(t.Context(), pool)
			if diagnoseErr != nil {
				t.Fatal(diagnoseErr)
			}
			advice := finding(t, findings, "rights")
			if advice.Level != fencepost.LevelFailure {
				t.Errorf("%+v", advice)
			}
			_, grants, _ := strings.Cut(err.Error(), "GRANT ")
			if grants == "" || !strings.Contains(advice.Advice, grants) {
				t.Fatalf("%v names no grant, or another than the diagnosis: %+v", err, advice)
			}
			if _, err := owner.Exec(t.Context(), "GRANT "+grants, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatalf("GRANT %s: %v", grants, err)
			}
			store, err := postgres.New(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			everything(t, store)
		})
	}
}

// Rights that are taken away later are no loss of a lease, and say what is missing.
func TestRightsThatAreTakenAway(t *testing.T) {
	_, owner := openStore(t)
	store, _ := openStoreWithout(t, roleOn(t, owner, leaseRights...))
	token := acquire(t, store, "job", long).Token
	run(t, owner, "REVOKE UPDATE ON fencepost_leases FROM "+pgx.Identifier{store.Pool().Config().ConnConfig.User}.Sanitize())
	for what, err := range map[string]error{
		"renew": renew(t.Context(), store, token),
		"exec":  second(store.Exec(t.Context(), token, "SELECT 1")),
		"tx":    store.Tx(t.Context(), token, func(pgx.Tx) error { return nil }),
	} {
		if !errors.Is(err, fencepost.ErrUnavailable) || errors.Is(err, fencepost.ErrStale) || !strings.Contains(err.Error(), "UPDATE") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Deleting is for those who keep the books short: others need not have the right, and who lacks it is told.
func TestPruningNeedsARightOfItsOwn(t *testing.T) {
	_, owner := openStore(t)
	url := roleOn(t, owner, leaseRights...)
	store, _ := openStoreWithout(t, url)
	token := acquire(t, store, "job", long).Token
	prune := func(events bool) error {
		_, err := store.Prune(t.Context(), fencepost.PruneRequest{Token: token, Lease: "job", Events: events, Keep: 1, Limit: 1})
		return err
	}
	drop := func() error { return store.DropLetter(t.Context(), keep(t, store, refusedCompletion("one")), "me") }
	for what, err := range map[string]error{"runs": prune(false), "events": prune(true), "letters": drop()} {
		if !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "DELETE") {
			t.Errorf("%s: %v", what, err)
		}
	}
	run(t, owner, "GRANT DELETE ON fencepost_runs, fencepost_events, fencepost_dead TO "+pgx.Identifier{store.Pool().Config().ConnConfig.User}.Sanitize())
	if err := errors.Join(prune(false), prune(true), drop()); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// openStoreWithout is a store whose schema another user has made.
func openStoreWithout(t testing.TB, url string) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	pool := openPool(t, url)
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, pool
}

// Users without the right to create a schema or a table are told so by Migrate.
func TestMigrateSaysThatItMayNot(t *testing.T) {
	owner := openPool(t, newDatabase(t))
	run(t, owner, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	pool := openPool(t, roleOn(t, owner))
	for _, opts := range [][]postgres.Option{nil, {postgres.WithSchema("elsewhere")}} {
		_, err := postgres.Migrate(t.Context(), pool, opts...)
		if !errors.Is(err, fencepost.ErrUnavailable) || code(err) != "42501" || strings.Contains(err.Error(), "GRANT SELECT") {
			t.Errorf("%v", err)
		}
		if err != nil && !strings.Contains(err.Error(), "CREATE") {
			t.Errorf("the error does not say what is missing: %v", err)
		}
	}
}
