package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/mysql"
)

// via is a store whose links all go through a proxy.
func (p place) via(t *testing.T) (*testenv.Proxy, *mysql.Store) {
	t.Helper()
	proxy := testenv.NewProxy(t, p.Addr())
	store, err := mysql.Open(t.Context(), p.URLVia(proxy.Addr(), p.database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return proxy, store
}

// A reply that is lost after the server has applied the statement: asked again with the same owner token, the answer is the grant as it
// stands, and nothing happened twice.
func TestALostReplyIsNotAppliedTwice(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		proxy, store := p.via(t)
		p.run(t, p.admin, "CREATE TABLE runs (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO runs VALUES (1, 0)")
		const rounds = 40
		for i := range rounds {
			r := request("job", time.Hour)
			proxy.DropNextReply("open_lease")
			grant, err := store.Acquire(t.Context(), r)
			proxy.AwaitDropped(t, 2*i+1)
			if !errors.Is(err, fencepost.ErrUnknown) {
				t.Fatalf("round %d: %+v, %v; want unknown", i, grant, err)
			}
			grant, err = store.Acquire(t.Context(), r)
			if err != nil || grant.Token.Owner != r.Owner || grant.Token.Fence != int64(i+1) {
				t.Fatalf("round %d, asked again: %+v, %v", i, grant, err)
			}
			if _, err := store.Exec(t.Context(), grant.Token, "UPDATE runs SET n = n + 1"); err != nil {
				t.Fatal(err)
			}
			proxy.DropNextReply("UPDATE runs")
			n, err := store.Exec(t.Context(), grant.Token, "UPDATE runs SET n = n + 1")
			proxy.AwaitDropped(t, 2*i+2)
			if !errors.Is(err, fencepost.ErrUnknown) {
				t.Fatalf("round %d: a fenced write whose reply was lost: %d, %v; want unknown", i, n, err)
			}
			if _, err := store.Release(t.Context(), grant.Token); err != nil {
				t.Fatal(err)
			}
		}
		if n := p.text(t, "SELECT n FROM runs"); n != strconv.Itoa(2*rounds) {
			t.Errorf("%d fenced writes counted %s", 2*rounds, n)
		}
		if n := p.text(t, "SELECT COUNT(*) FROM fencepost_events WHERE kind = 'acquired'"); n != strconv.Itoa(rounds) {
			t.Errorf("%s acquisitions are recorded of %d", n, rounds)
		}
	})
}

// A lost reply to the first acquisition of a name, which is an INSERT.
func TestALostReplyToANewName(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		proxy, store := p.via(t)
		r := request("job", time.Hour)
		proxy.DropNextReply("INSERT")
		if _, err := store.Acquire(t.Context(), r); !errors.Is(err, fencepost.ErrUnknown) {
			t.Fatal(err)
		}
		grant, err := store.Acquire(t.Context(), r)
		if err != nil || grant.Token.Fence != 1 {
			t.Errorf("%+v, %v", grant, err)
		}
	})
}

// A statement that was on its way for longer than everything else took changes nothing any more.
func TestALateStatementChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		t.Run("acquire", func(t *testing.T) {
			proxy, slow := p.via(t)
			store := p.open(t)
			done := make(chan error, 1)
			proxy.Hold(testenv.ToServer)
			go func() {
				_, err := slow.Acquire(t.Context(), request("late", time.Hour))
				done <- err
			}()
			proxy.AwaitHeld(t, testenv.ToServer)
			grant := acquire(t, store, "late", time.Hour)
			proxy.Release(testenv.ToServer)
			wantHeld(t, <-done, false)
			i, _, err := store.Inspect(t.Context(), "late")
			if err != nil || i.Owner != grant.Token.Owner || !i.LeasedUntil.Equal(grant.LeasedUntil) {
				t.Errorf("%+v, %v", i, err)
			}
		})
		t.Run("renew", func(t *testing.T) {
			proxy, slow := p.via(t)
			store := p.open(t)
			grant := acquire(t, slow, "released", time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			proxy.Hold(testenv.ToServer)
			go func() { done <- renewIn(ctx, slow, grant.Token) }()
			proxy.AwaitHeld(t, testenv.ToServer)
			cancel()
			if err := <-done; !errors.Is(err, fencepost.ErrUnknown) && !errors.Is(err, fencepost.ErrUnavailable) {
				t.Errorf("given up: %v", err)
			}
			if out, err := store.Release(t.Context(), grant.Token); err != nil || !out.Changed {
				t.Fatalf("%+v, %v", out, err)
			}
			proxy.Release(testenv.ToServer)
			eventually(t, "the late statement is through", func() bool {
				return p.text(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND COMMAND = 'Query' AND ID <> CONNECTION_ID()", p.database) == "0"
			})
			if i, _, err := store.Inspect(t.Context(), "released"); err != nil || i.State() != fencepost.StateFree {
				t.Errorf("%+v, %v", i, err)
			}
		})
	})
}

// An idle pool after a restart of the server is full of dead connections, none of which has sent anything.
func TestDeadIdleConnectionsAreNotAnOutcome(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		proxy, store := p.via(t)
		grant := acquire(t, store, "job", time.Hour)
		for range 5 {
			proxy.Cut()
			eventually(t, "the lease is confirmed", func() bool {
				err := store.Check(t.Context(), grant.Token)
				if errors.Is(err, fencepost.ErrStale) {
					t.Fatal(err)
				}
				return err == nil
			})
		}
	})
}

// The outcome of a commit that was not heard is not known; one that was not sent is known.
func TestACommitThatIsNotHeard(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		proxy, _ := p.via(t)
		cfg := p.config()
		cfg.Addr = proxy.Addr()
		db := connect(t, cfg)
		store := p.store(t, db)
		p.run(t, p.admin, "CREATE TABLE runs (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO runs VALUES (1, 0)")
		grant := acquire(t, store, "job", time.Hour)
		runs := 0
		add := func(tx *sql.Tx) error {
			runs++
			_, err := tx.ExecContext(t.Context(), "UPDATE runs SET n = n + 1")
			return err
		}
		proxy.DropNextReply("COMMIT")
		if err := store.Tx(t.Context(), grant.Token, add); !errors.Is(err, fencepost.ErrUnknown) {
			t.Errorf("reply to COMMIT lost: %v; want unknown", err)
		}
		if runs != 1 {
			t.Errorf("the work ran %d times", runs)
		}
		proxy.Restore()

		ctx, cancel := context.WithCancel(t.Context())
		err := store.Tx(ctx, grant.Token, func(tx *sql.Tx) error {
			err := add(tx)
			cancel()
			return err
		})
		if err == nil || errors.Is(err, fencepost.ErrUnknown) {
			t.Errorf("ended before COMMIT: %v; want it known that nothing was written", err)
		}

		// A link that goes dark does not keep Tx longer than its context.
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		err = store.Tx(ctx, grant.Token, func(tx *sql.Tx) error {
			err := add(tx)
			proxy.Hold(testenv.ToClient)
			go func() {
				proxy.AwaitHeld(t, testenv.ToClient) // the answer to COMMIT
				cancel()
			}()
			return err
		})
		if !errors.Is(err, fencepost.ErrUnknown) {
			t.Errorf("in the dark: %v; want unknown", err)
		}
		proxy.Restore()
		if n := p.text(t, "SELECT n FROM runs"); n != "2" && n != "1" {
			t.Errorf("counted %s", n)
		}
	})
}
