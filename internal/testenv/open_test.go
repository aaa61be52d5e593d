package testenv_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencepost/fencepost/internal/testenv"
)

// engines names the constructors of every engine.
var engines = map[testenv.Kind]struct {
	shared  func(testing.TB) *testenv.Server
	private func(testing.TB, ...string) *testenv.Server
}{
	testenv.KindPostgres: {testenv.Postgres, testenv.PrivatePostgres},
	testenv.KindMariaDB:  {testenv.MariaDB, testenv.PrivateMariaDB},
	testenv.KindMySQL:    {testenv.MySQL, testenv.PrivateMySQL},
}

func eachEngine(t *testing.T, test func(t *testing.T, kind testenv.Kind)) {
	for _, kind := range testenv.Kinds() {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// open connects to a database of the server at an address, which may be that of a proxy.
func open(t testing.TB, s *testenv.Server, addr, database string) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", s.URLVia(addr, database)
	if s.Kind == testenv.KindMariaDB || s.Kind == testenv.KindMySQL {
		c := mysql.NewConfig()
		c.User, c.Passwd, c.Net, c.Addr, c.DBName = s.User, s.Password, "tcp", addr, database
		c.Timeout = 30 * time.Second
		driver, dsn = "mysql", c.FormatDSN()
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// fresh creates a database with a table (id, note) on the server.
func fresh(t testing.TB, s *testenv.Server, admin string) string {
	t.Helper()
	name := testenv.DatabaseName(t)
	must(t, open(t, s, s.Addr(), admin), "CREATE DATABASE "+name)
	must(t, open(t, s, s.Addr(), name), "CREATE TABLE notes (id BIGINT PRIMARY KEY, note VARCHAR(100))")
	return name
}

func must(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func query[T any](t testing.TB, db *sql.DB, statement string) T {
	t.Helper()
	var v T
	if err := db.QueryRowContext(t.Context(), statement).Scan(&v); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return v
}

// admin is a database that every server of the kind has from the start.
func admin(kind testenv.Kind) string {
	if kind == testenv.KindPostgres {
		return "postgres"
	}
	return "mysql"
}

// insert is a statement with two arguments.
func insert(kind testenv.Kind) string {
	if kind == testenv.KindPostgres {
		return "INSERT INTO notes (id, note) VALUES ($1, $2)"
	}
	return "INSERT INTO notes (id, note) VALUES (?, ?)"
}
