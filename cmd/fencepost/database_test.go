package main

import (
	"context"
	"testing"

	"github.com/fencepost/fencepost/internal/testenv"
)

// onEveryDatabase runs a test on each engine, in a database of its own with the schema in it.
func onEveryDatabase(t *testing.T, test func(c *cli)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(newCLI(t))
	})
	onEveryServer(t, func(c *cli, _ *testenv.Server, _ string) { test(c) })
}

// onEveryServer runs a test on each engine that is a server.
func onEveryServer(t *testing.T, test func(c *cli, s *testenv.Server, database string)) {
	for _, kind := range []struct {
		name   string
		server func(testing.TB) *testenv.Server
	}{
		{"postgres", testenv.Postgres}, {"mariadb", testenv.MariaDB}, {"mysql", testenv.MySQL},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			server := kind.server(t)
			database := createDatabase(t, server)
			c := newCLIOn(t, server.URLFor(database))
			c.ok("migrate", "up")
			test(c, server, database)
		})
	}
}

// createDatabase returns the name of a new, empty database.
func createDatabase(t *testing.T, s *testenv.Server) string {
	t.Helper()
	name := testenv.DatabaseName(t)
	execOn(t, s.URL, "CREATE DATABASE "+name)
	t.Cleanup(func() { execOn(t, s.URL, "DROP DATABASE "+name+forceDrop(s)) })
	return name
}

// forceDrop ends the connections that a killed process has left to the server.
func forceDrop(s *testenv.Server) string {
	if s.Kind == testenv.KindPostgres {
		return " WITH (FORCE)"
	}
	return ""
}

// execOn runs a statement as any program would.
func execOn(t *testing.T, url, statement string) {
	t.Helper()
	db := plainOn(t, url)
	defer db.Close()
	// Not the test's own context, which has ended when it cleans up.
	if err := db.exec(context.WithoutCancel(t.Context()), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func textOn(t *testing.T, url, query string) string {
	t.Helper()
	db := plainOn(t, url)
	defer db.Close()
	text, err := db.text(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

func plainOn(t *testing.T, url string) plainDB {
	t.Helper()
	p := place{url: url, given: true}
	e, err := p.engine()
	if err != nil {
		t.Fatal(err)
	}
	db, err := e.plain(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return db
}
