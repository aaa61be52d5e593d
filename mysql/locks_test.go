package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/mysql"
)

func begin(t *testing.T, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

var levels = []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

// While a fenced write is open the holder's renewals pass, other names are free for everybody, and nobody takes the lease over.
func TestAGuardBlocksTakeoverAndNothingElse(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		store := p.open(t)
		for _, level := range levels {
			t.Run(level.String(), func(t *testing.T) {
				name := "m-" + level.String()
				grant := acquire(t, store, name, time.Hour)
				other := acquire(t, store, "other "+name, time.Hour)
				tx := begin(t, p.admin, level)
				if err := mysql.Guard(t.Context(), tx, grant.Token); err != nil {
					t.Fatal(err)
				}

				renewals, err := store.Renew(t.Context(), []fencepost.Token{grant.Token, other.Token})
				if err != nil || renewals[1].Err != nil {
					t.Fatalf("the other lease's beat: %+v, %v", renewals, err)
				}
				if level == sql.LevelSerializable {
					if !errors.Is(renewals[0].Err, fencepost.ErrBusy) {
						t.Errorf("its own beat: %v; want busy", renewals[0].Err)
					}
				} else if renewals[0].Err != nil {
					t.Errorf("its own beat: %v", renewals[0].Err)
				}
				// Names that stand beside it in the index are not locked.
				for _, neighbour := range []string{name + " ", "l-" + level.String(), name + "-1"} {
					acquire(t, store, neighbour, time.Hour)
				}

				// Expired by the clock, but its write is still open.
				if level != sql.LevelSerializable {
					p.expire(t, name)
					_, err = store.Acquire(t.Context(), request(name, time.Hour))
					wantHeld(t, err, true)
				}
				preempted := make(chan error, 1)
				go func() {
					_, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: name, Fence: grant.Token.Fence, Owner: "operator", TTL: time.Hour})
					preempted <- err
				}()
				eventually(t, "the preemption waits for the write", func() bool {
					return p.text(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND ID <> CONNECTION_ID() AND INFO LIKE '%fencepost_leases%'", p.database) != "0"
				})
				select {
				case err := <-preempted:
					t.Fatalf("preempted during a fenced write: %v", err)
				default:
				}
				// A preemption that waits does not lock the row that the beat renews.
				if renewals, err = store.Renew(t.Context(), []fencepost.Token{other.Token}); err != nil || renewals[0].Err != nil {
					t.Errorf("the other lease's beat: %+v, %v", renewals, err)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				if err := <-preempted; err != nil {
					t.Errorf("preempt after the write: %v", err)
				}
				late := begin(t, p.admin, level)
				wantStale(t, mysql.Guard(t.Context(), late, grant.Token), fencepost.ReasonSuperseded)
			})
		}
	})
}

// The guard must not believe a snapshot that is older than the lease, its renewal, or its loss.
func TestAGuardInAnOldSnapshot(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		store := p.open(t)
		old := func(t *testing.T) *sql.Tx {
			tx := begin(t, p.admin, sql.LevelRepeatableRead)
			var n int
			if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM fencepost_leases").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return tx
		}
		t.Run("acquired since", func(t *testing.T) {
			tx := old(t)
			grant := acquire(t, store, "new", time.Hour)
			if err := mysql.Guard(t.Context(), tx, grant.Token); err != nil {
				t.Error(err)
			}
		})
		t.Run("renewed since", func(t *testing.T) {
			grant := acquire(t, store, "renewed", time.Hour)
			p.expire(t, "renewed")
			tx := old(t)
			p.run(t, p.admin, "UPDATE fencepost_leases SET leased_until = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE lease_name = 'renewed'")
			if err := mysql.Guard(t.Context(), tx, grant.Token); err != nil {
				t.Error(err)
			}
		})
		t.Run("taken over since", func(t *testing.T) {
			grant := acquire(t, store, "taken", time.Hour)
			tx := old(t)
			p.expire(t, "taken")
			acquire(t, store, "taken", time.Hour)
			wantStale(t, mysql.Guard(t.Context(), tx, grant.Token), fencepost.ReasonSuperseded)
		})
		t.Run("another owner with an equal fence", func(t *testing.T) {
			grant := acquire(t, store, "equal", time.Hour)
			tok := grant.Token
			tok.Owner = "somebody else"
			wantStale(t, mysql.Guard(t.Context(), old(t), tok), fencepost.ReasonNotGranted)
			_, err := store.Exec(t.Context(), tok, "DELETE FROM fencepost_events")
			wantStale(t, err, fencepost.ReasonNotGranted)
			wantStale(t, renew(t, store, tok), fencepost.ReasonNotGranted)
		})
	})
}

// A row that another program keeps locked is skipped: the beat of the others does not wait, and says which one was not reached.
func TestALockedRowDoesNotHoldUpTheBeat(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		store := p.open(t)
		var tokens []fencepost.Token
		for i := range 20 {
			tokens = append(tokens, acquire(t, store, fmt.Sprintf("job-%d", i), time.Hour).Token)
		}
		tx := begin(t, p.admin, sql.LevelReadCommitted)
		p.run(t, tx, "UPDATE fencepost_leases SET wanted = 1 WHERE lease_name = 'job-7'")
		renewals, err := store.Renew(t.Context(), tokens)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range renewals {
			if busy := errors.Is(r.Err, fencepost.ErrBusy); busy != (i == 7) || !busy && r.Err != nil {
				t.Errorf("lease %d: %+v", i, r)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := store.Release(ctx, tokens[7]); !errors.Is(err, fencepost.ErrBusy) && !errors.Is(err, fencepost.ErrUnknown) && !errors.Is(err, fencepost.ErrUnavailable) {
			t.Errorf("releasing a locked lease: %v", err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := renew(t, store, tokens[7]); err != nil {
			t.Errorf("unlocked: %v", err)
		}
	})
}

// A waiting ALTER TABLE makes every later statement wait behind it, for a year by default.
func TestAMetadataLockIsNotWaitedFor(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		store := p.open(t)
		grant := acquire(t, store, "job", time.Hour)
		reader := begin(t, p.admin, sql.LevelRepeatableRead)
		var n int
		if err := reader.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM fencepost_leases").Scan(&n); err != nil {
			t.Fatal(err)
		}
		altered := make(chan error, 1)
		go func() {
			_, err := p.admin.ExecContext(context.WithoutCancel(t.Context()), "ALTER TABLE fencepost_leases ADD COLUMN note INT NULL")
			altered <- err
		}()
		eventually(t, "the ALTER waits", func() bool {
			return p.text(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND STATE LIKE 'Waiting for table metadata lock%'", p.database) != "0"
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if err := renewIn(ctx, store, grant.Token); err == nil || errors.Is(err, fencepost.ErrStale) {
			t.Errorf("renew behind an ALTER: %v", err)
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("renew hung for %v", took)
		}
		// What a client left behind on the server ends by itself.
		eventually(t, "no statement of ours is left waiting", func() bool {
			return p.text(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND INFO LIKE '%SKIP LOCKED%' AND ID <> CONNECTION_ID()", p.database) == "0"
		})
		if err := reader.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-altered; err != nil {
			t.Fatal(err)
		}
		if err := renew(t, store, grant.Token); err != nil {
			t.Errorf("after the ALTER: %v", err)
		}
	})
}

func renewIn(ctx context.Context, s fencepost.Store, tok fencepost.Token) error {
	renewals, err := s.Renew(ctx, []fencepost.Token{tok})
	if err != nil {
		return err
	}
	return renewals[0].Err
}

// Many clients that meet names for the first time must not see each other's deadlocks.
func TestManyFirstAcquisitionsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		cfg := p.config() // REPEATABLE READ, the servers' default, and no packets of several statements
		store := p.store(t, connect(t, cfg))
		const clients, names = 30, 20
		var mu sync.Mutex
		winners := map[string]int{}
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for n := range names {
					for _, name := range []string{fmt.Sprintf("name-%02d", n), "shared"} {
						_, err := store.Acquire(t.Context(), request(name, time.Hour))
						switch {
						case err == nil:
							mu.Lock()
							winners[name]++
							mu.Unlock()
						case !errors.Is(err, fencepost.ErrHeld):
							t.Errorf("%s: %v", name, err)
						}
					}
				}
			})
		}
		wg.Wait()
		for n := range names {
			if name := fmt.Sprintf("name-%02d", n); winners[name] != 1 {
				t.Errorf("%s has %d owners", name, winners[name])
			}
		}
		if winners["shared"] != 1 {
			t.Errorf("the shared name has %d owners", winners["shared"])
		}
	})
}

// A deadlock of the job's own rows is tried again as a whole, not reported and not taken for a loss.
func TestADeadlockIsTriedAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		store := p.open(t)
		p.run(t, p.admin, "CREATE TABLE runs (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO runs VALUES (1, 0), (2, 0)")
		tokens := []fencepost.Token{acquire(t, store, "a", time.Hour).Token, acquire(t, store, "b", time.Hour).Token}
		var attempts sync.Map
		var meet sync.WaitGroup
		meet.Add(2)
		var wg sync.WaitGroup
		for i, tok := range tokens {
			wg.Go(func() {
				err := store.Tx(t.Context(), tok, func(tx *sql.Tx) error {
					_, again := attempts.LoadOrStore(i, true)
					if _, err := tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE runs SET n = n + 1 WHERE id = %d", 1+i)); err != nil {
						return err
					}
					if !again { // both have their first row now
						meet.Done()
						meet.Wait()
					} else {
						attempts.Store("again", true)
					}
					_, err := tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE runs SET n = n + 1 WHERE id = %d", 2-i))
					return err
				})
				if err != nil {
					t.Errorf("%s: %v", tok, err)
				}
			})
		}
		wg.Wait()
		if _, again := attempts.Load("again"); !again {
			t.Error("there was no deadlock: the test proves nothing")
		}
		if n := p.text(t, "SELECT GROUP_CONCAT(n ORDER BY id) FROM runs"); n != "2,2" {
			t.Errorf("two writers counted %s", n)
		}
	})
}
