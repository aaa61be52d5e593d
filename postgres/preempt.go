package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Preempt implements [fencepost.Store]. It waits for fenced writes in progress while ctx lasts; writes that overlap without a gap can
// keep it waiting.
func (s *Store) Preempt(ctx context.Context, r fencepost.PreemptRequest) (grant fencepost.Grant, err error) {
	ttl := r.TTL
	if ttl == 0 {
		ttl = time.Millisecond // only to check the rest
	}
	if err := validRequest(r.Name, r.Owner, ttl); err != nil {
		return grant, err
	}
	if r.Fence < 1 {
		return grant, fmt.Errorf("%w: the fence to preempt is %d; fences start at 1", fencepost.ErrInvalid, r.Fence)
	}
	next, err := fencepost.NextFence(r.Fence)
	if err != nil {
		return grant, err
	}
	err = sqlstore.Retry(ctx, again, func() error {
		found, err := collect(ctx, s.common, s.place.text("preempt"), true, scanPreempted,
			r.Name, r.Fence, r.Owner, r.TTL.Milliseconds(), r.Holder, r.Actor, r.Reason, s.place.channel(), lockPatience)
		if err != nil {
			return err
		}
		p := found[0]
		if p.changed {
			grant = fencepost.Grant{Token: fencepost.Token{Name: r.Name, Owner: r.Owner, Fence: next}, TTL: r.TTL}
			if r.TTL > 0 {
				grant.LeasedUntil, grant.Remaining = fromMicros(&p.untilMicros), remaining(&p.remainingMicros)
			}
			return nil
		}
		info, there := p.before.info()
		if there && info.Fence == r.Fence {
			return errLocked
		}
		// Only the fence was presented, so an owner cannot be what is wrong.
		return fencepost.Token{Name: r.Name, Owner: info.Owner, Fence: r.Fence}.Refusal(info, there)
	})
	return grant, err
}

type preempted struct {
	changed                      bool
	untilMicros, remainingMicros int64
	before                       row // as the statement found it
}

func scanPreempted(rows pgx.Rows) (p preempted, err error) {
	p.before, err = scanRow(rows, &p.changed, &p.untilMicros, &p.remainingMicros, new(string))
	return p, err
}
