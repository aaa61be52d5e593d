package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Acquire implements fencepost.Store. A held lease is seen by a read, which takes no lock and writes nothing.
func (s *Store) Acquire(ctx context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error) {
	for {
		info, found, err := s.Inspect(ctx, r.Name)
		if err != nil {
			return fencepost.Grant{}, err
		}
		state := info.State()
		if state == fencepost.StateHeld {
			if info.Owner == r.Owner {
				return info.Grant(), nil
			}
			return fencepost.Grant{}, info.Refusal()
		}
		if _, err := fencepost.NextFence(info.Fence); err != nil {
			return fencepost.Grant{}, err
		}
		statement := "acquire_new"
		if found {
			statement = "acquire"
		}
		grant := fencepost.Grant{Token: fencepost.Token{Name: r.Name, Owner: r.Owner}, TTL: r.TTL, Remaining: r.TTL, TakenOver: state == fencepost.StateExpired}
		granted, err := s.change(ctx, statement, grantInto(&grant), r.Name, r.Owner, r.Holder, r.TTL.Milliseconds())
		if err != nil {
			return fencepost.Grant{}, err
		}
		if granted {
			return grant, nil
		}
		// Another was quicker between the read and the write: see who.
	}
}

func grantInto(g *fencepost.Grant) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var until sql.NullInt64
		err := rows.Scan(&g.Token.Fence, &until)
		g.LeasedUntil = timeOf(until)
		return err
	}
}

// Renew implements fencepost.Store: one statement whatever the number of leases, and one read for all that were not renewed.
func (s *Store) Renew(ctx context.Context, tokens []fencepost.Token) ([]fencepost.Renewal, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	asked := make([][3]string, len(tokens))
	for i, t := range tokens {
		asked[i] = [3]string{t.Name, t.Owner, strconv.FormatInt(t.Fence, 10)}
	}
	list, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	until := make(map[fencepost.Token]time.Time, len(tokens))
	_, err = s.change(ctx, "renew", func(rows *sql.Rows) error {
		var t fencepost.Token
		var end sql.NullInt64
		if err := rows.Scan(&t.Name, &t.Owner, &t.Fence, &end); err != nil {
			return err
		}
		until[t] = timeOf(end)
		return nil
	}, string(list))
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, t := range tokens {
		if _, renewed := until[t]; !renewed {
			missing = append(missing, t.Name)
		}
	}
	rows, err := s.inspectMany(ctx, missing)
	if err != nil {
		return nil, err
	}
	out := make([]fencepost.Renewal, len(tokens))
	for i, t := range tokens {
		if end, renewed := until[t]; renewed {
			out[i].LeasedUntil = end
			continue
		}
		info, found := rows[t.Name]
		out[i].Err = t.Refusal(info, found)
		if out[i].Err == nil {
			out[i].Err = fencepost.ErrBusy // granted to this very token in between: try again
		}
	}
	return out, nil
}

// inspectMany returns the rows that there are, by name.
func (s *Store) inspectMany(ctx context.Context, names []string) (map[string]fencepost.LeaseInfo, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	rows, err := collect(ctx, s, "inspect_many", scanLease, string(list))
	byName := make(map[string]fencepost.LeaseInfo, len(rows))
	for _, row := range rows {
		byName[row.Name] = row
	}
	return byName, err
}

// Release implements fencepost.Store.
func (s *Store) Release(ctx context.Context, t fencepost.Token) (fencepost.Released, error) {
	var out fencepost.Released
	changed, err := s.change(ctx, "release", func(rows *sql.Rows) error { return rows.Scan(&out.Wanted) }, t.Name, t.Owner, t.Fence)
	if err != nil || changed {
		out.Changed = changed
		return out, err
	}
	err = s.Check(ctx, t)
	if stale, ok := errors.AsType[*fencepost.StaleError](err); ok && stale.Reason == fencepost.ReasonReleased {
		return fencepost.Released{}, nil
	}
	return fencepost.Released{}, err
}

// Preempt implements fencepost.Store.
func (s *Store) Preempt(ctx context.Context, r fencepost.PreemptRequest) (fencepost.Grant, error) {
	if _, err := fencepost.NextFence(r.Fence); err != nil {
		return fencepost.Grant{}, err
	}
	grant := fencepost.Grant{Token: fencepost.Token{Name: r.Name, Owner: r.Owner}, TTL: r.TTL, Remaining: r.TTL}
	done, err := s.change(ctx, "preempt", grantInto(&grant), r.Name, r.Fence, r.Owner, r.TTL.Milliseconds(), r.Holder, r.Actor, r.Reason)
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
func (s *Store) Inspect(ctx context.Context, name string) (info fencepost.LeaseInfo, found bool, err error) {
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
	err = s.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, s.queries.text("want"), name)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		marked = n > 0
		return err
	})
	return marked, err
}

// Record implements fencepost.Store.
func (s *Store) Record(ctx context.Context, e fencepost.Event) error {
	return s.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, s.queries.text("record"), e.Lease, string(e.Kind), e.Fence, e.Holder, e.Actor, e.Reason)
		return err
	})
}

// Events implements fencepost.Store.
func (s *Store) Events(ctx context.Context, q fencepost.EventQuery) ([]fencepost.Event, error) {
	statement := "events"
	if q.Last {
		statement = "events_last"
	}
	return collect(ctx, s, statement, func(rows *sql.Rows) (fencepost.Event, error) {
		var e fencepost.Event
		var at int64
		err := rows.Scan(&e.ID, &e.Lease, &e.Kind, &e.Fence, &e.Holder, &e.Actor, &e.Reason, &at)
		e.At = time.UnixMilli(at).UTC()
		return e, err
	}, q.Lease, q.After, limitOf(q.Limit))
}

func limitOf(n int) int {
	if n <= 0 {
		return 1000
	}
	return n
}

// change runs a writing statement and hands every row that it returns to scan. It reports whether there was one.
func (s *Store) change(ctx context.Context, statement string, scan func(*sql.Rows) error, args ...any) (any bool, err error) {
	err = s.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		any = false
		return eachRow(ctx, conn, s.queries.text(statement), args, func(rows *sql.Rows) error {
			any = true
			return scan(rows)
		})
	})
	return any, err
}

// write runs op with the file's write lock in hand. ctx ends the wait for the lock; what comes after takes a moment and runs
// to its end, because a statement that is interrupted on its own can have been applied or not.
func (s *Store) write(ctx context.Context, op func(context.Context, *sql.Conn) error) error {
	return classify(ctx, s.names, sqlstore.Retry(ctx, retryable, func() error {
		conn, err := s.leases.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		undisturbed := context.WithoutCancel(ctx)
		if _, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err == nil {
			if err = op(undisturbed, conn); err == nil {
				_, err = conn.ExecContext(undisturbed, "COMMIT")
				err = committed(undisturbed, err)
			}
		}
		if err != nil {
			conn.ExecContext(undisturbed, "ROLLBACK") // also after BEGIN: the end of ctx can hide that it began
		}
		return err
	}))
}

// collect runs a reading statement. A retry begins its list anew.
func collect[T any](ctx context.Context, s *Store, statement string, scan func(*sql.Rows) (T, error), args ...any) (list []T, err error) {
	db := s.leases
	if s.reading != nil {
		db = s.reading
	}
	err = classify(ctx, s.names, sqlstore.Retry(ctx, retryable, func() error {
		list = nil
		return eachRow(ctx, db, s.queries.text(statement), args, func(rows *sql.Rows) error {
			row, err := scan(rows)
			list = append(list, row)
			return err
		})
	}))
	return list, err
}

// rowsSource is a *sql.DB, *sql.Conn or *sql.Tx.
type rowsSource interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// eachRow reads to the very end: only there does an autocommit statement commit, and only there does it say that it could not.
func eachRow(ctx context.Context, db rowsSource, text string, args []any, scan func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}

func scanLease(rows *sql.Rows) (fencepost.LeaseInfo, error) {
	var i fencepost.LeaseInfo
	var ttl, now int64
	var until, acquired, renewed sql.NullInt64
	if err := rows.Scan(&i.Name, &i.Owner, &i.Fence, &i.Holder, &ttl, &until, &acquired, &renewed, &i.Wanted, &now); err != nil {
		return fencepost.LeaseInfo{}, err
	}
	i.TTL = time.Duration(ttl) * time.Millisecond
	i.LeasedUntil, i.AcquiredAt, i.RenewedAt = timeOf(until), timeOf(acquired), timeOf(renewed)
	if until.Valid {
		i.Remaining = time.Duration(max(until.Int64-now, 0)) * time.Millisecond
	}
	return i, nil
}

func timeOf(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}
