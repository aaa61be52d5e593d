package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Tx runs fn in a transaction that commits only while the token is the newest of its name, for tables with the default names: any
// writes, fenced as a whole. The lease is checked and locked before fn runs; see [Guard]. opts may be nil.
//
// A stale token gives a *[fencepost.StaleError] and fn is not run; the refusal is recorded as an event. An error of fn rolls back and is
// returned as it is. After a deadlock, a lock wait timeout or a serialization failure the whole is tried again while ctx lasts: fn
// may run more than once, and must not itself commit or roll back. A commit whose outcome is not known is
// [fencepost.ErrUnknown] and not tried again.
func Tx(ctx context.Context, db *sql.DB, t fencepost.Token, fn func(tx *sql.Tx) error, opts ...*sql.TxOptions) error {
	return fenced{db, defaultStatements()}.tx(ctx, t, fn, opts)
}

// Tx is [Tx] for the pool and the tables of this store.
func (s *Store) Tx(ctx context.Context, t fencepost.Token, fn func(tx *sql.Tx) error, opts ...*sql.TxOptions) error {
	return fenced{s.db, s.texts}.tx(ctx, t, fn, opts)
}

// fenced does fenced writes on a pool.
type fenced struct {
	db    *sql.DB
	texts statements
}

func (f fenced) tx(ctx context.Context, t fencepost.Token, fn func(tx *sql.Tx) error, opts []*sql.TxOptions) error {
	if err := t.Validate(); err != nil {
		return err
	}
	var o *sql.TxOptions
	if len(opts) > 0 {
		o = opts[0]
	}
	err := sqlstore.Retry(ctx, again, func() error { return f.once(ctx, t, fn, o) })
	f.note(ctx, t, err)
	return err
}

func (f fenced) once(ctx context.Context, t fencepost.Token, fn func(tx *sql.Tx) error, o *sql.TxOptions) error {
	tx, err := f.db.BeginTx(ctx, o)
	if err != nil {
		return unavailable(err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := guard(ctx, tx, f.texts, t); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// commitGrace is how long the answer to a COMMIT is still waited for when ctx has ended: it is the answer that says whether
// the work is done.
const commitGrace = time.Second

// commit ends a transaction without hanging longer than ctx: the driver itself waits for the answer without a bound.
func commit(ctx context.Context, tx *sql.Tx) error {
	if err := ended(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- tx.Commit() }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		grace := time.NewTimer(commitGrace)
		defer grace.Stop()
		select {
		case err = <-done:
		case <-grace.C:
			return unknown(context.Cause(ctx))
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, driver.ErrBadConn):
		return unavailable(err) // COMMIT was not sent
	case errors.Is(err, sql.ErrTxDone):
		if err := ended(ctx); err != nil {
			return err
		}
		return fmt.Errorf("%w: the function given to Tx ended the transaction itself; return an error to roll back, nil to commit", fencepost.ErrInvalid)
	}
	return judge(err, true)
}

// noteTimeout bounds the recording of a refusal.
const noteTimeout = time.Second

// note records a refusal, as well as it can: it only explains, the refusal stands without it.
func (f fenced) note(ctx context.Context, t fencepost.Token, err error) {
	stale, ok := errors.AsType[*fencepost.StaleError](err)
	if !ok || stale.Lease != t.Name {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	record(ctx, pooled(f.db), f.texts, fencepost.Event{
		Lease: t.Name, Kind: fencepost.EventStaleRefused, Fence: t.Fence, Reason: string(stale.Reason),
	})
}
