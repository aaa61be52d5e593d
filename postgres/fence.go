package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// recordTimeout bounds the writing of an event that only explains a refusal.
const recordTimeout = time.Second

// shortestIdle is the least that a fenced transaction may idle before the server ends it.
const shortestIdle = time.Second

func defaultFencer() fencer {
	p, _ := placeOf(nil) // the defaults are valid
	return fencer{p}
}

// Guard puts the fence into a transaction that is already open, such as an ORM's: it returns a *fencepost.StaleError unless the token is
// the newest and its lease live by the database's clock at this moment. Until the transaction ends no takeover can happen; renewals can.
// Roll back after a refusal. A refusal leaves no event: it must not write in the caller's transaction.
//
// Take it outside of savepoints: ROLLBACK TO SAVEPOINT drops a guard that was taken inside. At REPEATABLE READ and SERIALIZABLE take
// it first: after a renewal that the transaction's snapshot does not show, the server answers with a serialization failure
// (40001), which is returned as it is; roll back and try again. A process that pauses in the transaction blocks
// the takeover: set idle_in_transaction_session_timeout below the TTL.
func Guard(ctx context.Context, tx pgx.Tx, t fencepost.Token) error {
	return defaultFencer().guard(ctx, tx, t)
}

// Tx runs fn in a transaction that commits only while the token is the newest of its name; fn may do any number of writes. A stale token
// gives a *fencepost.StaleError before fn runs, or, where the server ended a paused transaction, an error of its own; nothing was written. On
// serialization failures and deadlocks the whole is done again: fn must not keep what an earlier call of it did.
//
// While the transaction idles the lease cannot be taken over. The server ends it when it idles for longer than the lease has
// left, at least a second (idle_in_transaction_session_timeout). A commit whose outcome could not be learnt is a fencepost.ErrUnknown.
func Tx(ctx context.Context, pool *pgxpool.Pool, t fencepost.Token, fn func(tx pgx.Tx) error, opts ...pgx.TxOptions) error {
	return defaultFencer().tx(ctx, pool, t, fn, opts...)
}

// Exec runs one statement that takes effect only while the token is the newest of its name, in one round trip, and returns the number
// of rows that it affected. A stale token gives a *fencepost.StaleError, and nothing was written. Several statements in one text, and
// statements that control transactions or sessions, are a fencepost.ErrInvalid: they could leave the fence behind. An outcome that
// could not be learnt is a fencepost.ErrUnknown.
func Exec(ctx context.Context, pool *pgxpool.Pool, t fencepost.Token, statement string, args ...any) (int64, error) {
	return defaultFencer().exec(ctx, pool, t, statement, args...)
}

// QueueGuard puts the fence into a batch: with a stale token it raises, and the whole batch is rolled back. Send the batch
// outside of a transaction, so that it is one of its own, or inside one that you roll back on error; pass its error to [Refused].
func QueueGuard(batch *pgx.Batch, t fencepost.Token) { defaultFencer().queue(batch, t) }

// Guard is the function Guard for this store's tables.
func (s *Store) Guard(ctx context.Context, tx pgx.Tx, t fencepost.Token) error {
	return fencer{s.place}.guard(ctx, tx, t)
}

// Tx is the function Tx for this store's tables and pool.
func (s *Store) Tx(ctx context.Context, t fencepost.Token, fn func(tx pgx.Tx) error, opts ...pgx.TxOptions) error {
	return fencer{s.place}.tx(ctx, s.pool, t, fn, opts...)
}

// Exec is the function Exec for this store's tables and pool.
func (s *Store) Exec(ctx context.Context, t fencepost.Token, statement string, args ...any) (int64, error) {
	return fencer{s.place}.exec(ctx, s.pool, t, statement, args...)
}

// QueueGuard is the function QueueGuard for this store's tables.
func (s *Store) QueueGuard(batch *pgx.Batch, t fencepost.Token) { fencer{s.place}.queue(batch, t) }

// Refused turns the error of a batch whose guard raised into the *fencepost.StaleError that it stands for; every other error stays as it is.
func Refused(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != codeStale {
		return err
	}
	var d struct {
		Lease     string
		Reason    fencepost.Reason
		Presented int64
		Current   int64
		Holder    string
	}
	if json.Unmarshal([]byte(e.Detail), &d) != nil {
		return fmt.Errorf("%w: %w", fencepost.ErrStale, err)
	}
	return &fencepost.StaleError{Lease: d.Lease, Reason: d.Reason, Presented: d.Presented, Current: d.Current, Holder: d.Holder}
}

type fencer struct{ place place }

func (f fencer) queue(batch *pgx.Batch, t fencepost.Token) {
	batch.Queue(f.place.text("guard_raising"), t.Name, t.Owner, t.Fence)
}

// judge locks the lease's row for the transaction and judges the token. The statement returns the row and nothing else, or what it set besides.
func (f fencer) judge(ctx context.Context, tx querier, statement string, args []any, t fencepost.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	var row optionalLease
	err := eachRow(ctx, tx, f.place.text(statement), args, func(rows pgx.Rows) error {
		into := row.into()
		if len(args) > 1 {
			into = append(into, new(string))
		}
		return rows.Scan(into...)
	})
	if err != nil {
		return f.classifyUnlessRetryable(ctx, err, false)
	}
	return t.Refusal(row.info())
}

func (f fencer) guard(ctx context.Context, tx querier, t fencepost.Token) error {
	return f.judge(ctx, tx, "guard", []any{t.Name}, t)
}

func (f fencer) tx(ctx context.Context, pool *pgxpool.Pool, t fencepost.Token, fn func(tx pgx.Tx) error, opts ...pgx.TxOptions) error {
	var o pgx.TxOptions
	if len(opts) > 0 {
		o = opts[0]
	}
	err := sqlstore.Retry(ctx, retryable, func() error { return f.once(ctx, pool, t, fn, o) })
	return f.done(ctx, pool, t, err)
}

// done records a refusal, after the rollback and as well as it can: the refusal stands without it.
func (f fencer) done(ctx context.Context, pool *pgxpool.Pool, t fencepost.Token, err error) error {
	if stale, ok := errors.AsType[*fencepost.StaleError](err); ok {
		recordCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		s := &Store{pool: pool, place: f.place}
		s.Record(recordCtx, fencepost.Event{Lease: t.Name, Kind: fencepost.EventStaleRefused, Fence: t.Fence, Reason: string(stale.Reason)})
	}
	return err
}

func (f fencer) once(ctx context.Context, pool *pgxpool.Pool, t fencepost.Token, fn func(tx pgx.Tx) error, o pgx.TxOptions) error {
	tx, err := pool.BeginTx(ctx, o)
	if err != nil {
		return f.classifyUnlessRetryable(ctx, err, false)
	}
	defer func() {
		// Also when ctx has ended, or the connection would go back to the pool with an open transaction and its locks.
		rollbackCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer cancel()
		tx.Rollback(rollbackCtx)
	}()
	if err := f.judge(ctx, tx, "guard_limited", []any{t.Name, shortestIdle.Milliseconds()}, t); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		if errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) {
			return err // rolled back: a statement before it had failed
		}
		return f.classifyUnlessRetryable(ctx, err, true)
	}
	return nil
}

// classifyUnlessRetryable leaves errors that ask for the whole transaction again to whoever can repeat it.
func (f fencer) classifyUnlessRetryable(ctx context.Context, err error, writing bool) error {
	if retryable(err) {
		return err
	}
	return classify(ctx, f.place, err, writing)
}

func (f fencer) exec(ctx context.Context, pool *pgxpool.Pool, t fencepost.Token, statement string, args ...any) (n int64, err error) {
	if err := t.Validate(); err != nil {
		return 0, err
	}
	if err := validateStatement(statement); err != nil {
		return 0, err
	}
	err = sqlstore.Retry(ctx, retryable, func() error {
		n, err = f.execOnce(ctx, pool, t, statement, args)
		return err
	})
	if mixedUp(err) {
		// A pooler mixes up prepared statements, or a plan has aged: a transaction with statements that have no names.
		err = f.tx(ctx, pool, t, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, statement, append([]any{pgx.QueryExecModeExec}, args...)...)
			n = tag.RowsAffected()
			return err
		})
		return n, err
	}
	if err = f.done(ctx, pool, t, classify(ctx, f.place, Refused(err), true)); err != nil {
		return 0, err
	}
	return n, nil
}

// execOnce sends the guard and the statement together, without BEGIN: the server makes them one transaction and one round trip. The
// guard goes first: the locks are then taken in the order of every other fenced write, lease before data.
func (f fencer) execOnce(ctx context.Context, pool *pgxpool.Pool, t fencepost.Token, statement string, args []any) (int64, error) {
	batch := &pgx.Batch{}
	f.queue(batch, t)
	batch.Queue(statement, args...)
	results := pool.SendBatch(ctx, batch)
	_, err := results.Exec()
	var tag pgconn.CommandTag
	if err == nil {
		tag, err = results.Exec()
	}
	// Only the end of the batch says that it was committed.
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return tag.RowsAffected(), err
}
