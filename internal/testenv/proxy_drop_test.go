package testenv_test

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/testenv"
)

// A reply that is lost before the server applied the statement would prove nothing: the row must be there each time.
func TestProxyDropsRepliesOnlyAfterTheServerCommitted(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		s := engines[kind].shared(t)
		name := fresh(t, s, admin(kind))
		direct := open(t, s, s.Addr(), name)
		p := testenv.NewProxy(t, s.Addr())
		via := open(t, s, p.Addr(), name)
		has := func(id int) bool {
			var n int
			if err := direct.QueryRowContext(t.Context(), strings.Replace(
				"SELECT count(*) FROM notes WHERE id = ID", "ID", strconv.Itoa(id), 1)).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n == 1
		}
		insertDropped := func(id int, do func(ctx context.Context) error) {
			t.Helper()
			before := len(p.Dropped())
			if err := do(t.Context()); err == nil {
				t.Errorf("row %d: no error although the reply was lost", id)
			}
			if !has(id) {
				t.Errorf("row %d is not there although the server had answered", id)
			}
			dropped := p.Dropped()
			if len(dropped) == before {
				t.Errorf("row %d: no reply was lost", id)
			}
			p.Restore()
		}
		for id := range 10 {
			prepared, err := via.PrepareContext(t.Context(), insert(kind))
			if err != nil {
				t.Fatal(err)
			}
			p.DropReplies()
			insertDropped(id, func(ctx context.Context) error {
				_, err := prepared.ExecContext(ctx, id, "prepared")
				return err
			})
		}
		// Logging in and preparing happen while replies are being lost already.
		via.SetMaxIdleConns(0)
		p.DropNextReply("insert into NOTES")
		insertDropped(100, func(ctx context.Context) error {
			_, err := via.ExecContext(ctx, insert(kind), 100, "unprepared")
			return err
		})
		p.DropReplies("notes")
		insertDropped(101, func(ctx context.Context) error {
			_, err := via.ExecContext(ctx, "INSERT INTO notes (id, note) VALUES (101, 'literal')")
			return err
		})
		p.DropNextReply("commit")
		insertDropped(102, func(ctx context.Context) error {
			tx, err := via.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(ctx, insert(kind), 102, "in a transaction"); err != nil {
				t.Fatal(err)
			}
			return tx.Commit()
		})
		// Results with rows are told from those without.
		p.DropReplies("answer")
		if n, err := lookUp(t, via, "SELECT id FROM notes ORDER BY id"); err != nil || n != 13 {
			t.Errorf("%d rows and error %v, want 13 rows", n, err)
		}
		if _, err := lookUp(t, via, "SELECT id AS answer FROM notes"); err == nil {
			t.Error("no error although the reply was lost")
		}
		if last := p.Dropped()[len(p.Dropped())-1]; !strings.Contains(last, "answer") {
			t.Errorf("the last lost reply was that of %q", last)
		}
		if slices.Contains(p.Dropped(), "") {
			t.Errorf("the protocol was not followed: %q", p.Dropped())
		}
	})
}

// A long reply begins to arrive while the statement still runs, here while its commit waits for a deferred trigger. Cutting at
// its first bytes would be cutting before the commit.
func TestProxyWaitsForTheCommitBehindALongReply(t *testing.T) {
	s := testenv.Postgres(t)
	name := fresh(t, s, "postgres")
	direct := open(t, s, s.Addr(), name)
	must(t, direct, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END'`)
	must(t, direct, `CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`)
	p := testenv.NewProxy(t, s.Addr())
	via := open(t, s, p.Addr(), name)
	p.DropNextReply("insert")
	if _, err := lookUp(t, via, "INSERT INTO notes (id) VALUES (1) RETURNING repeat('x', 100000)"); err == nil {
		t.Error("no error although the reply was lost")
	}
	if n := query[int](t, direct, "SELECT count(*) FROM notes"); n != 1 {
		t.Errorf("%d rows, want 1: the link was cut before the commit", n)
	}
}

func lookUp(t *testing.T, db *sql.DB, statement string) (int, error) {
	rows, err := db.QueryContext(t.Context(), statement)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

func TestProxyInFrontOfADatabaseChangesNothingWhenItRests(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		s := engines[kind].shared(t)
		name := fresh(t, s, admin(kind))
		db := open(t, s, testenv.NewProxy(t, s.Addr()).Addr(), name)
		long := strings.Repeat("x", 100)
		for id := range 300 {
			must(t, db, insert(kind), id, long)
		}
		// More than one packet, segment and buffer.
		big := query[string](t, db, "SELECT repeat('abc', 1000000)")
		if len(big) != 3000000 {
			t.Errorf("%d bytes, want 3000000", len(big))
		}
		if n, err := lookUp(t, db, "SELECT a.id, b.note FROM notes a, notes b"); n != 90000 || err != nil {
			t.Errorf("%d rows and error %v, want 90000", n, err)
		}
	})
}
