package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// recordTimeout bounds the writing of an event that only explains a refusal.
const recordTimeout = time.Second

var defaults = fencer{names: sqlstore.Names{Prefix: sqlstore.DefaultPrefix}}

// Guard puts the fence into a transaction that is already open, such as an ORM's: it returns a *fencepost.StaleError unless the token is the
// newest and its lease live by the database's clock at this moment; and until the transaction ends no takeover can
// happen, because the guard takes the file's write lock. Roll back after a refusal. A refusal leaves no event: it must not write
// in the caller's transaction.
//
// Stop at the first error of the transaction: a statement whose conflict rule is ROLLBACK, or that was interrupted while it
// wrote, ends it, and what comes after would be written without a transaction. [Tx] sees to that by itself.
//
// Guard before anything else in the transaction. One that has read before may have become too old to write: SQLite then
// refuses it, and so does Guard, with a fencepost.ErrBusy; roll back and begin again.
func Guard(ctx context.Context, tx *sql.Tx, t fencepost.Token) error {
	return defaults.guardOnly(ctx, tx, t)
}

// Tx runs fn in a transaction that commits only while the token is the newest of its name; fn may do any number of writes. A
// stale token gives a *fencepost.StaleError before fn runs. When SQLite asks for it, the whole is done again: fn must not keep
// what an earlier call of it did. Isolation is always serializable.
//
// Nothing that fn does is kept without the fence: when a statement ended the transaction (COMMIT, ROLLBACK, the conflict rule OR ROLLBACK,
// a write that was interrupted), everything after it fails. For that, Tx takes the connection's commit and rollback hooks and
// leaves none there. A commit whose outcome could not be learnt is a fencepost.ErrUnknown.
func Tx(ctx context.Context, db *sql.DB, t fencepost.Token, fn func(tx *sql.Tx) error, opts ...*sql.TxOptions) error {
	return defaults.tx(ctx, db, t, fn, opts...)
}

// Exec runs one statement that takes effect only while the token is the newest of its name, and returns the number of rows that it
// affected. A stale token gives a *fencepost.StaleError, and nothing was written. Several statements in one text, and statements that
// control transactions or connections, are a fencepost.ErrInvalid: they could leave the fence behind.
func Exec(ctx context.Context, db *sql.DB, t fencepost.Token, statement string, args ...any) (int64, error) {
	return defaults.exec(ctx, db, t, statement, args...)
}

// Guard is the function Guard for this store's tables.
func (s *Store) Guard(ctx context.Context, tx *sql.Tx, t fencepost.Token) error {
	return fencer{s.names}.guardOnly(ctx, tx, t)
}

// Tx is the function Tx for this store's tables and pool.
func (s *Store) Tx(ctx context.Context, t fencepost.Token, fn func(tx *sql.Tx) error, opts ...*sql.TxOptions) error {
	return fencer{s.names}.tx(ctx, s.data, t, fn, opts...)
}

// Exec is the function Exec for this store's tables and pool.
func (s *Store) Exec(ctx context.Context, t fencepost.Token, statement string, args ...any) (int64, error) {
	return fencer{s.names}.exec(ctx, s.data, t, statement, args...)
}

type fencer struct{ names sqlstore.Names }

// guardOnly leaves the repetition to the caller, who alone can repeat the transaction.
func (f fencer) guardOnly(ctx context.Context, tx *sql.Tx, t fencepost.Token) error {
	err := f.guard(ctx, tx, t)
	if retryable(err) && ctx.Err() == nil {
		return fmt.Errorf("%w: roll back and begin the transaction again: %w", fencepost.ErrBusy, err)
	}
	return classify(ctx, f.names, err)
}

func (f fencer) guard(ctx context.Context, tx rowsSource, t fencepost.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	var info fencepost.LeaseInfo
	found := false
	err := eachRow(ctx, tx, newQueries(f.names).text("guard"), []any{t.Name}, func(rows *sql.Rows) (err error) {
		info, err = scanLease(rows)
		found = true
		return err
	})
	if err != nil {
		return err
	}
	return t.Refusal(info, found)
}

func (f fencer) tx(ctx context.Context, db *sql.DB, t fencepost.Token, fn func(tx *sql.Tx) error, opts ...*sql.TxOptions) (err error) {
	ctx, done := fencepost.WriteBegins(ctx, "tx", t)
	defer func() { done(err) }()
	return f.write(ctx, db, t, fn, opts...)
}

// write is a fenced transaction whose refusal becomes an event.
func (f fencer) write(ctx context.Context, db *sql.DB, t fencepost.Token, fn func(tx *sql.Tx) error, opts ...*sql.TxOptions) error {
	err := f.attempt(ctx, db, t, fn, opts...)
	if errors.Is(err, fencepost.ErrStale) {
		f.recordRefusal(ctx, db, t, err)
	}
	return err
}

// attempt is a fenced transaction, repeated while SQLite asks for it.
func (f fencer) attempt(ctx context.Context, db *sql.DB, t fencepost.Token, fn func(tx *sql.Tx) error, opts ...*sql.TxOptions) error {
	var o *sql.TxOptions
	if len(opts) > 0 {
		o = opts[0]
	}
	return classify(ctx, f.names, sqlstore.Retry(ctx, retryable, func() error { return f.once(ctx, db, t, fn, o) }))
}

func (f fencer) once(ctx context.Context, db *sql.DB, t fencepost.Token, fn func(tx *sql.Tx) error, o *sql.TxOptions) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := f.guard(ctx, tx, t); err != nil {
		return err
	}
	sealed, remove, err := sealConn(conn)
	if err != nil {
		return err
	}
	defer remove()
	if err := sealed.explain(fn(tx)); err != nil {
		return err
	}
	sealed.open.Store(true)
	return committed(ctx, tx.Commit())
}

func (f fencer) exec(ctx context.Context, db *sql.DB, t fencepost.Token, statement string, args ...any) (n int64, err error) {
	if err := validateStatement(statement); err != nil {
		return 0, err
	}
	ctx, done := fencepost.WriteBegins(ctx, "exec", t)
	defer func() { done(err) }()
	err = f.write(ctx, db, t, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// recordRefusal adds the event after the rollback, as well as it can: the refusal stands without it.
func (f fencer) recordRefusal(ctx context.Context, db *sql.DB, t fencepost.Token, refusal error) {
	stale, ok := errors.AsType[*fencepost.StaleError](refusal)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	s := Store{leases: db, names: f.names, queries: newQueries(f.names)}
	s.Record(ctx, fencepost.Event{Lease: t.Name, Kind: fencepost.EventStaleRefused, Fence: t.Fence, Reason: string(stale.Reason)})
}
