package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// row takes a lease as the statements read it, or the nulls of an outer join that found none. Times are numbers of microseconds: neither the
// session's DateStyle nor a type that the caller registered with the driver changes them.
type row struct {
	name, owner, holder                             *string
	fence, ttl, until, remaining, acquired, renewed *int64
	wanted                                          *bool
}

func (r *row) columns() []any {
	return []any{&r.name, &r.owner, &r.fence, &r.holder, &r.ttl, &r.wanted, &r.until, &r.remaining, &r.acquired, &r.renewed}
}

func (r *row) info() (info fencepost.LeaseInfo, found bool) {
	if r.name == nil {
		return fencepost.LeaseInfo{}, false
	}
	return fencepost.LeaseInfo{
		Name: *r.name, Owner: *r.owner, Fence: *r.fence, Holder: *r.holder, Wanted: *r.wanted, TTL: time.Duration(*r.ttl) * time.Millisecond,
		LeasedUntil: fromMicros(r.until), Remaining: remaining(r.remaining), AcquiredAt: fromMicros(r.acquired), RenewedAt: fromMicros(r.renewed),
	}, true
}

func fromMicros(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us).UTC()
}

func remaining(us *int64) time.Duration {
	if us == nil {
		return 0
	}
	return max(time.Duration(*us)*time.Microsecond, 0)
}

// scanRow reads a lease behind the columns that a statement has besides.
func scanRow(rows pgx.Rows, besides ...any) (r row, err error) {
	err = rows.Scan(append(besides, r.columns()...)...)
	return r, err
}

// scanPrimary reads a lease and refuses to believe a standby.
func scanPrimary(rows pgx.Rows) (row, error) {
	var standby bool
	r, err := scanRow(rows, &standby)
	if err == nil && standby {
		err = errStandby
	}
	return r, err
}

var errStandby = fmt.Errorf("%w: this server is a standby, and what it says of a lease may be old; connect to the primary", fencepost.ErrUnavailable)

// Inspect implements [fencepost.Store].
func (s *Store) Inspect(ctx context.Context, name string) (fencepost.LeaseInfo, bool, error) {
	if err := fencepost.ValidateName(name); err != nil {
		return fencepost.LeaseInfo{}, false, err
	}
	found, err := collect(ctx, s.common, s.place.text("inspect"), false, scanPrimary, name)
	if err != nil || len(found) == 0 {
		return fencepost.LeaseInfo{}, false, err
	}
	info, there := found[0].info()
	return info, there, nil
}

// Check implements [fencepost.Store].
func (s *Store) Check(ctx context.Context, t fencepost.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	info, found, err := s.Inspect(ctx, t.Name)
	if err != nil {
		return err
	}
	return t.Refusal(info, found)
}

// List implements [fencepost.Store].
func (s *Store) List(ctx context.Context, q fencepost.ListQuery) ([]fencepost.LeaseInfo, error) {
	found, err := collect(ctx, s.common, s.place.text("list"), false, scanPrimary, q.After, limitOf(q.Limit))
	if err != nil {
		return nil, err
	}
	infos := make([]fencepost.LeaseInfo, len(found))
	for i, r := range found {
		infos[i], _ = r.info()
	}
	return infos, nil
}

// defaultLimit is the limit of queries that name none.
const defaultLimit = 1000

func limitOf(n int) int64 {
	if n == 0 {
		n = defaultLimit
	}
	return int64(max(n, 0))
}

// lockPatience is how long one statement waits for a lock before it is tried again, in the server's notation. A client that is gone
// leaves its statement waiting on the server, and what that does later, it does for nobody.
const lockPatience = "1s"

// Want implements [fencepost.Store].
func (s *Store) Want(ctx context.Context, name string) (marked bool, err error) {
	if err := fencepost.ValidateName(name); err != nil {
		return false, err
	}
	found, err := collect(ctx, s.common, s.place.text("want"), true, value[bool], name, lockPatience)
	return len(found) > 0, err
}
