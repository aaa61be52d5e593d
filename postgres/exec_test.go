package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

// modes are the ways in which a pool may be set to send its statements.
var modes = map[string]pgx.QueryExecMode{
	"CacheStatement": pgx.QueryExecModeCacheStatement,
	"CacheDescribe":  pgx.QueryExecModeCacheDescribe,
	"DescribeExec":   pgx.QueryExecModeDescribeExec,
	"Exec":           pgx.QueryExecModeExec,
	"SimpleProtocol": pgx.QueryExecModeSimpleProtocol,
}

// inMode is a store whose pool has a mode, with a table to work on.
func inMode(t *testing.T, mode pgx.QueryExecMode) (*postgres.Store, fencepost.Token) {
	t.Helper()
	_, plain := openStore(t)
	run(t, plain, "CREATE TABLE work (id int PRIMARY KEY, note text NOT NULL)", "INSERT INTO work VALUES (1, 'new'), (2, 'new')")
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = mode
		// A session whose dates are written in another way than the driver reads them.
		c.ConnConfig.RuntimeParams["DateStyle"] = "German, DMY"
	})
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, acquire(t, store, "job", long).Token
}

func note(t *testing.T, on execer, id int) string {
	t.Helper()
	return read[string](t, on, "SELECT note FROM work WHERE id = $1", id)
}

func TestEveryOperationInEveryMode(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			store, token := inMode(t, mode)
			if err := renew(t.Context(), store, token); err != nil {
				t.Error(err)
			}
			if n, err := store.Exec(t.Context(), token, "UPDATE work SET note = $1 WHERE id = $2", "it's; done", 1); err != nil || n != 1 {
				t.Errorf("Exec: %d, %v", n, err)
			}
			if n, err := store.Exec(t.Context(), token, "UPDATE work SET note = @note WHERE id = @id", pgx.NamedArgs{"note": "named", "id": 2}); err != nil || n != 1 {
				t.Errorf("Exec with named arguments: %d, %v", n, err)
			}
			if a, b := note(t, store.Pool(), 1), note(t, store.Pool(), 2); a != "it's; done" || b != "named" {
				t.Errorf("notes %q and %q", a, b)
			}
			err := store.Tx(t.Context(), token, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "UPDATE work SET note = $1", "by Tx")
				return err
			}, pgx.TxOptions{IsoLevel: pgx.Serializable})
			if err != nil || note(t, store.Pool(), 1) != "by Tx" {
				t.Errorf("Tx: %v, note %q", err, note(t, store.Pool(), 1))
			}
			if i := inspect(t, store, "job"); i.Remaining <= long/2 || i.AcquiredAt.IsZero() {
				t.Errorf("row %+v", i)
			}
			if events, err := store.Events(t.Context(), fencepost.EventQuery{Lease: "job"}); err != nil || len(events) != 1 || events[0].At.IsZero() {
				t.Errorf("events %+v, %v", events, err)
			}
			stale := token
			stale.Fence++
			_, err = store.Exec(t.Context(), stale, "UPDATE work SET note = 'stale'")
			wantStale(t, err, fencepost.ReasonNotGranted)
			wantStale(t, store.Tx(t.Context(), stale, func(pgx.Tx) error { return nil }), fencepost.ReasonNotGranted)
			if out, err := store.Release(t.Context(), token); err != nil || !out.Changed {
				t.Errorf("Release: %+v, %v", out, err)
			}
			if findings, err := postgres.Diagnose(t.Context(), store.Pool()); err != nil || len(findings) < 10 {
				t.Errorf("Diagnose: %d findings, %v", len(findings), err)
			}
		})
	}
}

// Whatever ends the transaction that holds the lock lets the rest through without a fence.
func TestExecLeavesNoWayAroundTheFence(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			store, token := inMode(t, mode)
			run(t, store.Pool(), `CREATE PROCEDURE committing() LANGUAGE plpgsql AS $$ BEGIN COMMIT; UPDATE work SET note = 'around'; END $$`,
				`CREATE FUNCTION calling() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CALL committing(); RETURN 1; END $$`)
			for _, statement := range []string{
				"COMMIT", " commit", "END", "BEGIN", "START TRANSACTION", "ROLLBACK", "ABORT", "SAVEPOINT a", "RELEASE a", "PREPARE TRANSACTION 'a'",
				"COMMIT; UPDATE work SET note = 'around'", "/* a /* nested */ comment */ COMMIT; UPDATE work SET note = 'around'", "-- a comment\nCOMMIT; UPDATE work SET note = 'around'",
				"DO $$ BEGIN COMMIT; UPDATE work SET note = 'around'; END $$", "CALL committing()", "EXECUTE prepared", "VACUUM work", "", "  ", "-- nothing", ";",
				"CREATE INDEX CONCURRENTLY around ON work (note)", "EXPLAIN ANALYZE UPDATE work SET note = 'around'",
			} {
				_, err := store.Exec(t.Context(), token, statement)
				if !errors.Is(err, fencepost.ErrInvalid) {
					t.Errorf("%q: %v, want ErrInvalid", statement, err)
				}
			}
			// These begin well; the server finds the rest.
			for _, statement := range []string{
				"UPDATE work SET note = 'around'; COMMIT; UPDATE work SET note = 'around'",
				"SELECT 1; COMMIT; UPDATE work SET note = 'around'",
				`UPDATE work SET note = 'a\'; COMMIT; UPDATE work SET note = 'around' --'`,
				"SELECT calling()",
			} {
				_, err := store.Exec(t.Context(), token, statement)
				if err == nil || errors.Is(err, fencepost.ErrUnknown) || errors.Is(err, fencepost.ErrStale) {
					t.Errorf("%q: %v, want the server's refusal", statement, err)
				}
			}
			if got := note(t, store.Pool(), 1); got != "new" {
				t.Errorf("the note is %q", got)
			}
			if err := store.Check(t.Context(), token); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestErrorsOfTheStatementAreTheCallers(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			store, token := inMode(t, mode)
			run(t, store.Pool(), "CREATE TABLE parts (id int PRIMARY KEY, work int NOT NULL REFERENCES work DEFERRABLE INITIALLY DEFERRED)")
			for statement, want := range map[string]string{
				"INSERT INTO work VALUES (1, 'again')":        "23505",
				"UPDATE nowhere SET a = 1":                    "42P01",
				"UPDATE work SET note = nothing()":            "42883",
				"SELEC 1":                                     "",
				"INSERT INTO parts VALUES (1, 99)":            "23503", // found at the commit only
				"UPDATE work SET note = 'x' WHERE id = 1 / 0": "22012",
			} {
				n, err := store.Exec(t.Context(), token, statement)
				if code(err) != want || n != 0 {
					t.Errorf("%q: %d rows, %v, want %s", statement, n, err, want)
				}
				for _, class := range []error{fencepost.ErrUnknown, fencepost.ErrStale, fencepost.ErrUnavailable, fencepost.ErrBusy} {
					if errors.Is(err, class) {
						t.Errorf("%q: %v is %v", statement, err, class)
					}
				}
			}
			err := store.Tx(t.Context(), token, func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "INSERT INTO parts VALUES (1, 99)"); return err })
			if code(err) != "23503" || errors.Is(err, fencepost.ErrUnknown) {
				t.Errorf("a deferred constraint: %v", err)
			}
			if _, err := store.Exec(t.Context(), token, "UPDATE work SET note = $1", make(chan int)); err == nil || errors.Is(err, fencepost.ErrUnknown) {
				t.Errorf("an argument that cannot be sent: %v", err)
			}
			if n := read[int](t, store.Pool(), "SELECT count(*)::int FROM parts"); n != 0 {
				t.Errorf("%d parts", n)
			}
		})
	}
}

func TestTxAndItsFunction(t *testing.T) {
	store, token := inMode(t, pgx.QueryExecModeCacheStatement)
	ended := store.Tx(t.Context(), token, func(tx pgx.Tx) error { return tx.Commit(t.Context()) })
	if !errors.Is(ended, fencepost.ErrInvalid) {
		t.Errorf("a function that commits by itself: %v", ended)
	}
	swallowed := store.Tx(t.Context(), token, func(tx pgx.Tx) error {
		tx.Exec(t.Context(), "UPDATE work SET note = 'lost'")
		tx.Exec(t.Context(), "SELECT 1 / 0")
		return nil
	})
	if swallowed == nil || errors.Is(swallowed, fencepost.ErrUnknown) || note(t, store.Pool(), 1) != "new" {
		t.Errorf("a function that hides an error: %v, note %q", swallowed, note(t, store.Pool(), 1))
	}
	if err := store.Tx(t.Context(), token, func(pgx.Tx) error { return nil }, pgx.TxOptions{AccessMode: pgx.ReadOnly}); !errors.Is(err, fencepost.ErrInvalid) {
		t.Errorf("read-only: %v", err)
	}
	// No savepoint of the function's drops the lock.
	err := store.Tx(t.Context(), token, func(tx pgx.Tx) error {
		nested, err := tx.Begin(t.Context())
		if err != nil {
			return err
		}
		if err := nested.Rollback(t.Context()); err != nil {
			return err
		}
		expire(t, store.Pool(), "job")
		_, err = store.Acquire(t.Context(), request("job", long))
		wantHeld(t, err, true)
		_, err = tx.Exec(t.Context(), "UPDATE work SET note = 'fenced'")
		return err
	})
	if err != nil || note(t, store.Pool(), 1) != "fenced" {
		t.Errorf("Tx: %v, note %q", err, note(t, store.Pool(), 1))
	}
}

// Several statements of the caller's in one round trip.
func TestAGuardInABatchOfTheCallers(t *testing.T) {
	store, token := inMode(t, pgx.QueryExecModeCacheStatement)
	send := func(token fencepost.Token) error {
		batch := &pgx.Batch{}
		batch.Queue("UPDATE work SET note = $1 WHERE id = 1", "first")
		store.QueueGuard(batch, token)
		batch.Queue("UPDATE work SET note = $1 WHERE id = 2", "second")
		return postgres.Refused(store.Pool().SendBatch(t.Context(), batch).Close())
	}
	old := token
	expire(t, store.Pool(), "job")
	wantStale(t, send(old), fencepost.ReasonExpired)
	token = acquire(t, store, "job", long).Token
	err := send(old)
	wantStale(t, err, fencepost.ReasonSuperseded)
	if stale, ok := errors.AsType[*fencepost.StaleError](err); !ok || stale.Lease != "job" || stale.Presented != 1 || stale.Current != 2 || stale.Holder != "holder" {
		t.Errorf("refused as %+v", stale)
	}
	if strings.Contains(err.Error(), token.Owner) {
		t.Errorf("the error shows an owner token: %v", err)
	}
	if a, b := note(t, store.Pool(), 1), note(t, store.Pool(), 2); a != "new" || b != "new" {
		t.Errorf("a stale batch wrote %q and %q", a, b)
	}
	if err := send(token); err != nil {
		t.Fatal(err)
	}
	if a, b := note(t, store.Pool(), 1), note(t, store.Pool(), 2); a != "first" || b != "second" {
		t.Errorf("a live batch wrote %q and %q", a, b)
	}
	wantStale(t, send(fencepost.Token{Name: "never ☕ 'was'", Owner: "o", Fence: 1}), fencepost.ReasonUnknownName)
	if err := postgres.Refused(nil); err != nil {
		t.Error(err)
	}
	if err := errors.New("other"); postgres.Refused(err) != err {
		t.Error("another error did not stay as it is")
	}
}
