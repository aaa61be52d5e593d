package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// errLocked is the answer for a row that another transaction keeps locked, or changed while it was being looked at.
var errLocked = fmt.Errorf("%w: the lease's row is locked by another transaction; try again in a moment", fencepost.ErrBusy)

// Release implements [fencepost.Store]. It does not wait for fenced writes in progress: they are still covered, because the
// next holder has to wait for them. Who waits for the lease is notified in the same statement.
func (s *Store) Release(ctx context.Context, t fencepost.Token) (out fencepost.Released, err error) {
	if err := t.Validate(); err != nil {
		return out, err
	}
	err = sqlstore.Retry(ctx, again, func() error {
		found, err := collect(ctx, s.common, s.place.text("release"), true, scanReleased, t.Name, t.Owner, t.Fence, s.place.channel(), lockPatience)
		if err != nil {
			return err
		}
		out = found[0].Released
		if out.Changed {
			return nil
		}
		refusal := t.Refusal(found[0].before.info())
		if stale, ok := errors.AsType[*fencepost.StaleError](refusal); ok && stale.Reason == fencepost.ReasonReleased {
			return nil
		}
		if refusal == nil {
			return errLocked
		}
		return refusal
	})
	return out, err
}

type released struct {
	fencepost.Released
	before row // as the statement found it
}

func scanReleased(rows pgx.Rows) (r released, err error) {
	r.before, err = scanRow(rows, &r.Changed, &r.Wanted, new(string))
	return r, err
}
