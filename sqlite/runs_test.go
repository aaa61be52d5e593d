package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	moderncsqlite "modernc.org/sqlite"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

func startRun(t *testing.T, store *sqlite.Store, token fencepost.Token, id string) fencepost.Run {
	t.Helper()
	r, err := store.StartRun(t.Context(), fencepost.RunStart{Token: token, ID: id, Holder: "holder"})
	if err != nil {
		t.Fatalf("starting %s: %v", id, err)
	}
	return r
}

func findRun(t *testing.T, store *sqlite.Store, id string) fencepost.Run {
	t.Helper()
	r, found, err := store.FindRun(t.Context(), id)
	if err != nil || !found {
		t.Fatalf("finding %s: %v, %v", id, found, err)
	}
	return r
}

func finishRun(t *testing.T, store *sqlite.Store, token fencepost.Token, id string) (already bool, err error) {
	t.Helper()
	_, already, err = store.FinishRun(t.Context(), fencepost.RunFinish{Token: token, ID: id, Status: fencepost.RunSucceeded, Result: []byte(`{"n":1}`)})
	return already, err
}

func wantStale(t *testing.T, err error, reason fencepost.Reason) {
	t.Helper()
	if stale, ok := errors.AsType[*fencepost.StaleError](err); !ok || stale.Reason != reason {
		t.Errorf("%v; want stale: %s", err, reason)
	}
}

// Whoever raises the fence, by whatever program, ends the run of the token before, in the same transaction.
func TestARaisedFenceAbandonsTheRun(t *testing.T) {
	store, pool, token := guarded(t, time.Hour)
	startRun(t, store, token, "one")
	other := acquire(t, store, "other", "A", time.Hour).Token
	startRun(t, store, other, "unconcerned")
	tx := begin(t, pool)
	mustExec(t, tx, "UPDATE fencepost_leases SET fence_token = 7, owner_token = 'another program' WHERE lease_name = 'job'")
	if r := findRun(t, store, "one"); r.Status != fencepost.RunRunning || r.Lost {
		t.Errorf("before the takeover is committed: %+v", r)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	r := findRun(t, store, "one")
	if r.Status != fencepost.RunAbandoned || r.ReplacedBy != 7 || r.FinishedAt.Before(r.StartedAt) || !r.UpdatedAt.Equal(r.FinishedAt) || r.Lost {
		t.Errorf("after it: %+v", r)
	}
	already, err := finishRun(t, store, token, "one")
	if wantStale(t, err, fencepost.ReasonSuperseded); already {
		t.Error("called finished")
	}
	wantStale(t, store.ReportRun(t.Context(), fencepost.RunReport{Token: token, ID: "one"}), fencepost.ReasonSuperseded)
	if r := findRun(t, store, "unconcerned"); r.Status != fencepost.RunRunning {
		t.Errorf("another lease's run: %+v", r)
	}
	if n := number(t, pool, "SELECT count(*) FROM fencepost_events WHERE kind = 'stale_refused'"); n != 2 {
		t.Errorf("%d refusals recorded, want 2", n)
	}
}

// Without the trigger the next start does it, and until then the run is seen to be lost.
func TestALostRunIsSeenWithoutTheTrigger(t *testing.T) {
	store, pool, token := guarded(t, time.Hour)
	startRun(t, store, token, "one")
	mustExec(t, pool, "DROP TRIGGER fencepost_leases_abandon")
	next := preempt(t, store, token.Fence, "B").Token
	if r := findRun(t, store, "one"); r.Status != fencepost.RunRunning || !r.Lost {
		t.Errorf("%+v", r)
	}
	if r := startRun(t, store, next, "two"); r.Attempt != 2 || r.Lost {
		t.Errorf("%+v", r)
	}
	if r := findRun(t, store, "one"); r.Status != fencepost.RunAbandoned || r.ReplacedBy != next.Fence || r.Lost {
		t.Errorf("%+v", r)
	}
	mustExec(t, pool, "UPDATE fencepost_leases SET leased_until = 100000000000 WHERE lease_name = 'job'")
	if r := findRun(t, store, "two"); !r.Lost {
		t.Errorf("an expired token's run: %+v", r)
	}
}

// A completion that waits for a takeover in progress is judged by what the takeover leaves: refused when it commits, done when it does not.
func TestACompletionInTheMiddleOfATakeover(t *testing.T) {
	for _, commits := range []bool{true, false} {
		t.Run(map[bool]string{true: "committed", false: "rolled back"}[commits], func(t *testing.T) {
			store, pool, token := guarded(t, time.Hour)
			startRun(t, store, token, "one")
			tx := begin(t, pool)
			mustExec(t, tx, "UPDATE fencepost_leases SET fence_token = 2, owner_token = 'B' WHERE lease_name = 'job'")
			ended := make(chan error, 1)
			go func() {
				_, err := finishRun(t, store, token, "one")
				ended <- err
			}()
			for range 100 { // the completion comes to its wait meanwhile
				if r := findRun(t, store, "one"); r.Status != fencepost.RunRunning {
					t.Fatalf("ended beside a takeover: %+v", r)
				}
			}
			if !commits {
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				return
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			wantStale(t, <-ended, fencepost.ReasonSuperseded)
			if r := findRun(t, store, "one"); r.Status != fencepost.RunAbandoned || r.Result != nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A file of the version before gets the books; its live leases keep their fences and go on.
func TestTheUpgradeKeepsLiveLeases(t *testing.T) {
	path := newFile(t)
	pool := applicationPool(t, path, "immediate", "busy_timeout(30000)")
	first, err := os.ReadFile("migrations/00001_leases.sql")
	if err != nil {
		t.Fatal(err)
	}
	versions, err := database.NewStore(database.DialectSQLite3, "fencepost_schema_version")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{"00001_leases.sql": {Data: bytes.ReplaceAll(first, []byte("fencepost__"), []byte("fencepost_"))}}
	before, err := goose.NewProvider("", pool, files, goose.WithStore(versions), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if has, knows, err := sqlite.SchemaVersion(t.Context(), pool); err != nil || has != 1 || knows != 2 {
		t.Fatalf("version %d of %d, %v", has, knows, err)
	}
	mustExec(t, pool, `INSERT INTO fencepost_leases (lease_name, owner_token, fence_token, ttl_ms, leased_until)
		VALUES ('job', 'A', 41, 3600000, unixepoch() * 1000 + 3600000)`)
	store := openStore(t, path)
	if has, knows, err := sqlite.SchemaVersion(t.Context(), pool); err != nil || has != knows {
		t.Errorf("version %d of %d, %v", has, knows, err)
	}
	token := fencepost.Token{Name: "job", Owner: "A", Fence: 41}
	if err := store.Check(t.Context(), token); err != nil {
		t.Error(err)
	}
	startRun(t, store, token, "one")
	if next := preempt(t, store, 41, "B").Token; next.Fence != 42 {
		t.Errorf("fence %d", next.Fence)
	}
	if r := findRun(t, store, "one"); r.Status != fencepost.RunAbandoned || r.ReplacedBy != 42 {
		t.Errorf("%+v", r)
	}
}

// lossy is SQLite whose answers to a COMMIT are lost while losing is set: it has committed, and nobody was told.
type lossy struct {
	driver.Driver
	losing *atomic.Bool
}

type lossyConn struct {
	sqliteConn
	losing *atomic.Bool
}

// sqliteConn is what database/sql uses of the driver's connection.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
}

type lossyTx struct {
	driver.Tx
	losing *atomic.Bool
}

var errAnswerLost = errors.New("the answer was lost")

func (d lossy) Open(name string) (driver.Conn, error) {
	conn, err := d.Driver.Open(name)
	if err != nil {
		return nil, err
	}
	return lossyConn{conn.(sqliteConn), d.losing}, nil
}

func (c lossyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.sqliteConn.BeginTx(ctx, opts)
	return lossyTx{tx, c.losing}, err
}

func (t lossyTx) Commit() error {
	if err := t.Tx.Commit(); err != nil {
		return err
	}
	if t.losing.Swap(false) {
		return errAnswerLost
	}
	return nil
}

var losing atomic.Bool

func init() { sql.Register("sqlite-lossy", lossy{&moderncsqlite.Driver{}, &losing}) }

// Whether a completion whose answer was lost has happened, the second try says, also when the token was replaced in between.
func TestACompletionWhoseAnswerWasLost(t *testing.T) {
	path := newFile(t)
	other := openStore(t, path)
	token := acquire(t, other, "job", "A", time.Hour).Token
	pool, err := sql.Open("sqlite-lossy", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	mustExec(t, pool, "PRAGMA busy_timeout = 30000")
	store, err := sqlite.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	losing.Store(true)
	if _, err := store.StartRun(t.Context(), fencepost.RunStart{Token: token, ID: "one"}); !errors.Is(err, fencepost.ErrUnknown) || !errors.Is(err, errAnswerLost) {
		t.Fatalf("%v; want ErrUnknown", err)
	}
	if r := startRun(t, store, token, "one"); r.Status != fencepost.RunRunning || r.Holder != "" {
		t.Errorf("the second start: %+v; want the run of the first", r)
	}
	losing.Store(true)
	if already, err := finishRun(t, store, token, "one"); !errors.Is(err, fencepost.ErrUnknown) || already {
		t.Fatalf("%v, %v; want ErrUnknown", already, err)
	}
	if already, err := finishRun(t, store, token, "one"); err != nil || !already {
		t.Errorf("the second try: already %v, %v", already, err)
	}
	preempt(t, other, token.Fence, "B")
	if already, err := finishRun(t, store, token, "one"); err != nil || !already {
		t.Errorf("a try after the takeover: already %v, %v", already, err)
	}
}

// However long the books are, no operation reads more of them than it is about.
func TestRunsAreLookedUpByIndex(t *testing.T) {
	store := openStore(t, newFile(t))
	for name, index := range map[string]string{
		"run_abandon":  "INDEX fencepost_runs_open (lease_name=?)",
		"run_start":    "INDEX fencepost_runs_free (lease_name=?)",
		"run_report":   "INDEX sqlite_autoindex_fencepost_runs_1 (run_id=?)",
		"run_finish":   "INDEX sqlite_autoindex_fencepost_runs_1 (run_id=?)",
		"run_find":     "INDEX sqlite_autoindex_fencepost_runs_1 (run_id=?)",
		"run_open":     "INDEX fencepost_runs_open (lease_name=?)",
		"runs":         "INTEGER PRIMARY KEY (rowid<?)",
		"runs_of":      "INDEX fencepost_runs_lease (lease_name=? AND seq<?)",
		"last_slot":    "INDEX sqlite_autoindex_fencepost_runs_2 (lease_name=? AND slot<?)",
		"letter_find":  "INTEGER PRIMARY KEY (rowid=?)",
		"letters":      "INTEGER PRIMARY KEY (rowid<?)",
		"letters_of":   "INDEX fencepost_dead_lease (lease_name=? AND id<?)",
		"letter_adopt": "INDEX fencepost_runs_free (lease_name=?)",
		"letter_mark":  "INTEGER PRIMARY KEY (rowid=?)",
		"letter_drop":  "INTEGER PRIMARY KEY (rowid=?)",
		"prune_runs":   "INDEX fencepost_runs_lease (lease_name=?)",
		"prune_events": "INDEX fencepost_events_lease (lease_name=?",
	} {
		text, err := os.ReadFile("sql/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		rows, err := store.DB().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+string(text), make([]any, 11)...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		rows.Close()
		all := strings.Join(plan, "; ")
		scans := strings.ReplaceAll(all, "SCAN r LEFT-JOIN", "") // of the one row that was found
		if !strings.Contains(all, index) || strings.Contains(scans, "SCAN fencepost_") || strings.Contains(scans, "SCAN r") || strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%s: %s", name, all)
		}
	}
}
