package mysql

import (
	"context"
	"database/sql"

	"github.com/fencepost/fencepost"
)

// Guard makes a transaction of the caller's a fenced write, for tables with the default names. It returns nil when the token is the
// newest of its name and its lease live by the server's clock; from then until the transaction ends, no takeover or preemption of the
// lease commits. Otherwise it returns a *[fencepost.StaleError], and the transaction must be rolled back.
//
// Call it before the first write, because a transaction that locks other rows first can deadlock with one that locks the lease first;
// and outside of savepoints, because ROLLBACK TO SAVEPOINT drops it if the savepoint came before the transaction's first
// statement. [Tx] and [Exec] do both. It holds at every isolation level. In a REPEATABLE READ transaction that read something before, a takeover is seen whenever it happened, a mere release only if it happened
// before that read.
//
// A transaction that stays open blocks takeovers for as long: bound it with wait_timeout (MySQL) or idle_transaction_timeout
// (MariaDB). A refusal is not recorded as an event: that would be a write in the caller's transaction.
func Guard(ctx context.Context, tx *sql.Tx, t fencepost.Token) error {
	return guard(ctx, tx, defaultStatements(), t)
}

// Guard is [Guard] for the tables of this store.
func (s *Store) Guard(ctx context.Context, tx *sql.Tx, t fencepost.Token) error {
	return guard(ctx, tx, s.texts, t)
}

func guard(ctx context.Context, tx *sql.Tx, texts statements, t fencepost.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	info, found, err := lookIn(ctx, tx, texts.with("guard", tokenValues(t)))
	if err != nil {
		return err
	}
	if found && t.Refusal(info, found) == nil {
		return nil
	}
	// Either the token is not the newest, or the row was read from a snapshot older than its last renewal. Locking the row itself
	// shows its newest version. It blocks renewals too, but this transaction is about to end.
	info, found, err = lookIn(ctx, tx, texts.with("inspect_locked", values{"name": bytesLiteral(t.Name)}))
	if err != nil {
		return err
	}
	return t.Refusal(info, found)
}

func lookIn(ctx context.Context, tx *sql.Tx, query string) (fencepost.LeaseInfo, bool, error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return fencepost.LeaseInfo{}, false, judge(err, false)
	}
	found, err := scanAll(rows, scanLease)
	if err != nil || len(found) == 0 {
		return fencepost.LeaseInfo{}, false, judge(err, false)
	}
	return found[0].LeaseInfo, true, nil
}
