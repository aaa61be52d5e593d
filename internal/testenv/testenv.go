// Package testenv hands tests real database servers of their own.
//
// [Postgres], [MariaDB] and [MySQL] return a server that every test of the binary shares, started at the first call.
// [PrivatePostgres], [PrivateMariaDB] and [PrivateMySQL] start one for a single test, which may stop, freeze or kill it.
// [PgBouncer] puts a transaction-mode pooler in front of a PostgreSQL server and [NewProxy] a TCP link that a test can delay,
// hold and cut.
//
// The package knows no database driver. It promises a user with every right and, through [DatabaseName], a name that no
// other test uses; a package that has a driver creates its databases with CREATE DATABASE itself. They need not be
// dropped: the whole server is thrown away. A server named by FENCEPOST_TEST_POSTGRES, FENCEPOST_TEST_MARIADB or
// FENCEPOST_TEST_MYSQL is used instead of starting one, and there the tests should drop what they created.
//
// Servers listen on 127.0.0.1 on a random port, never run as root, keep their data in a temporary directory and leave the
// engines' defaults alone except for connection limits and memory sizes. Commits are durable as by default, so that lock
// waits have their real length and benchmarks are honest; a test that wants speed instead passes a setting such as
// "fsync=off". When the test binary ends, also by a panic or by SIGKILL, a watchdog process that holds the other end of a
// pipe stops its servers and removes their directories.
//
// A server that is not installed skips the test, and fails it when CI=true: a green run in CI has met every engine.
package testenv

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// Kind names a server program.
type Kind string

const (
	KindPostgres  Kind = "postgres"
	KindMariaDB   Kind = "mariadb"
	KindMySQL     Kind = "mysql"
	KindPgBouncer Kind = "pgbouncer"
)

// Kinds lists the databases that the tests need, in the order in which they are reported.
func Kinds() []Kind { return []Kind{KindPostgres, KindMariaDB, KindMySQL} }

// EnvVar names the environment variable that points the tests at a running server of this kind.
func (k Kind) EnvVar() string { return "FENCEPOST_TEST_" + strings.ToUpper(string(k)) }

// Postgres returns the PostgreSQL server that all tests of this binary share. It must not be stopped.
func Postgres(t testing.TB) *Server { t.Helper(); return shared(t, KindPostgres) }

// MariaDB returns the MariaDB server that all tests of this binary share. It must not be stopped.
func MariaDB(t testing.TB) *Server { t.Helper(); return shared(t, KindMariaDB) }

// MySQL returns the MySQL server that all tests of this binary share. It must not be stopped.
func MySQL(t testing.TB) *Server { t.Helper(); return shared(t, KindMySQL) }

// PrivatePostgres starts a PostgreSQL server for this test alone and stops it when the test ends. Settings are
// postgresql.conf lines such as "fsync=off" or "max_connections=20".
func PrivatePostgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	return private(t, KindPostgres, settings)
}

// PrivateMariaDB starts a MariaDB server for this test alone and stops it when the test ends. Settings are long options
// without their dashes, such as "innodb_lock_wait_timeout=2".
func PrivateMariaDB(t testing.TB, settings ...string) *Server {
	t.Helper()
	return private(t, KindMariaDB, settings)
}

// PrivateMySQL starts a MySQL server for this test alone and stops it when the test ends. Settings are long options without
// their dashes, such as "default_time_zone=+05:30".
func PrivateMySQL(t testing.TB, settings ...string) *Server {
	t.Helper()
	return private(t, KindMySQL, settings)
}

var sharedServers sync.Map // Kind -> func() (*Server, error)

func shared(t testing.TB, kind Kind) *Server {
	t.Helper()
	once, _ := sharedServers.LoadOrStore(kind, sync.OnceValues(func() (*Server, error) {
		if address := os.Getenv(kind.EnvVar()); address != "" {
			return external(kind, address)
		}
		return Start(kind)
	}))
	s, err := once.(func() (*Server, error))()
	give(t, err)
	return s
}

func private(t testing.TB, kind Kind, settings []string) *Server {
	t.Helper()
	s, err := Start(kind, settings...)
	give(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", kind, s.LogTail())
		}
		s.discard()
	})
	return s
}

// give ends the test when there is no server: with a failure, except that outside CI a server that was never installed
// only skips.
func give(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if _, missing := errors.AsType[*MissingError](err); missing && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	t.Fatal(err)
}

// Missing returns a [*MissingError] when a server of this kind is neither installed nor named by the environment.
func Missing(kind Kind) error {
	if os.Getenv(kind.EnvVar()) != "" {
		return nil
	}
	var err error
	switch kind {
	case KindPostgres:
		_, err = find(kind, postgresPrograms...)
	case KindMariaDB:
		_, err = find(kind, mariadbPrograms...)
	case KindMySQL:
		_, _, err = findMySQL()
	case KindPgBouncer:
		_, err = find(kind, pgbouncerPrograms...)
	}
	return err
}

// MissingError reports a server program that is not installed.
type MissingError struct {
	Kind Kind
	Want string // the programs that were looked for
}

func (e *MissingError) Error() string {
	text := fmt.Sprintf("%s is not installed (looked for %s): run `make deps`", e.Kind, e.Want)
	if e.Kind == KindPgBouncer {
		return text
	}
	return text + fmt.Sprintf(", or point %s at a running server", e.Kind.EnvVar())
}
