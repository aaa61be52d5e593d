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

// behindPooler is a new database, the server's own address of it, and a transaction-mode pooler's with two server connections.
func behindPooler(t *testing.T, settings ...string) (direct, pooled string) {
	t.Helper()
	server := testenv.Postgres(t)
	direct = newDatabaseOn(t, server)
	pooler := testenv.PgBouncer(t, server, testenv.PoolOptions{PoolSize: 2, Settings: settings})
	name := direct[strings.LastIndex(direct, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	return direct, pooler.URLFor(name)
}

// poolerSettings are the poolers that teams have: one that knows nothing of prepared statements, and one that keeps them.
func poolerSettings(t *testing.T) map[string][]string {
	settings := map[string][]string{"as installed": nil}
	if testenv.PgBouncerKeepsPrepared(t) {
		settings = map[string][]string{"prepared lost": {"max_prepared_statements=0"}, "prepared kept": {"max_prepared_statements=100"}}
	}
	return settings
}

// A transaction-mode pooler hands every transaction to whichever server connection is free. Statements that were prepared on another, and
// locks that belong to a session, are then not there, or somebody else's.
func TestEverythingWorksBehindATransactionPooler(t *testing.T) {
	for name, settings := range poolerSettings(t) {
		t.Run(name, func(t *testing.T) {
			direct, pooled := behindPooler(t, settings...)
			plain := openPool(t, direct)
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					pool, err := postgres.OpenPool(t.Context(), pooled)
					if err != nil {
						t.Error(err)
						return
					}
					defer pool.Close()
					if _, err := postgres.Migrate(t.Context(), pool); err != nil {
						t.Errorf("Migrate: %v", err)
					}
				})
			}
			wg.Wait()
			if t.Failed() {
				return
			}
			if n := read[int](t, plain, "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'"); n != 0 {
				t.Errorf("%d advisory locks were left", n)
			}
			run(t, plain, "CREATE TABLE work (client int PRIMARY KEY, n int NOT NULL)", "INSERT INTO work SELECT i, 0 FROM generate_series(0, 9) AS i")

			const clients, rounds = 10, 17 // six operations each: more than a thousand
			for c := range clients {
				wg.Go(func() {
					pool, err := pgxpool.New(t.Context(), pooled) // the driver's own habits: named prepared statements
					if err != nil {
						t.Error(err)
						return
					}
					defer pool.Close()
					store, err := postgres.New(t.Context(), pool)
					if err != nil {
						t.Errorf("New: %v", err)
						return
					}
					defer store.Close()
					for round := range rounds {
						if err := mixed(t, store, c, round); err != nil {
							t.Errorf("client %d, round %d: %v", c, round, err)
							return
						}
					}
				})
			}
			wg.Wait()
			if n := read[int](t, plain, "SELECT count(*)::int FROM work WHERE n = $1", 2*rounds); n != clients {
				t.Errorf("%d of %d clients have exactly their %d writes", n, clients, 2*rounds)
			}
		})
	}
}

// mixed does one operation of each kind on the client's own lease.
func mixed(t *testing.T, s *postgres.Store, client, round int) error {
	ctx, name := t.Context(), fmt.Sprintf("job-%d", client)
	grant, err := s.Acquire(ctx, request(name, long))
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	if want := int64(round + 1); grant.Token.Fence != want {
		return fmt.Errorf("acquired fence %d, want %d", grant.Token.Fence, want)
	}
	if err := renew(ctx, s, grant.Token); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	if n, err := s.Exec(ctx, grant.Token, "UPDATE work SET n = n + 1 WHERE client = $1", client); err != nil || n != 1 {
		return fmt.Errorf("exec: %d rows, %w", n, err)
	}
	err = s.Tx(ctx, grant.Token, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE work SET n = n + 1 WHERE client = $1", pgx.QueryExecModeExec, client)
		return err
	})
	if err != nil {
		return fmt.Errorf("tx: %w", err)
	}
	if _, err := s.Acquire(ctx, request(name, long)); !errors.Is(err, fencepost.ErrHeld) {
		return fmt.Errorf("acquire of a held lease: %w", err)
	}
	if out, err := s.Release(ctx, grant.Token); err != nil || !out.Changed {
		return fmt.Errorf("release: %+v, %w", out, err)
	}
	return nil
}

// The limit on a fenced transaction's idling belongs to the transaction: the server connection's next user must not inherit it.
func TestAPoolersConnectionKeepsNothingOfAFencedTransaction(t *testing.T) {
	direct, pooled := behindPooler(t)
	openStoreAt(t, direct)
	pool := poolWith(t, pooled, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec })
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const settings = "SELECT current_setting('idle_in_transaction_session_timeout') || ' ' || current_setting('lock_timeout')"
	before := read[string](t, pool, settings)
	token := acquire(t, store, "job", long).Token
	err = store.Tx(t.Context(), token, func(tx pgx.Tx) error {
		if inside := read[string](t, tx, settings); inside == before {
			t.Errorf("the fenced transaction may idle for ever: %s", inside)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Release(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if after := read[string](t, pool, settings); after != before {
			t.Fatalf("settings were %s and are %s", before, after)
		}
	}
}

func TestDiagnoseSeesAPooler(t *testing.T) {
	direct, pooled := behindPooler(t)
	for url, want := range map[string]fencepost.Level{direct: fencepost.LevelOK, pooled: fencepost.LevelWarning} {
		findings, err := postgres.Diagnose(t.Context(), openPool(t, url))
		if err != nil {
			t.Fatal(err)
		}
		if got := finding(t, findings, "pooler"); got.Level != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

func finding(t testing.TB, findings []fencepost.Finding, check string) fencepost.Finding {
	t.Helper()
	for _, f := range findings {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding about %q among %+v", check, findings)
	return fencepost.Finding{}
}
