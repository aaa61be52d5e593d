package sqlite_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

// With a rollback journal a COMMIT can be refused because somebody reads. What was not committed then must not stay in an open
// transaction on a connection of the pool, where the next user's COMMIT would bring it in without a fence.
func TestACommitThatIsRefusedLeavesNothingOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	open := func() *sql.DB {
		query := url.Values{"_pragma": {"busy_timeout(0)", "journal_mode(DELETE)"}}
		db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		db.SetMaxOpenConns(1)
		return db
	}
	pool, other := open(), open()
	store, err := sqlite.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if _, err := pool.Exec("CREATE TABLE work (n INTEGER); INSERT INTO work VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	grant, err := store.Acquire(t.Context(), fencepost.AcquireRequest{Name: "job", Owner: "owner", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	reading, err := other.Query("SELECT n FROM work UNION ALL SELECT n FROM work")
	if err != nil {
		t.Fatal(err)
	}
	if !reading.Next() {
		t.Fatal("nothing to read")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if n, err := store.Exec(ctx, grant.Token, "UPDATE work SET n = 1"); err == nil {
		t.Fatalf("committed %d rows beside a reader: the journal does not do what this test is about", n)
	} else {
		t.Log(err)
	}
	reading.Close()
	if _, err := pool.Exec("BEGIN"); err != nil {
		t.Errorf("the pool's connection is left in a transaction: %v", err)
	} else if _, err := pool.Exec("COMMIT"); err != nil {
		t.Error(err)
	}
	var n int
	if err := other.QueryRow("SELECT n FROM work").Scan(&n); err != nil || n != 0 {
		t.Errorf("the write that was refused shows as %d, %v", n, err)
	}
}
