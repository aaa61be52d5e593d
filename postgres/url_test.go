package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/postgres"
)

const secret = "S3cret"

// Parsers repeat what they could not read, and what they could not read is often a password with a special character.
func TestABadURLIsNamedWithoutItsPassword(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	for text, want := range map[string]string{
		"":                                  "postgres://",
		secret:                              "postgres://",
		"mysql://app:" + secret + "@db/app": "postgres://",
		"host=db password=" + secret:        "postgres://",
		"postgres://app:" + secret + "%zz@db/app":                                                 "percent-encode",
		"postgres://app:" + secret + "/x@db/app":                                                  "",
		"postgres://app:" + secret + "#x@db/app":                                                  "",
		"postgres://app:" + secret + "?x@db/app":                                                  "",
		"postgres://app:" + secret + "@db:99999999/app":                                           "",
		"postgres://app:" + secret + "@db:" + secret + "/app":                                     "",
		"postgres://app:" + secret + "@db/app?sslmode=sometimes":                                  "sslmode",
		"postgres://app@db/app?sslmode=" + secret + "&password=" + secret:                         "",
		"postgres://app:" + secret + "@db/app?pool_max_conns=many":                                "pool_max_conns",
		"postgres://app:" + secret + "@db/app?connect_timeout=soon":                               "",
		"postgres://app:" + secret + "@db/app?a=%zz":                                              "question mark",
		"postgres://app:" + secret + "@db/app?sslmode=verify-full&sslrootcert=/nowhere/" + secret: "",
		"postgres://app:" + secret + "@one,two:" + secret + "/app":                                "",
	} {
		for name, open := range map[string]func() error{
			"OpenPool": func() error { _, err := postgres.OpenPool(t.Context(), text); return err },
			"Open":     func() error { _, err := postgres.Open(t.Context(), text); return err },
		} {
			err := open()
			if !errors.Is(err, fencepost.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s(%q) = %v, want ErrInvalid that says %q", name, text, err, want)
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if strings.Contains(e.Error(), secret) {
					t.Errorf("%s(%q) shows the password: %v", name, text, e)
				}
			}
		}
	}
}

func TestAServerThatRefusesOrIsNotThere(t *testing.T) {
	server := testenv.Postgres(t)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	wrong, nobody, missing := *u, *u, *u
	wrong.User = url.UserPassword(server.User, secret)
	nobody.Host = "127.0.0.1:1"
	missing.Path = "/no_such_database"
	for name, at := range map[string]url.URL{"a wrong password": wrong, "nobody listens": nobody, "no such database": missing} {
		_, err := postgres.Open(t.Context(), at.String())
		if !errors.Is(err, fencepost.ErrUnavailable) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), server.Password) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = postgres.Open(t.Context(), newDatabase(t))
	if !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "fencepost migrate up") {
		t.Errorf("no schema: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := postgres.Open(ctx, server.URL); !errors.Is(err, fencepost.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

func TestSchemaNamesThatCannotBe(t *testing.T) {
	for _, opt := range []postgres.Option{
		postgres.WithSchema(""), postgres.WithSchema(strings.Repeat("x", 64)), postgres.WithSchema("a\x00b"), postgres.WithSchema("a\xffb"),
		postgres.WithPrefix("Upper_"), postgres.WithPrefix(""), postgres.WithPrefix(`a"b`),
	} {
		if err := postgres.MigrationSQL(&strings.Builder{}, opt); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}

// A standby answers too, and what it says may be old: a lease that looks free there can be held.
func TestAStandbyIsNotBelieved(t *testing.T) {
	server := testenv.PrivatePostgres(t, "fsync=off")
	address := newDatabaseOn(t, server)
	pool := openPool(t, address)
	if _, err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	token := acquire(t, store, "job", long).Token
	if dir := read[string](t, pool, "SHOW data_directory"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "standby.signal"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server to answer as a standby", func() bool {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			return false
		}
		defer conn.Close(t.Context())
		return read[bool](t, conn, "SELECT pg_is_in_recovery()")
	})
	eventually(t, "the pool's dead connections to be gone", func() bool {
		_, err := pool.Exec(t.Context(), "SELECT 1")
		return err == nil
	})
	for what, op := range map[string]func() error{
		"Inspect":         func() error { _, _, err := store.Inspect(t.Context(), "job"); return err },
		"an unknown name": func() error { _, _, err := store.Inspect(t.Context(), "unknown"); return err },
		"Check":           func() error { return store.Check(t.Context(), token) },
		"List":            func() error { _, err := store.List(t.Context(), fencepost.ListQuery{}); return err },
		"Acquire":         func() error { _, err := store.Acquire(t.Context(), request("other", long)); return err },
		"Exec":            func() error { _, err := store.Exec(t.Context(), token, "SELECT 1"); return err },
		"Tx":              func() error { return store.Tx(t.Context(), token, func(pgx.Tx) error { return nil }) },
		"New":             func() error { _, err := postgres.New(t.Context(), pool); return err },
		"Migrate":         func() error { _, err := postgres.Migrate(t.Context(), pool); return err },
	} {
		if err := op(); !errors.Is(err, fencepost.ErrUnavailable) || errors.Is(err, fencepost.ErrStale) || !strings.Contains(err.Error(), "primary") {
			t.Errorf("%s on a standby: %v", what, err)
		}
	}
	findings, err := postgres.Diagnose(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, findings, "primary", fencepost.LevelFailure)
}
