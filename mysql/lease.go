package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/fencepost/fencepost"
)

// row is a lease as the statements read it.
type row struct {
	fencepost.LeaseInfo
	renewedMicros int64
	takenOver     bool
	readOnly      string
	// changed is how many rows the statement before this one in the session changed, or matched, as the client's flags have it.
	changed int64
}

// scanLease reads the columns of the inspect statements, all of which list the same.
func scanLease(rows *sql.Rows) (row, error) {
	var (
		r                                           row
		ttlMillis, wanted, takenOver                int64
		leasedUntil, remaining, acquired, renewedAt sql.NullInt64
	)
	err := rows.Scan(&r.changed, &r.Name, &r.Owner, &r.Fence, &r.Holder, &ttlMillis, &wanted, &takenOver, &leasedUntil, &remaining, &acquired, &renewedAt, &r.readOnly)
	r.TTL = time.Duration(ttlMillis) * time.Millisecond
	r.Wanted, r.takenOver = wanted != 0, takenOver != 0
	r.LeasedUntil, r.AcquiredAt, r.RenewedAt = fromMicros(leasedUntil), fromMicros(acquired), fromMicros(renewedAt)
	r.Remaining = max(time.Duration(remaining.Int64)*time.Microsecond, 0)
	r.renewedMicros = renewedAt.Int64
	return r, err
}

func fromMicros(us sql.NullInt64) time.Time {
	if !us.Valid {
		return time.Time{}
	}
	return time.UnixMicro(us.Int64).UTC()
}

// look reads a lease on the primary.
func (s *Store) look(ctx context.Context, name string) (fencepost.LeaseInfo, bool, error) {
	found, err := read(ctx, s.common, s.inspect(name), scanLease)
	r, there, err := single(found, err)
	return r.LeaseInfo, there, err
}

func (s *Store) inspect(name string) string {
	return s.texts.with("inspect", values{"name": bytesLiteral(name)})
}

// single is the one row that was looked for. A replica is not believed.
func single(found []row, err error) (r row, there bool, _ error) {
	if err != nil || len(found) == 0 {
		return row{}, false, err
	}
	if isOn(found[0].readOnly) {
		return row{}, false, readOnly("read_only")
	}
	return found[0], true, nil
}

// Inspect implements [fencepost.Store].
func (s *Store) Inspect(ctx context.Context, name string) (fencepost.LeaseInfo, bool, error) {
	if err := fencepost.ValidateName(name); err != nil {
		return fencepost.LeaseInfo{}, false, err
	}
	return s.look(ctx, name)
}

// Check implements [fencepost.Store].
func (s *Store) Check(ctx context.Context, t fencepost.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	info, found, err := s.look(ctx, t.Name)
	if err != nil {
		return err
	}
	return t.Refusal(info, found)
}

// defaultLimit is the limit of queries that name none.
const defaultLimit = 1000

func limitLiteral(n int) literal {
	if n == 0 {
		n = defaultLimit
	}
	return intLiteral(int64(max(n, 0)))
}

// List implements [fencepost.Store].
func (s *Store) List(ctx context.Context, q fencepost.ListQuery) ([]fencepost.LeaseInfo, error) {
	found, err := read(ctx, s.common, s.texts.with("list", values{"after": bytesLiteral(q.After), "limit": limitLiteral(q.Limit)}), scanLease)
	if err != nil {
		return nil, err
	}
	infos := make([]fencepost.LeaseInfo, len(found))
	for i, r := range found {
		if isOn(r.readOnly) {
			return nil, readOnly("read_only")
		}
		infos[i] = r.LeaseInfo
	}
	return infos, nil
}

// Want implements [fencepost.Store].
func (s *Store) Want(ctx context.Context, name string) (bool, error) {
	if err := fencepost.ValidateName(name); err != nil {
		return false, err
	}
	affected, err := s.common.write(ctx, s.texts.with("want", values{"name": bytesLiteral(name)}))
	return affected > 0, err
}
