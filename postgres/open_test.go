package postgres_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/postgres"
)

// newDatabase returns the URL of an empty database on the shared server.
func newDatabase(t testing.TB) string {
	t.Helper()
	return newDatabaseOn(t, testenv.Postgres(t))
}

func newDatabaseOn(t testing.TB, server *testenv.Server) string {
	t.Helper()
	name := testenv.DatabaseName(t)
	admin, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	return server.URLFor(name)
}

// withParameter adds a parameter to a URL.
func withParameter(t testing.TB, raw, key, value string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // the driver does not take a plus for a space
	return u.String()
}

func openPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.OpenPool(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// openStore returns a store on a new database with the schema, and its pool.
func openStore(t testing.TB, opts ...postgres.Option) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	return openStoreAt(t, newDatabase(t), opts...)
}

func openStoreAt(t testing.TB, url string, opts ...postgres.Option) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	pool := openPool(t, url)
	if _, err := postgres.Migrate(t.Context(), pool, opts...); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.New(t.Context(), pool, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, pool
}
