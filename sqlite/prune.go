package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost"
)

// Prune implements fencepost.RunStore.
func (s *Store) Prune(ctx context.Context, p fencepost.PruneRequest) (n int64, err error) {
	ctx, done := fencepost.WriteBegins(ctx, "prune", p.Token)
	defer func() { done(err) }()
	if err := errors.Join(p.Token.Validate(), fencepost.ValidateName(p.Lease)); err != nil {
		return 0, err
	}
	if p.Limit < 1 || p.Keep < 0 || p.OlderThan < 0 {
		return 0, fmt.Errorf("%w: pruning needs a limit of at least 1 row, and no negative age or number to keep", fencepost.ErrInvalid)
	}
	statement := "prune_runs"
	if p.Events {
		statement = "prune_events"
	}
	// An age below the clock's unit is still an age.
	age := p.OlderThan.Milliseconds()
	if p.OlderThan > 0 {
		age = max(age, 1)
	}
	err = fencer{s.names}.write(ctx, s.data, p.Token, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, s.queries.text(statement), p.Lease, age, p.Keep, p.Limit)
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
