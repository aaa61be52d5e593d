package storetest

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fencepost/fencepost"
)

// Engine is a database whose own transactions carry fenced writes, as [Fencing] sees it.
//
// In its statements {name}, {owner} and {fence} stand for the token that writes, {id} for the row of the table runs that it
// completes, and {gate} for the name of a gate.
type Engine struct {
	// Levels are the isolation levels at which everything is tested.
	Levels []string
	// Open returns an empty database with the schema of leases. Every session of it, the store's too, runs at level.
	Open func(t *testing.T, level string) Database
	// Complete sets the status of the row {id} to 'completed'.
	Complete string
	// SlowComplete does the same, and waits in the middle until the gate {gate} opens.
	SlowComplete string
	// Naive are the statements without a fence that people write, with what becomes of them.
	Naive []Naive
	// SavepointDropsGuard says that a guard taken inside a savepoint ends with a rollback to it, so that a stale write gets through.
	SavepointDropsGuard bool
	// PauseLimit is a statement that makes the server end a transaction that stays idle for about a second; empty where there is
	// no server to do that.
	PauseLimit string
	// TxEndsPaused says that the package's own Tx limits a pause without being asked.
	TxEndsPaused bool
	// OneWriter says that whoever writes anything keeps everybody else from writing, so that nobody waits for a single row. Complete then
	// writes the lease's fence as it reads it into the column result.
	OneWriter bool
}

// Naive is a way to write that checks the lease in the statement itself and leaves it at that. It stands beside the fenced ways to prove that the
// interleavings do let a stale write through where nothing prevents it.
type Naive struct {
	Name         string
	Complete     string // as [Engine].Complete, if the lease is the token's and has not expired
	SlowComplete string // the same with the gate, after the lease has been looked at; empty to leave it out
	Insert       string // inserts (id, note) values ({id}, ...) into the table reports on the same condition; empty to leave it out
	// Stale says whether an interleaving at a level makes this statement commit a stale write.
	Stale func(interleaving, level string) bool
}

// Database is an opened database of an [Engine]. The statements that the suite itself passes are plain SQL without arguments.
type Database interface {
	Store() fencepost.Store
	// Run runs a statement by itself.
	Run(ctx context.Context, stmt string) error
	// Text returns the first column of the first row as text; empty without a row.
	Text(ctx context.Context, query string) (string, error)
	// Begin begins a transaction as an application does.
	Begin(ctx context.Context) (Tx, error)
	// Tx is the package's Tx. The transaction that fn gets needs neither Guard nor Commit nor Rollback.
	Tx(ctx context.Context, t fencepost.Token, fn func(tx Tx) error) error
	// Exec is the package's Exec.
	Exec(ctx context.Context, t fencepost.Token, stmt string) (int64, error)
	// Waiting reports whether the server has a session that waits for a lock in a statement whose text contains marker.
	Waiting(ctx context.Context, marker string) (bool, error)
	// CloseGate closes a gate until open is called.
	CloseGate(ctx context.Context, gate string) (open func(), err error)
}

// Tx is a transaction of a [Database].
type Tx interface {
	Exec(ctx context.Context, stmt string) (rowsAffected int64, err error)
	// Guard is the package's Guard.
	Guard(ctx context.Context, t fencepost.Token) error
	Commit(ctx context.Context) error
	// Rollback ends the transaction if it has not ended yet.
	Rollback()
}

// The interleavings, for [Naive].Stale.
const (
	RowLocked       = "RowLocked"       // another transaction holds the row, and rolls back in the end
	RowChanged      = "RowChanged"      // another transaction holds the row, and commits a change of it
	SlowWrite       = "SlowWrite"       // the statement itself takes longer than the lease lasts
	SlowInsert      = "SlowInsert"      // an INSERT ... SELECT waits for a row that another transaction holds
	OpenTransaction = "OpenTransaction" // the statement is done, and its transaction stays open
	ReleasedEarly   = "ReleasedEarly"   // the owner released the lease while its write was blocked
	SavepointUndone = "SavepointUndone" // a rollback to a savepoint lies between the check and the write
	InsertSelect    = "InsertSelect"    // an INSERT ... SELECT, in a transaction that stays open
	TwoStatements   = "TwoStatements"   // one check, two writes
	OldSnapshot     = "OldSnapshot"     // the transaction began to read before the lease was preempted
	Preempted       = "Preempted"       // the lease is preempted while the transaction is open
)

// Fencing tests that a fenced write commits only if no higher fence was granted in a transaction that committed before it:
// in every interleaving, at every level, for every way to write. It also tests what the naive statements of the engine do there.
func Fencing(t *testing.T, e Engine) {
	for _, level := range e.Levels {
		t.Run(strings.ReplaceAll(level, " ", ""), func(t *testing.T) {
			t.Parallel() // the levels have databases of their own, and mostly wait
			g := &ground{Engine: e, level: level, Database: e.Open(t, level)}
			for _, stmt := range []string{
				"CREATE TABLE runs (id BIGINT NOT NULL PRIMARY KEY, status VARCHAR(40) NOT NULL, result VARCHAR(100))",
				"CREATE TABLE reports (id BIGINT NOT NULL PRIMARY KEY, note VARCHAR(100))",
			} {
				if err := g.Run(t.Context(), stmt); err != nil {
					t.Fatal(err)
				}
			}
			for _, il := range interleavings {
				t.Run(il.name, func(t *testing.T) { g.interleave(t, il) })
			}
			t.Run("Refusals", g.refusals)
			t.Run("Transactions", g.transactions)
			t.Run("PausedHolder", g.paused)
			t.Run("RenewalsBesideAGuard", g.renewals)
		})
	}
}

// ground is one database at one level.
type ground struct {
	Engine
	Database
	level string
}

// jobs counts over all levels and engines: locks by name and texts of statements belong to a whole server.
var jobs atomic.Int64

// job is a name with a row of its own, so that no test meets another's locks.
type job struct {
	*ground
	name string
	id   int64
}

func (g *ground) newJob(t *testing.T) job {
	t.Helper()
	n := jobs.Add(1)
	// The id is long enough to be found in the text of a statement on the server.
	j := job{ground: g, name: "job-" + strconv.FormatInt(n, 10), id: 7_000_000 + 10*n}
	for _, id := range []int64{j.id, j.id + 1} {
		if err := g.Run(t.Context(), render("INSERT INTO runs (id, status) VALUES ({id}, 'running')", fencepost.Token{}, id)); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

func (j job) marker() string { return strconv.FormatInt(j.id, 10) }

// status returns the status of the job's first or second run.
func (j job) status(t *testing.T, offset int64) string {
	t.Helper()
	return j.text(t, render("SELECT status FROM runs WHERE id = {id}", fencepost.Token{}, j.id+offset))
}

func (j job) text(t *testing.T, query string) string {
	t.Helper()
	text, err := j.Text(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func render(stmt string, t fencepost.Token, id int64) string {
	return strings.NewReplacer("{name}", t.Name, "{owner}", t.Owner, "{fence}", strconv.FormatInt(t.Fence, 10),
		"{id}", strconv.FormatInt(id, 10), "{gate}", "gate-"+strconv.FormatInt(id, 10)).Replace(stmt)
}
