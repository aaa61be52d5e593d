package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// Acquire implements [fencepost.Store]. It never waits for the lease's row: where a fenced write or another's acquisition has it
// locked, the answer is a *[fencepost.HeldError] with Busy set.
func (s *Store) Acquire(ctx context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error) {
	if err := validRequest(r.Name, r.Owner, r.TTL); err != nil {
		return fencepost.Grant{}, err
	}
	for {
		found, err := collect(ctx, s.common, s.place.text("acquire"), true, scanTry, r.Name, r.Owner, r.Holder, r.TTL.Milliseconds())
		if err != nil {
			return fencepost.Grant{}, err
		}
		if len(found) == 0 {
			continue // another created the name at the same moment: the next look sees its lease
		}
		try := found[0]
		try.lease.Name = r.Name
		if try.won || try.lease.Owner == r.Owner && try.lease.State() == fencepost.StateHeld {
			// Granted now, or to an earlier attempt whose reply was lost.
			return try.grant(), nil
		}
		if try.lease.State() != fencepost.StateHeld {
			if _, err := fencepost.NextFence(try.lease.Fence); err != nil {
				return fencepost.Grant{}, err
			}
		}
		return fencepost.Grant{}, try.lease.Refusal()
	}
}

// try is the answer to an acquisition: the lease as granted, or as it stands in the way.
type try struct {
	won, takenOver bool
	lease          fencepost.LeaseInfo
}

func scanTry(rows pgx.Rows) (t try, err error) {
	var ttl int64
	var until, left *int64
	err = rows.Scan(&t.won, &t.takenOver, &t.lease.Owner, &t.lease.Fence, &t.lease.Holder, &ttl, &t.lease.Wanted, &until, &left)
	t.lease.TTL = time.Duration(ttl) * time.Millisecond
	t.lease.LeasedUntil, t.lease.Remaining = fromMicros(until), remaining(left)
	return t, err
}

func (t try) grant() fencepost.Grant {
	return fencepost.Grant{
		Token: fencepost.Token{Name: t.lease.Name, Owner: t.lease.Owner, Fence: t.lease.Fence},
		TTL:   t.lease.TTL, LeasedUntil: t.lease.LeasedUntil, Remaining: t.lease.Remaining, TakenOver: t.takenOver,
	}
}

// validRequest guards the row against what the client would not ask for. The limits of TTLs are the client's.
func validRequest(name, owner string, ttl time.Duration) error {
	return errors.Join(
		fencepost.Token{Name: name, Owner: owner, Fence: 1}.Validate(),
		fencepost.ValidateTTL(ttl, time.Millisecond, longestTTL))
}

// longestTTL keeps the arithmetic of times in range; the client's limits are far below.
const longestTTL = 100 * 365 * 24 * time.Hour
