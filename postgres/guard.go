package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// Guard makes a transaction of the caller's a fenced write, for tables with the default names. It returns nil when the token is the
// newest of its name and its lease live by the server's clock; from then until the transaction ends, no takeover or preemption
// of the lease commits. Otherwise it returns a *[fencepost.StaleError], and the transaction must be rolled back.
//
// Take it outside of savepoints: ROLLBACK TO SAVEPOINT drops a guard that was taken inside. At REPEATABLE READ and SERIALIZABLE
// take it first: after a renewal that the transaction's snapshot does not show, the server answers with a serialization
// failure (40001). That is no loss of the lease: it is returned as it is, wrapped in [fencepost.ErrBusy]; roll back and try the transaction again.
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
	found, err := query(ctx, tx, p.text("guard"), func(rows pgx.Rows) (row, error) { return scanRow(rows) }, withoutName([]any{t.Name}))
	if err != nil {
		return judge(ctx, err, false)
	}
	return refusal(t, found)
}

// refusal judges a token by the row that was looked for.
func refusal(t fencepost.Token, found []row) error {
	if len(found) == 0 {
		return t.Refusal(fencepost.LeaseInfo{}, false)
	}
	return t.Refusal(found[0].info())
}
