package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/postgres"
)

// A hook that makes a connection send texts as they are must not open the fence to a second statement in one of them.
func TestAHookThatChangesTheProtocolOpensNothing(t *testing.T) {
	_, plain := openStore(t)
	run(t, plain, "CREATE TABLE work (n int NOT NULL)", "INSERT INTO work VALUES (0)")
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) {
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			return nil
		}
	})
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	token := acquire(t, store, "job", long).Token
	for _, statement := range []string{"UPDATE work SET n = 1; COMMIT; UPDATE work SET n = 2", "UPDATE work SET n = 1; UPDATE work SET n = 2"} {
		if _, err := store.Exec(t.Context(), token, statement); err == nil {
			t.Errorf("allowed: %s", statement)
		}
	}
	if n := read[int](t, plain, "SELECT n FROM work"); n != 0 {
		t.Errorf("%d was written", n)
	}
	if n, err := store.Exec(t.Context(), token, "UPDATE work SET n = n + $1", 1); n != 1 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	if err := store.Tx(t.Context(), token, func(pgx.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
}
