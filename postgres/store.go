package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Acquire implements fencepost.Store, in one statement. It never waits for the lease's row: where a fenced write or another's acquisition has it
// locked, the answer is a *fencepost.HeldError with Busy set.
func (s *Store) Acquire(ctx context.Context, r fencepost.AcquireRequest) (grant fencepost.Grant, err error) {
	for {
		asked := false
		err := s.retry(ctx, true, func() error {
			asked = false
			return s.each(ctx, s.pool, "acquire", []any{r.Name, r.Owner, r.Holder, r.TTL.Milliseconds()}, func(rows pgx.Rows) error {
				asked = true
				var won, takenOver bool
				info := fencepost.LeaseInfo{Name: r.Name}
				var ttl int64
				var until *time.Time
				var remaining *int64
				if err := rows.Scan(&won, &takenOver, &info.Owner, &info.Fence, &info.Holder, &ttl, &until, &info.Wanted, &remaining); err != nil {
					return err
				}
				setTimes(&info, ttl, until, remaining)
				switch {
				case won:
					info.Owner = r.Owner
					grant = grantOf(info)
					grant.TakenOver = takenOver
					return nil
				case info.Owner == r.Owner && info.State() == fencepost.StateHeld:
					grant = grantOf(info) // an earlier attempt's, whose reply was lost
					return nil
				}
				if info.State() == fencepost.StateHeld {
					return info.Refusal()
				}
				if _, err := fencepost.NextFence(info.Fence); err != nil {
					return err // free or expired, and used up
				}
				return info.Refusal()
			})
		})
		if err != nil || asked {
			return grant, err
		}
		// Neither granted nor seen: another created the name at the same moment. Look again.
	}
}

func grantOf(i fencepost.LeaseInfo) fencepost.Grant {
	return fencepost.Grant{Token: fencepost.Token{Name: i.Name, Owner: i.Owner, Fence: i.Fence}, TTL: i.TTL, LeasedUntil: i.LeasedUntil, Remaining: i.Remaining}
}

func setTimes(i *fencepost.LeaseInfo, ttlMillis int64, until *time.Time, remainingMicros *int64) {
	i.TTL = time.Duration(ttlMillis) * time.Millisecond
	i.LeasedUntil = utc(until)
	if remainingMicros != nil {
		i.Remaining = max(time.Duration(*remainingMicros)*time.Microsecond, 0)
	}
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// Release implements fencepost.Store, in one statement.
func (s *Store) Release(ctx context.Context, t fencepost.Token) (out fencepost.Released, err error) {
	err = s.retry(ctx, true, func() error {
		out = fencepost.Released{}
		return s.each(ctx, s.pool, "release", []any{t.Name, t.Owner, t.Fence, s.place.channel()}, func(rows pgx.Rows) error {
			var row optionalLease
			var notified string
			if err := rows.Scan(append([]any{&out.Changed, &notified, &out.Wanted}, row.into()...)...); err != nil {
				return err
			}
			if out.Changed {
				return nil
			}
			refusal := t.Refusal(row.info())
			if stale, ok := errors.AsType[*fencepost.StaleError](refusal); ok && stale.Reason == fencepost.ReasonReleased {
				return nil
			}
			if refusal == nil {
				return fencepost.ErrBusy // renewed after the statement looked: ask again
			}
			return refusal
		})
	})
	return out, err
}

// Preempt implements fencepost.Store. It waits for a fenced write in progress, while ctx lasts.
func (s *Store) Preempt(ctx context.Context, r fencepost.PreemptRequest) (grant fencepost.Grant, err error) {
	if _, err := fencepost.NextFence(r.Fence); err != nil {
		return fencepost.Grant{}, err
	}
	done := false
	args := []any{r.Name, r.Fence, r.Owner, r.TTL.Milliseconds(), r.Holder, r.Actor, r.Reason, s.place.channel()}
	err = s.retry(ctx, true, func() error {
		done = false
		return s.each(ctx, s.pool, "preempt", args, func(rows pgx.Rows) error {
			var until *time.Time
			var notified string
			grant = fencepost.Grant{Token: fencepost.Token{Name: r.Name, Owner: r.Owner}, TTL: r.TTL, Remaining: r.TTL}
			done = true
			err := rows.Scan(&grant.Token.Fence, &until, &notified)
			grant.LeasedUntil = utc(until)
			return err
		})
	})
	if err != nil || done {
		return grant, err
	}
	info, found, err := s.Inspect(ctx, r.Name)
	if err != nil {
		return fencepost.Grant{}, err
	}
	if refusal := (fencepost.Token{Name: r.Name, Fence: r.Fence}).Refusal(info, found); refusal != nil {
		return fencepost.Grant{}, refusal
	}
	return fencepost.Grant{}, fencepost.ErrBusy
}

// Check implements fencepost.Store.
func (s *Store) Check(ctx context.Context, t fencepost.Token) error {
	info, found, err := s.Inspect(ctx, t.Name)
	if err != nil {
		return err
	}
	return t.Refusal(info, found)
}

// Inspect implements fencepost.Store.
func (s *Store) Inspect(ctx context.Context, name string) (fencepost.LeaseInfo, bool, error) {
	list, err := collect(ctx, s, "inspect", scanLease, name)
	if err != nil || len(list) == 0 {
		return fencepost.LeaseInfo{}, false, err
	}
	return list[0], true, nil
}

// List implements fencepost.Store.
func (s *Store) List(ctx context.Context, q fencepost.ListQuery) ([]fencepost.LeaseInfo, error) {
	return collect(ctx, s, "list", scanLease, q.After, limitOf(q.Limit))
}

// Want implements fencepost.Store.
func (s *Store) Want(ctx context.Context, name string) (marked bool, err error) {
	err = s.retry(ctx, true, func() error {
		n, err := s.exec(ctx, "want", name)
		marked = n > 0
		return err
	})
	return marked, err
}

// Record implements fencepost.Store.
func (s *Store) Record(ctx context.Context, e fencepost.Event) error {
	return s.retry(ctx, true, func() error {
		_, err := s.exec(ctx, "record", e.Lease, string(e.Kind), e.Fence, e.Holder, e.Actor, e.Reason)
		return err
	})
}

// Events implements fencepost.Store.
func (s *Store) Events(ctx context.Context, q fencepost.EventQuery) ([]fencepost.Event, error) {
	statement := "events"
	if q.Last {
		statement = "events_last"
	}
	return collect(ctx, s, statement, func(rows pgx.Rows) (fencepost.Event, error) {
		var e fencepost.Event
		err := rows.Scan(&e.ID, &e.Lease, &e.Kind, &e.Fence, &e.Holder, &e.Actor, &e.Reason, &e.At)
		e.At = e.At.UTC()
		return e, err
	}, q.Lease, q.After, limitOf(q.Limit))
}

func limitOf(n int) int {
	if n <= 0 {
		return 1000
	}
	return n
}

func (s *Store) retry(ctx context.Context, writing bool, op func() error) error {
	return s.classify(ctx, sqlstore.Retry(ctx, retryable, op), writing)
}

// exec runs a statement that returns no rows and returns how many it affected.
func (s *Store) exec(ctx context.Context, name string, args ...any) (int64, error) {
	text := s.place.text(name)
	tag, err := s.pool.Exec(ctx, text, s.mode(args)...)
	if mixedUp(err) {
		tag, err = s.pool.Exec(ctx, text, append([]any{pgx.QueryExecModeExec}, args...)...)
	}
	return tag.RowsAffected(), err
}

// collect runs a reading statement. A retry begins its list anew.
func collect[T any](ctx context.Context, s *Store, statement string, scan func(pgx.Rows) (T, error), args ...any) (list []T, err error) {
	err = s.retry(ctx, false, func() error {
		list = nil
		return s.each(ctx, s.pool, statement, args, func(rows pgx.Rows) error {
			row, err := scan(rows)
			list = append(list, row)
			return err
		})
	})
	return list, err
}

func scanLease(rows pgx.Rows) (fencepost.LeaseInfo, error) {
	var row optionalLease
	if err := rows.Scan(row.into()...); err != nil {
		return fencepost.LeaseInfo{}, err
	}
	info, found := row.info()
	if !found {
		return info, fmt.Errorf("a lease without a name")
	}
	return info, nil
}

// optionalLease takes a lease's row, or the nulls of an outer join that found none.
type optionalLease struct {
	name, owner, holder      *string
	fence, ttl, remaining    *int64
	until, acquired, renewed *time.Time
	wanted                   *bool
}

func (o *optionalLease) into() []any {
	return []any{&o.name, &o.owner, &o.fence, &o.holder, &o.ttl, &o.until, &o.acquired, &o.renewed, &o.wanted, &o.remaining}
}

func (o *optionalLease) info() (fencepost.LeaseInfo, bool) {
	if o.name == nil {
		return fencepost.LeaseInfo{}, false
	}
	i := fencepost.LeaseInfo{Name: *o.name, Owner: *o.owner, Fence: *o.fence, Holder: *o.holder, Wanted: *o.wanted,
		AcquiredAt: utc(o.acquired), RenewedAt: utc(o.renewed)}
	setTimes(&i, *o.ttl, o.until, o.remaining)
	return i, true
}
