package mysql

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost"
)

// Acquire implements [fencepost.Store].
func (s *Store) Acquire(ctx context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error) {
	if err := validRequest(r.Name, r.Owner, r.TTL); err != nil {
		return fencepost.Grant{}, err
	}
	v := values{"name": bytesLiteral(r.Name), "owner": bytesLiteral(r.Owner), "holder": bytesLiteral(r.Holder), "ttl_ms": millis(r.TTL)}
	// A second try is for a lease that was created by another in between, or was held when it was asked for and had run out
	// when it was read.
	for tries := 0; ; tries++ {
		lease, found, err := s.change(ctx, s.texts.with("acquire", v), r.Name)
		if err == nil && !found {
			lease, found, err = s.change(ctx, s.texts.with("acquire_new", v), r.Name)
		}
		if serverCode(err) == codeDuplicateKey {
			continue
		}
		if err != nil {
			return fencepost.Grant{}, err
		}
		// What this statement has granted is a grant, also if it ran out before it was read back: another try would burn a fence.
		if found && (lease.State() == fencepost.StateHeld || lease.changed > 0 && lease.Owner == r.Owner) {
			if lease.Owner != r.Owner {
				return fencepost.Grant{}, lease.Refusal()
			}
			// By this statement, or by an earlier one whose reply was lost.
			return fencepost.Grant{
				Token: fencepost.Token{Name: r.Name, Owner: r.Owner, Fence: lease.Fence},
				TTL:   lease.TTL, LeasedUntil: lease.LeasedUntil, Remaining: lease.Remaining, TakenOver: lease.takenOver && lease.changed > 0,
			}, nil
		}
		if _, err := fencepost.NextFence(lease.Fence); err != nil {
			return fencepost.Grant{}, err
		}
		if tries > 0 {
			lease.Name = r.Name
			return fencepost.Grant{}, lease.Refusal() // not held, but locked
		}
	}
}

// change runs a statement that changes a lease and reads the lease back, in one round trip where the pool can.
func (s *Store) change(ctx context.Context, statement, name string) (r row, found bool, err error) {
	return single(changeAndRead(ctx, s.common, s.packets, statement, s.inspect(name), scanLease))
}

// validRequest guards the row against what the client would not ask for. The limits of TTLs are the client's.
func validRequest(name, owner string, ttl time.Duration) error {
	return errors.Join(
		fencepost.Token{Name: name, Owner: owner, Fence: 1}.Validate(),
		fencepost.ValidateTTL(ttl, time.Millisecond, longestTTL))
}

// longestTTL keeps the arithmetic of times in range; the client's limits are far below.
const longestTTL = 100 * 365 * 24 * time.Hour
