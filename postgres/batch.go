package postgres

import (
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// QueueGuard puts the fence into a batch of the caller's, for tables with the default names: with a stale token it raises, and the server rolls the
// whole batch back, what stands before it too. So several statements are fenced in one round trip. Queue it first, send
// the batch outside of a transaction, so that it is one of its own, and pass its error to [Refused].
//
// The batch must not contain what commits: BEGIN, COMMIT, ROLLBACK, CALL or DO would end the transaction that holds the lock.
// A refusal is not recorded as an event.
func QueueGuard(batch *pgx.Batch, t fencepost.Token) { queueGuard(batch, defaultPlace(), t) }

// QueueGuard is [QueueGuard] for the tables of this store.
func (s *Store) QueueGuard(batch *pgx.Batch, t fencepost.Token) { queueGuard(batch, s.place, t) }

func queueGuard(batch *pgx.Batch, p place, t fencepost.Token) {
	batch.Queue(p.text("guard_raising"), t.Name, t.Owner, t.Fence)
}

// Refused turns the error of a batch whose guard raised into the *[fencepost.StaleError] that it stands for; every other error, and nil,
// stays as it is.
func Refused(err error) error {
	e, ok := serverError(err)
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
	if jsonErr := json.Unmarshal([]byte(e.Detail), &d); jsonErr != nil {
		return fmt.Errorf("%w: %w", fencepost.ErrStale, err)
	}
	return &fencepost.StaleError{Lease: d.Lease, Reason: d.Reason, Presented: d.Presented, Current: d.Current, Holder: d.Holder}
}
