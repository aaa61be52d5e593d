package mysql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/mysql"
)

// Whatever the pool can, a fenced statement is one write in one transaction, and what could get out of it is refused.
func TestExec(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		reference := p.open(t)
		p.run(t, p.admin, "CREATE TABLE runs (id INT PRIMARY KEY, n BIGINT NOT NULL, note VARCHAR(100) NOT NULL DEFAULT '')")
		pools := map[string]func(*driver.Config){
			"plain":       func(*driver.Config) {},
			"interpolate": func(c *driver.Config) { c.InterpolateParams = true },
			"several":     func(c *driver.Config) { c.MultiStatements = true },
			"both":        func(c *driver.Config) { c.MultiStatements, c.InterpolateParams = true, true },
		}
		for name, set := range pools {
			t.Run(name, func(t *testing.T) {
				p.run(t, p.admin, "DELETE FROM runs", "INSERT INTO runs (id, n) VALUES (1, 0), (2, 0)")
				cfg := p.config()
				set(cfg)
				db := connect(t, cfg)
				grant := acquire(t, reference, name, time.Hour)
				ok := func(want int64, stmt string, args ...any) {
					t.Helper()
					n, err := mysql.Exec(t.Context(), db, grant.Token, stmt, args...)
					if err != nil || n != want {
						t.Errorf("%s: %d, %v; want %d", stmt, n, err, want)
					}
				}
				for range 2 { // what a pool can is learned by the first
					ok(2, "UPDATE runs SET n = n + 1")
					ok(1, "UPDATE runs SET n = n + ? WHERE id = ?", 1, 1)
				}
				ok(1, "  -- why\n/* and how */ UPDATE runs SET note = 'a?b' WHERE id = 1 -- the end;")
				ok(1, "UPDATE runs SET note = ? WHERE id = 1;", "it's; a 'test' \\ \x00")
				ok(1, "INSERT INTO runs (id, n, note) VALUES (3, 0, 'a;b')")
				ok(1, "DELETE FROM runs WHERE id = 3")
				ok(0, "UPDATE runs SET n = 7 WHERE id = 99")

				rows := func() string { return p.text(t, "SELECT GROUP_CONCAT(id, '=', n ORDER BY id) FROM runs") }
				before := rows()
				for _, bad := range []string{
					"", ";", "COMMIT", "BEGIN", "SELECT 1", "DROP TABLE runs", "/*! COMMIT */", "/*M! COMMIT */", "CALL x()", "SET autocommit = 0",
					"LOCK TABLES runs WRITE", "-- only a comment", "/* never closed", "'text'",
				} {
					if n, err := mysql.Exec(t.Context(), db, grant.Token, bad); !errors.Is(err, fencepost.ErrInvalid) {
						t.Errorf("%q: %d, %v; want invalid", bad, n, err)
					}
				}
				for _, bad := range []string{
					"UPDATE runs SET n = 100; COMMIT; UPDATE runs SET n = 200",
					"UPDATE runs SET n = 100; DROP TABLE runs",
					"UPDATE runs SET n = 100 /*! ; COMMIT */",
					"UPDATE runs SET n = 100 /* never closed",
					"UPDATE runs SET n = 100, note = 'never closed",
					"UPDATE runs SET no_such_column = 1",
					"UPDATE runs SET n = 9223372036854775807 + 1 + id",
					"INSERT INTO runs (id, n) VALUES (5, 1), (1, 1)",
				} {
					n, err := mysql.Exec(t.Context(), db, grant.Token, bad)
					if err == nil || errors.Is(err, fencepost.ErrStale) || errors.Is(err, fencepost.ErrUnknown) {
						t.Errorf("%q: %d, %v; want the server's own refusal", bad, n, err)
					}
				}
				if after := rows(); after != before {
					t.Errorf("refused statements wrote: %s before, %s after", before, after)
				}
				// No connection went back with a transaction open.
				ok(1, "UPDATE runs SET n = n + 1 WHERE id = 1")
				if open := p.text(t, "SELECT COUNT(*) FROM information_schema.INNODB_TRX t JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id WHERE p.DB = ?", p.database); open != "0" {
					t.Errorf("%s transactions are left open", open)
				}

				before = rows()
				p.expire(t, name)
				for i := range 3 {
					_, err := mysql.Exec(t.Context(), db, grant.Token, fmt.Sprintf("UPDATE runs SET n = %d", 1000+i))
					wantStale(t, err, fencepost.ReasonExpired)
				}
				err := mysql.Tx(t.Context(), db, grant.Token, func(*sql.Tx) error { t.Error("the work ran"); return nil })
				wantStale(t, err, fencepost.ReasonExpired)
				if after := rows(); after != before {
					t.Errorf("a stale token wrote: %s before, %s after", before, after)
				}
				if n := p.text(t, "SELECT COUNT(*) FROM fencepost_events WHERE kind = 'stale_refused' AND reason = 'expired' AND lease_name = ?", name); n != "4" {
					t.Errorf("4 refusals, %s recorded", n)
				}
			})
		}
	})
}

func TestTxSaysWhenItsFunctionEndedTheTransaction(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		store := p.open(t)
		grant := acquire(t, store, "job", time.Hour)
		err := store.Tx(t.Context(), grant.Token, func(tx *sql.Tx) error { return tx.Rollback() })
		if !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("%v", err)
		}
		mine := errors.New("mine")
		if err := store.Tx(t.Context(), grant.Token, func(*sql.Tx) error { return mine }); err != mine {
			t.Errorf("%v; want the function's error as it is", err)
		}
	})
}
