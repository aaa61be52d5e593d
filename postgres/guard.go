package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// Guard makes a transaction of the caller's a fenced write, for tables with the default names. It returns nil when the token is the
// newest of its name and its lease live by the server's clock; from then until the transaction ends, no takeover or preemption
// of the lease commits. Otherwise it returns a *[fencepost.StaleError], and the transaction must be rolled back.
//
// Take it outside of savepoints: ROLLBACK TO SAVEPOINT drops a guard that was taken inside. At REPEATABLE READ and SERIALIZABLE take
// it first: later, the transaction sees the lease as of its snapshot. A takeover or preemption is seen whenever it happened, a mere release only
// if it happened before the snapshot; and where the snapshot is too old to tell, the server answers with a serialization failure (40001). That is no
// loss of the lease: it is returned as it is, wrapped in [fencepost.ErrBusy]; roll back and try the transaction again.
//
// A process that pauses in the transaction blocks the takeover: set idle_in_transaction_session_timeout below the TTL. A refusal is not
// recorded as an event: that would be a write in the caller's transaction.
func Guard(ctx context.Context, tx pgx.Tx, t fencepost.Token) error {
	return guard(ctx, tx, defaultPlace(), t)
}

// Guard is [Guard] for the tables of this store.
func (s *Store) Guard(ctx context.Context, tx pgx.Tx, t fencepost.Token) error {
	return guard(ctx, tx, s.place, t)
}

func defaultPlace() place {
	p, err := placeOf(nil)
	if err != nil {
		panic(err) // the defaults are valid
	}
	return p
}

func guard(ctx context.Context, tx pgx.Tx, p place, t fencepost.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	// Without a name: a statement that a pooler mixed up, or whose plan has aged, would abort the caller's transaction.
	found, err := query(ctx, tx, p.text("guard"), scanGuarded, withoutName([]any{t.Name}))
	if err == nil {
		err = refusal(ctx, tx, p, t, found[0])
	}
	return judge(ctx, err, false)
}

// guarded is a row that a guard has locked, as the transaction's snapshot has it.
type guarded struct {
	newest bool // and the snapshot was the guard's own
	row
}

func scanGuarded(rows pgx.Rows) (g guarded, err error) {
	g.row, err = scanRow(rows, &g.newest)
	return g, err
}

// refusal judges a token by a locked row. What a snapshot shows can be older than the last renewal: nobody must be told for that
// reason that its lease is gone.
func refusal(ctx context.Context, tx pgx.Tx, p place, t fencepost.Token, g guarded) error {
	refused := t.Refusal(g.info())
	stale, ok := errors.AsType[*fencepost.StaleError](refused)
	if !ok {
		return refused
	}
	switch {
	case stale.Reason == fencepost.ReasonExpired:
		again := "guard_again"
		if g.newest {
			again = "guard" // a new statement has a new snapshot
		}
		found, err := query(ctx, tx, p.text(again), scanGuarded, withoutName([]any{t.Name}))
		if err != nil {
			return err
		}
		return t.Refusal(found[0].info())
	case stale.Reason == fencepost.ReasonUnknownName && !g.newest:
		savepoint, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		_, err = savepoint.Exec(ctx, p.text("guard_probe"), withoutName([]any{t.Name})...)
		rollback(ctx, savepoint)
		if err != nil {
			return err
		}
	}
	return refused
}
