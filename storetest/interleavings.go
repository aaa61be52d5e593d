package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fencepost/fencepost"
)

// interleaving is an order of steps in which a holder loses its lease in the middle of a write.
type interleaving struct {
	name string
	// block, if set, makes the write wait inside the server until unblock. Otherwise the write pauses by itself.
	block func(s *scene) (unblock func())
	// write is the holder's transaction after its check.
	write func(s *scene, tx Tx) error
	// statement is the write, if it is a single one, of a fenced way (naive nil) or of a naive one; empty if there is none.
	statement func(e *Engine, n *Naive) string
	release   bool // the holder loses the lease by its own release, not by expiry
	preempt   bool // by preemption
	snapshot  bool // the transaction reads, and the lease is lost, before the check
	mayFail   bool // the database may ask a fenced write to be repeated although nobody took over
	insert    bool // the write is a row of reports
}

const plainComplete = "UPDATE runs SET status = 'completed' WHERE id = {id}"

func complete(e *Engine, n *Naive) string {
	switch {
	case n != nil:
		return n.Complete
	case e.Complete != "":
		return e.Complete
	}
	return plainComplete
}

func slowComplete(e *Engine, n *Naive) string {
	if n != nil {
		return n.SlowComplete
	}
	return e.SlowComplete
}

func insertReport(_ *Engine, n *Naive) string {
	if n != nil {
		return n.Insert
	}
	return "INSERT INTO reports (id, note) SELECT id, 'written' FROM runs WHERE id = {id}"
}

// one is a write of one statement, which the block holds up.
func one(s *scene, tx Tx) error { return s.exec(tx) }

// onePaused is a write of one statement whose transaction then stays open.
func onePaused(s *scene, tx Tx) error {
	if err := s.exec(tx); err != nil {
		return err
	}
	return s.pause()
}

// holdRow lets another transaction hold the run's row, and end by the given method.
func holdRow(end func(Tx, *scene) error) func(*scene) func() {
	return func(s *scene) func() {
		tx, err := s.Begin(s.ctx)
		if err == nil {
			s.Cleanup(tx.Rollback)
			_, err = tx.Exec(s.ctx, render("UPDATE runs SET result = 'touched by another' WHERE id = {id}", s.token, s.id))
		}
		if err != nil {
			s.Fatalf("the other transaction: %v", err)
		}
		return func() {
			if err := end(tx, s); err != nil {
				s.Errorf("the other transaction: %v", err)
			}
		}
	}
}

func rollback(tx Tx, _ *scene) error { tx.Rollback(); return nil }
func commit(tx Tx, s *scene) error   { return tx.Commit(s.ctx) }

func closeGate(s *scene) func() {
	open, err := s.CloseGate(s.ctx, render("{gate}", s.token, s.id))
	if err != nil {
		s.Fatalf("closing the gate: %v", err)
	}
	return open
}

// insertTaken lets another transaction insert the very report, and then roll it back.
func insertTaken(s *scene) func() {
	tx, err := s.Begin(s.ctx)
	if err == nil {
		s.Cleanup(tx.Rollback)
		_, err = tx.Exec(s.ctx, render("INSERT INTO reports (id, note) VALUES ({id}, 'by another')", s.token, s.id))
	}
	if err != nil {
		s.Fatalf("the other transaction: %v", err)
	}
	return tx.Rollback
}

var interleavings = []*interleaving{
	{name: RowLocked, block: holdRow(rollback), write: one, statement: complete},
	{name: RowChanged, block: holdRow(commit), write: one, statement: complete, mayFail: true},
	{name: SlowWrite, block: closeGate, write: one, statement: slowComplete},
	{name: SlowInsert, block: insertTaken, write: one, statement: insertReport, insert: true},
	{name: OpenTransaction, write: onePaused, statement: complete},
	{name: ReleasedEarly, block: holdRow(rollback), write: one, statement: complete, release: true},
	{name: SavepointUndone, write: savepointUndone},
	{name: InsertSelect, write: onePaused, statement: insertReport, insert: true},
	{name: TwoStatements, statement: complete, write: func(s *scene, tx Tx) error {
		if err := onePaused(s, tx); err != nil {
			return err
		}
		_, err := tx.Exec(s.ctx, render(plainComplete, s.token, s.id+1))
		return err
	}},
	{name: OldSnapshot, write: one, statement: complete, preempt: true, snapshot: true},
	{name: Preempted, write: onePaused, statement: complete, preempt: true},
}

// savepointUndone writes, undoes that, and writes again. The naive one has its guard inside what is undone.
func savepointUndone(s *scene, tx Tx) error {
	steps := []func() error{
		func() error { _, err := tx.Exec(s.ctx, "SAVEPOINT before_the_write"); return err },
		func() error {
			if s.way.naive != nil {
				return tx.Guard(s.ctx, s.token)
			}
			_, err := tx.Exec(s.ctx, render(complete(&s.Engine, nil), s.token, s.id))
			return err
		},
		func() error { _, err := tx.Exec(s.ctx, "ROLLBACK TO SAVEPOINT before_the_write"); return err },
		s.pause,
		func() error { _, err := tx.Exec(s.ctx, render(complete(&s.Engine, nil), s.token, s.id)); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// way is a way to write.
type way struct {
	name  string
	naive *Naive // nil for the fenced ones
	exec  bool   // carries a single statement only
	whole bool   // refuses by itself, and repeats what the database wants repeated
	run   func(s *scene) error
}

var errNoRow = errors.New("the statement found no row to write")

var (
	guardWay = way{name: "Guard", run: func(s *scene) error {
		return s.transaction(func(tx Tx) error { return tx.Guard(s.ctx, s.token) })
	}}
	txWay = way{name: "Tx", whole: true, run: func(s *scene) error {
		return s.Tx(s.ctx, s.token, func(tx Tx) error { return s.il.write(s, tx) })
	}}
	execWay = way{name: "Exec", whole: true, exec: true, run: func(s *scene) error {
		n, err := s.Exec(s.ctx, s.token, render(s.il.statement(&s.Engine, nil), s.token, s.id))
		if err == nil && n != 1 {
			err = fmt.Errorf("%w: %d rows affected", errNoRow, n)
		}
		return err
	}}
)

// ways returns the ways to write that fit an interleaving.
func (g *ground) ways(il *interleaving) []way {
	ways := []way{guardWay}
	if !il.snapshot { // the transaction of Tx begins with its check
		ways = append(ways, txWay)
	}
	if il.block != nil {
		ways = append(ways, execWay)
	}
	plain := func(s *scene) error { return s.transaction(nil) }
	if il.statement == nil {
		guardInside := &Naive{Stale: func(string, string) bool { return g.SavepointDropsGuard }}
		return append(ways, way{name: "guard inside the savepoint", naive: guardInside, run: plain})
	}
	for i := range g.Naive {
		if n := &g.Naive[i]; il.statement(&g.Engine, n) != "" {
			ways = append(ways, way{name: "naive " + n.Name, naive: n, run: plain})
		}
	}
	return ways
}

func (g *ground) interleave(t *testing.T, il *interleaving) {
	for _, w := range g.ways(il) {
		t.Run(w.name, func(t *testing.T) {
			// A machine that stands still can let the lease expire before the holder has begun: then once more, with a longer one.
			for ttl := shortestScene; ; ttl *= 2 {
				s := &scene{T: t, job: g.newJob(t), il: il, way: w, ttl: ttl}
				if s.play() {
					return
				}
				if ttl > longestScene {
					t.Fatalf("a lease of %v expired before its holder could begin to write", ttl)
				}
			}
		})
	}
}

// transaction is an application's own: check, write, commit.
func (s *scene) transaction(check func(Tx) error) error {
	tx, err := s.Begin(s.ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if s.il.snapshot {
		if _, err := tx.Exec(s.ctx, render("SELECT status FROM runs WHERE id = {id}", fencepost.Token{}, s.id)); err != nil {
			return err
		}
		if err := s.pause(); err != nil {
			return err
		}
	}
	if check != nil {
		if err := check(tx); err != nil {
			return err
		}
	}
	if err := s.il.write(s, tx); err != nil {
		return err
	}
	return tx.Commit(s.ctx)
}

// exec runs the one statement of the write.
func (s *scene) exec(tx Tx) error {
	n, err := tx.Exec(s.ctx, render(s.il.statement(&s.Engine, s.way.naive), s.token, s.id))
	if err == nil && n == 0 {
		err = errNoRow
	}
	return err
}
