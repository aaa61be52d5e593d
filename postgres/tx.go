package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Tx runs fn in a transaction that commits only while the token is the newest of its name, for tables with the default names: any
// writes, fenced as a whole. The lease is checked and locked before fn runs, in the same round trip as BEGIN; see [Guard]. Nothing that fn does with
// savepoints drops the lock.
//
// A stale token gives a *[fencepost.StaleError] and fn is not run; the refusal is recorded as an event. An error of fn rolls back and
// is returned as it is. After a serialization failure or a deadlock the whole is tried again while ctx lasts: fn may run more than
// once, and must not itself commit or roll back. A commit whose outcome is not known is [fencepost.ErrUnknown] and not tried again.
//
// The server ends the transaction when it idles for longer than the lease's TTL, at least a second: a process that pauses here
// must not block the takeover for ever.
func Tx(ctx context.Context, pool *pgxpool.Pool, t fencepost.Token, fn func(tx pgx.Tx) error, opts ...pgx.TxOptions) error {
	return fenced{pooled(pool), defaultPlace()}.tx(ctx, t, fn, opts)
}

// Tx is [Tx] for the pool and the tables of this store.
func (s *Store) Tx(ctx context.Context, t fencepost.Token, fn func(tx pgx.Tx) error, opts ...pgx.TxOptions) error {
	return fenced{s.common, s.place}.tx(ctx, t, fn, opts)
}

// fenced does fenced writes.
type fenced struct {
	via   link
	place place
}

// errLeft is the outcome of a transaction whose function did not return: it panicked, or ended its goroutine.
var errLeft = errors.New("rolled back: the function given to Tx did not return")

func (f fenced) tx(ctx context.Context, t fencepost.Token, fn func(tx pgx.Tx) error, opts []pgx.TxOptions) error {
	ctx, done := fencepost.WriteBegins(ctx, "tx", t)
	outcome := errLeft
	defer func() { done(outcome) }()
	outcome = f.whole(ctx, t, fn, opts)
	return outcome
}

func (f fenced) whole(ctx context.Context, t fencepost.Token, fn func(tx pgx.Tx) error, opts []pgx.TxOptions) error {
	if err := t.Validate(); err != nil {
		return err
	}
	var o pgx.TxOptions
	if len(opts) > 0 {
		o = opts[0]
	}
	if o.AccessMode == pgx.ReadOnly {
		return fmt.Errorf("%w: a read-only transaction has nothing to fence", fencepost.ErrInvalid)
	}
	if err := ended(ctx); err != nil {
		return err
	}
	err := sqlstore.Retry(ctx, againWhole, func() error {
		return f.via.on(ctx, func(conn *pgx.Conn) error { return f.once(ctx, conn, t, fn, o) })
	})
	f.note(ctx, t, err)
	return err
}

func (f fenced) once(ctx context.Context, conn *pgx.Conn, t fencepost.Token, fn func(tx pgx.Tx) error, o pgx.TxOptions) error {
	tx, err := f.begin(ctx, conn, t, o)
	if err != nil {
		if againWhole(err) && ctx.Err() == nil {
			return err
		}
		return judge(ctx, err, false)
	}
	defer rollback(ctx, tx) // after a commit it does nothing
	if err := fn(tx); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// shortestIdle is the least that a fenced transaction may idle before the server ends it.
const shortestIdle = time.Second

// begin opens a guarded transaction.
func (f fenced) begin(ctx context.Context, conn *pgx.Conn, t fencepost.Token, o pgx.TxOptions) (pgx.Tx, error) {
	args := []any{t.Name, shortestIdle.Milliseconds()}
	if !f.via.unnamed.Load() && o.BeginQuery == "" {
		tx, err := f.beginTogether(ctx, conn, t, o, args)
		if !f.via.mixedUp(err) {
			return tx, err
		}
	}
	tx, err := conn.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	found, err := query(ctx, tx, f.place.text("guard_tx"), scanGuardedTx, withoutName(args))
	if err == nil {
		err = refusal(ctx, tx, f.place, t, found[0])
	}
	if err != nil {
		rollback(ctx, tx)
		return nil, err
	}
	return tx, nil
}

// beginTogether sends BEGIN and the guard in one round trip.
func (f fenced) beginTogether(ctx context.Context, conn *pgx.Conn, t fencepost.Token, o pgx.TxOptions, args []any) (pgx.Tx, error) {
	batch := &pgx.Batch{}
	batch.BeginTx(o)
	batch.Queue(f.place.text("guard_tx"), args...)
	results := conn.SendBatch(ctx, batch)
	tx := results.Tx()
	_, err := results.Exec()
	var found []guarded
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			found, err = scanAll(rows, scanGuardedTx)
		}
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = refusal(ctx, tx, f.place, t, found[0])
	}
	if err != nil {
		rollback(ctx, tx)
		return nil, err
	}
	return tx, nil
}

func scanGuardedTx(rows pgx.Rows) (g guarded, err error) {
	g.row, err = scanRow(rows, &g.newest, new(string))
	return g, err
}

// rollbackTimeout bounds a rollback, which is also due when ctx has ended: the connection must not go back to its pool with the locks.
const rollbackTimeout = time.Second

func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	tx.Rollback(ctx)
}

// commitGrace is how long the answer to a COMMIT is still waited for when ctx has ended: it is the answer that says whether the
// work is done.
const commitGrace = time.Second

func commit(ctx context.Context, tx pgx.Tx) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if tx.Conn().IsClosed() {
		return unavailable(ctx, errClosed) // in the middle of fn
	}
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(commitGrace, cancel) })()
	err := tx.Commit(patient)
	switch e, fromServer := serverError(err); {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed):
		if err := ended(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%w: the function given to Tx ended the transaction itself; return an error to roll back, nil to commit", fencepost.ErrInvalid)
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("nothing was written: a statement had failed, but the function given to Tx returned no error: %w", err)
	case fromServer && !fatal(e):
		return err // of the caller's own statements, such as a deferred constraint
	}
	return judge(ctx, err, true)
}

// noteTimeout bounds the recording of a refusal.
const noteTimeout = time.Second

// note records a refusal after the rollback, as well as it can: it only explains, the refusal stands without it.
func (f fenced) note(ctx context.Context, t fencepost.Token, err error) {
	stale, ok := errors.AsType[*fencepost.StaleError](err)
	if !ok || stale.Lease != t.Name {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	record(ctx, f.via, f.place, fencepost.Event{Lease: t.Name, Kind: fencepost.EventStaleRefused, Fence: t.Fence, Reason: string(stale.Reason)})
}
