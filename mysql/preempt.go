package mysql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/fencepost/fencepost"
)

// Preempt implements [fencepost.Store].
func (s *Store) Preempt(ctx context.Context, r fencepost.PreemptRequest) (fencepost.Grant, error) {
	ttl := r.TTL
	if ttl == 0 {
		ttl = time.Millisecond // only to check the rest
	}
	if err := validRequest(r.Name, r.Owner, ttl); err != nil {
		return fencepost.Grant{}, err
	}
	if r.Fence < 1 {
		return fencepost.Grant{}, errors.Join(fencepost.ErrInvalid, errors.New("the fence to preempt must be at least 1"))
	}
	next, err := fencepost.NextFence(r.Fence)
	if err != nil {
		return fencepost.Grant{}, err
	}
	statement := s.texts.with("preempt", values{
		"name": bytesLiteral(r.Name), "fence": intLiteral(r.Fence), "owner": bytesLiteral(r.Owner), "holder": bytesLiteral(r.Holder),
		"ttl_ms": millis(r.TTL), "actor": bytesLiteral(r.Actor), "reason": bytesLiteral(r.Reason),
	})
	lease, found, err := single(changeAndRead(ctx, s.impatient, s.packets, statement, s.inspect(r.Name), scanLease))
	switch {
	case err != nil:
		return fencepost.Grant{}, err
	case found && lease.Fence == next && lease.Owner == r.Owner:
		return fencepost.Grant{
			Token: fencepost.Token{Name: r.Name, Owner: r.Owner, Fence: next}, TTL: r.TTL, LeasedUntil: lease.LeasedUntil, Remaining: lease.Remaining,
		}, nil
	case found && lease.Fence == r.Fence:
		return fencepost.Grant{}, errSkipped
	}
	// Only the fence was presented, so an owner cannot be what is wrong.
	return fencepost.Grant{}, fencepost.Token{Name: r.Name, Owner: lease.Owner, Fence: r.Fence}.Refusal(lease.LeaseInfo, found)
}

// impatient runs an operation that may wait for a row lock, on a session that waits for one second only and then asks again. A
// client that has given up leaves its statement waiting on the server, and what that does later, it does for nobody.
func (s *Store) impatient(ctx context.Context, op func(*sql.Conn) error) error {
	return s.common(ctx, func(conn *sql.Conn) error {
		var before int64
		if err := conn.QueryRowContext(ctx, s.texts.with("lock_wait", nil)).Scan(&before); err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, s.texts.with("lock_wait_set", values{"seconds": intLiteral(1)})); err != nil {
			return err
		}
		err := op(conn)
		if _, restoreErr := conn.ExecContext(ctx, s.texts.with("lock_wait_set", values{"seconds": intLiteral(before)})); restoreErr != nil {
			discard(conn)
		}
		return err
	})
}
