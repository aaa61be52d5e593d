package testenv_test

import (
	"database/sql"
	"testing"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestPgBouncerPoolsByTransaction(t *testing.T) {
	s := testenv.Postgres(t)
	name := fresh(t, s, "postgres")
	b := testenv.PgBouncer(t, s, testenv.PoolOptions{PoolSize: 1})
	via := func() *sql.DB {
		db, err := sql.Open("pgx", b.URLFor(name)+"&default_query_exec_mode=simple_protocol")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	// Two clients, one server process: only a pooler does that.
	one, two := via(), via()
	must(t, one, "INSERT INTO notes (id) VALUES (1)")
	if a, b := query[int](t, one, "SELECT pg_backend_pid()"), query[int](t, two, "SELECT pg_backend_pid()"); a != b {
		t.Errorf("served by processes %d and %d, want one", a, b)
	}
	if n := query[int](t, open(t, s, s.Addr(), name), "SELECT count(*) FROM notes"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	testenv.PgBouncerKeepsPrepared(t)
}
