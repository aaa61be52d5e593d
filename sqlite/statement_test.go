package sqlite_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

func TestExecTakesOneStatementThatWrites(t *testing.T) {
	_, pool, token := guarded(t, time.Hour)
	for _, statement := range []string{
		"INSERT INTO results VALUES ('plain')",
		"  \n\tinsert into results values ('lower case');",
		"INSERT INTO results VALUES ('a;b');  ",
		"INSERT INTO results VALUES ('it''s; COMMIT'); -- the end; COMMIT",
		"INSERT INTO results VALUES ('x') /* ; COMMIT */ ; /* and ; more */ ",
		"-- a comment; first\nINSERT INTO results VALUES ('y')",
		"/* one */ -- two\n/* three */ INSERT INTO results VALUES ('z');;",
		"UPDATE results SET what = what || \"what\" || [what] || `what` WHERE what = ';'",
		`UPDATE results SET "what" = 'q"; --' WHERE "what" = 'a"b;'`,
		"DELETE FROM results WHERE what = '--' OR what = '/*'",
		"REPLACE INTO results VALUES ('replaced')",
		"WITH n(i) AS (SELECT 1) INSERT INTO results SELECT i FROM n",
		"INSERT INTO results VALUES ('BEGIN; COMMIT; TRIGGER')",
		"CREATE TABLE more (trigger_name TEXT)",
		"CREATE INDEX more_index ON more (trigger_name)",
		"ALTER TABLE more ADD COLUMN b TEXT",
		"DROP TABLE more",
		"INSERT INTO results VALUES (1) -- goes on to the end of the line \r; COMMIT",
	} {
		if _, err := sqlite.Exec(t.Context(), pool, token, statement); err != nil {
			t.Errorf("%q: %v", statement, err)
		}
	}
}

// The driver runs every statement of a text; what comes after a COMMIT would not be fenced.
func TestExecRefusesWhatCouldLeaveTheFenceBehind(t *testing.T) {
	_, pool, token := guarded(t, time.Hour)
	const write = "INSERT INTO results VALUES ('unfenced')"
	for _, statement := range []string{
		"", " ", ";", "-- nothing", "/* nothing", "/* nothing */",
		"SELECT 1", "VALUES (1)", "EXPLAIN " + write, "PRAGMA synchronous = OFF", "pragma user_version = 7",
		"ATTACH ':memory:' AS other", "DETACH main", "VACUUM", "ANALYZE", "REINDEX",
		"BEGIN", "COMMIT", "end", "ROLLBACK", "SAVEPOINT s", "RELEASE s", "ROLLBACK TO s",
		"COMMIT; " + write,
		write + "; COMMIT",
		write + "; COMMIT; " + write,
		";" + write,
		write + ";" + write,
		write + "; -- ends here\n COMMIT",
		write + "; /* ; */ COMMIT",
		write + ";\x0bCOMMIT", "\x0bCOMMIT", // white space to some, not to all
		write + ";\u00a0COMMIT",
		write + ";\x00COMMIT",
		"INSERT INTO results VALUES ('a\\'); COMMIT; --')", // SQLite has no backslash escapes
		"INSERT INTO results VALUES ('unclosed); COMMIT",
		"INSERT INTO results VALUES (\"a\"\"; '); COMMIT; --')",
		"INSERT INTO results SELECT [a'] FROM results; COMMIT; --'",
		"CREATE TRIGGER late AFTER INSERT ON results BEGIN DELETE FROM results; END",
		"create -- x\n trigger late AFTER INSERT ON results BEGIN DELETE FROM results; END",
		"create /* x */ temp trigger late AFTER INSERT ON results BEGIN DELETE FROM results; END; COMMIT",
		"CREATE TABLE t (a TEXT DEFAULT 'TRIGGER'); COMMIT",
		"CREATE TABLE triggers (a); COMMIT",
	} {
		n, err := sqlite.Exec(t.Context(), pool, token, statement)
		if err == nil || n != 0 {
			t.Errorf("%q: %d rows, %v", statement, n, err)
		}
		if number(t, pool, "SELECT count(*) FROM results") != 0 {
			t.Fatalf("%q wrote (%v)", statement, err)
		}
	}
	for _, statement := range []string{"COMMIT", "SELECT 1", "INSERT INTO results VALUES (1); COMMIT"} {
		if _, err := sqlite.Exec(t.Context(), pool, token, statement); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("%q: %v; want ErrInvalid", statement, err)
		}
	}
}
