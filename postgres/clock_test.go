package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/postgres"
)

// argumentLog keeps the arguments of every statement.
type argumentLog struct {
	mu   sync.Mutex
	args []any
}

func (l *argumentLog) add(args []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.args = append(l.args, args...)
}

func (l *argumentLog) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	l.add(d.Args)
	return ctx
}
func (l *argumentLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (l *argumentLog) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (l *argumentLog) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	l.add(d.Args)
}
func (l *argumentLog) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A client's clock that reaches the server would decide about leases again, and two of them would disagree.
func TestNoTimeOfTheClientIsSent(t *testing.T) {
	_, plain := openStore(t)
	log := &argumentLog{}
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) { c.ConnConfig.Tracer = log })
	store, err := postgres.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const ttl = 90 * time.Second
	token := acquire(t, store, "job", ttl).Token
	if err := renew(t.Context(), store, token); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Exec(t.Context(), token, "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if err := store.Tx(t.Context(), token, func(pgx.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := store.Record(t.Context(), fencepost.Event{Lease: "job", Kind: fencepost.EventLost, Fence: 1, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Want(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: 1, Owner: "other", TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Release(t.Context(), fencepost.Token{Name: "job", Owner: "other", Fence: 2}); err != nil {
		t.Fatal(err)
	}
	numbers := 0
	for _, arg := range log.args {
		switch v := arg.(type) {
		case time.Time, *time.Time:
			t.Errorf("a time was sent: %v", v)
		case int64:
			numbers++
			if v > ttl.Milliseconds() {
				t.Errorf("the number %d is neither a fence nor a TTL: %v", v, log.args)
			}
		}
	}
	if numbers < 5 {
		t.Errorf("only %d numbers among %v: the log does not see the statements", numbers, log.args)
	}
}

// With now(), which is the transaction's start, or with an end that was computed before the wait, the lease of somebody who
// waited longer than its TTL is born expired.
func TestALeaseIsCountedFromTheEndOfTheWait(t *testing.T) {
	store, pool := openStore(t)
	acquire(t, store, "job", long)
	guarding := begin(t, pool, pgx.TxOptions{})
	run(t, guarding, "SELECT FROM fencepost_leases WHERE lease_name = 'job' FOR KEY SHARE")
	const ttl = 1200 * time.Millisecond
	type outcome struct {
		grant fencepost.Grant
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		g, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: 1, Owner: "successor", TTL: ttl})
		done <- outcome{g, err}
	}()
	awaitBlocked(t, pool, "preempted AS")
	run(t, guarding, "SELECT pg_sleep(1.4)") // longer than the lease will last
	ended := read[int64](t, pool, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
	if err := guarding.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	if left := o.grant.LeasedUntil.Sub(time.UnixMicro(ended)); left < ttl {
		t.Errorf("the lease ends %v after the wait, its TTL is %v", left, ttl)
	}
	_, err := store.Acquire(t.Context(), request("job", long))
	wantHeld(t, err, false)
}

// A process that pauses with its request on the way must not overwrite what others were granted meanwhile.
func TestARequestThatArrivesLateIsRefused(t *testing.T) {
	store, pool := openStore(t)
	proxy := testenv.NewProxy(t, testenv.Postgres(t).Addr())
	late := poolWith(t, pool.Config().ConnString(), func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.Host, c.ConnConfig.Port, c.ConnConfig.Fallbacks = hostPort(t, proxy.Addr())
	})
	lateStore, err := postgres.New(t.Context(), late)
	if err != nil {
		t.Fatal(err)
	}
	defer lateStore.Close()
	acquire(t, lateStore, "warm", long) // the statement is prepared
	old := acquire(t, store, "job", long)
	expire(t, pool, "job")

	proxy.Hold(testenv.ToServer)
	refused := make(chan error, 1)
	go func() {
		_, err := lateStore.Acquire(t.Context(), request("job", long))
		refused <- err
	}()
	proxy.AwaitHeld(t, testenv.ToServer)
	successor := acquire(t, store, "job", long)
	before := inspect(t, store, "job")
	proxy.Release(testenv.ToServer)
	held := wantHeld(t, <-refused, false)
	if held.Fence != successor.Token.Fence || held.Fence != old.Token.Fence+1 {
		t.Errorf("refused by fence %d, granted was %d", held.Fence, successor.Token.Fence)
	}
	after := inspect(t, store, "job")
	before.Remaining, after.Remaining = 0, 0
	if before != after {
		t.Errorf("the row changed from %+v to %+v", before, after)
	}
}

// A lease that ran out is over although nobody else has come: renewing or writing under it would be a bet that nobody does.
func TestAnExpiredLeaseIsOver(t *testing.T) {
	store, pool := openStore(t)
	run(t, pool, "CREATE TABLE work (done boolean NOT NULL)", "INSERT INTO work VALUES (false)")
	token := acquire(t, store, "job", long).Token
	expire(t, pool, "job")
	wantStale(t, renew(t.Context(), store, token), fencepost.ReasonExpired)
	_, err := store.Release(t.Context(), token)
	wantStale(t, err, fencepost.ReasonExpired)
	_, err = store.Exec(t.Context(), token, "UPDATE work SET done = true")
	wantStale(t, err, fencepost.ReasonExpired)
	err = store.Tx(t.Context(), token, func(tx pgx.Tx) error { return fmt.Errorf("ran") })
	wantStale(t, err, fencepost.ReasonExpired)
	tx := begin(t, pool, pgx.TxOptions{})
	wantStale(t, store.Guard(t.Context(), tx, token), fencepost.ReasonExpired)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if read[bool](t, pool, "SELECT done FROM work") {
		t.Error("written all the same")
	}
	if g := acquire(t, store, "job", long); g.Token.Fence != token.Fence+1 || !g.TakenOver {
		t.Errorf("acquired again as %+v", g)
	}
}

// The first statement of a transaction fixes now(); a lease that expires later in the transaction must still be found expired.
func TestAGuardReadsTheClockOfNow(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			store, pool := openStore(t)
			token := acquire(t, store, "job", 300*time.Millisecond).Token
			tx := begin(t, pool, pgx.TxOptions{IsoLevel: level})
			run(t, tx, "SELECT count(*) FROM fencepost_leases WHERE leased_until > now()")
			eventually(t, "the end of the lease", func() bool { return inspect(t, store, "job").State() == fencepost.StateExpired })
			wantStale(t, store.Guard(t.Context(), tx, token), fencepost.ReasonExpired)
		})
	}
}
