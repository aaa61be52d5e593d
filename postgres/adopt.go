package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Adopt takes over a team's own table of leases with the columns lease_name, owner_token, fence_token and leased_until: each of its rows
// becomes a free lease with the same owner and fence, so that the next acquisition gets a higher fence than any before. Where the name is
// already a lease here, the greater fence stays. table may be "schema.table". The table itself is not changed.
//
// It is all or nothing, and refused with an error that names the rows while one of them is live, or may be: a timestamp without
// time zone does not say when it is, so an end less than 14 hours ago is in doubt. Stop the old writers first. A lease that is live here
// with a lower fence is refused too.
func Adopt(ctx context.Context, pool *pgxpool.Pool, table string, opts ...Option) (adopted int, err error) {
	p, err := placeOf(opts)
	if err != nil {
		return 0, err
	}
	parts := strings.Split(table, ".")
	for _, part := range parts {
		if err := errors.Join(validateIdentifier("table", part)); err != nil || len(parts) > 2 {
			return 0, fmt.Errorf("%w: %q is not the name of a table", fencepost.ErrInvalid, table)
		}
	}
	if err := ended(ctx); err != nil {
		return 0, err
	}
	a := adoption{place: p, table: table, quoted: pgx.Identifier(parts).Sanitize()}
	err = sqlstore.Retry(ctx, againWhole, func() error {
		return pooled(pool).on(ctx, func(conn *pgx.Conn) error {
			adopted, err = a.run(ctx, conn)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return adopted, nil
}

type adoption struct {
	place         place
	table, quoted string
}

// text returns a statement with the name of the table to adopt.
func (a adoption) text(name string) string {
	return strings.ReplaceAll(a.place.text(name), `"adopted_table"`, a.quoted)
}

// candidate is a row of the table to adopt.
type candidate struct {
	name, owner           string
	fence                 int64
	live, doubtful, taken bool
}

func scanCandidate(rows pgx.Rows) (c candidate, err error) {
	err = rows.Scan(&c.name, &c.owner, &c.fence, &c.live, &c.doubtful, &c.taken)
	return c, err
}

func (a adoption) run(ctx context.Context, conn *pgx.Conn) (adopted int, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, judge(ctx, err, false)
	}
	defer rollback(ctx, tx)
	if _, err := tx.Exec(ctx, a.text("adopt_lock"), pgx.QueryExecModeExec); err != nil {
		return 0, a.unreadable(ctx, err)
	}
	candidates, err := query(ctx, tx, a.text("adopt_source"), scanCandidate, withoutName(nil))
	if err != nil {
		return 0, a.unreadable(ctx, err)
	}
	if err := a.refuse(candidates); err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, a.text("adopt_rows"), pgx.QueryExecModeExec)
	if err != nil {
		return 0, a.unreadable(ctx, err)
	}
	return int(tag.RowsAffected()), commit(ctx, tx)
}

// unreadable tells a table that cannot be adopted from a database that cannot be asked.
func (a adoption) unreadable(ctx context.Context, err error) error {
	e, ok := serverError(err)
	if !ok || fatal(e) || againWhole(err) || a.ours(e.Message) {
		return judge(ctx, err, false)
	}
	return fmt.Errorf("%w: %s cannot be adopted: %w", fencepost.ErrInvalid, a.table, err)
}

// ours reports that the server complains of the table to adopt into. The one to adopt may have it as a part of its name.
func (a adoption) ours(message string) bool {
	leases := a.place.names.Prefix + "leases"
	return strings.Contains(message, `relation "`+a.place.schema+"."+leases+`"`) || strings.Contains(message, `relation "`+leases+`"`) ||
		strings.HasSuffix(message, " "+leases)
}

// refuse names the rows that cannot become leases, or are live.
func (a adoption) refuse(candidates []candidate) error {
	var errs []error
	var live, doubtful, taken []string
	for _, c := range candidates {
		if err := (fencepost.Token{Name: c.name, Owner: c.owner, Fence: c.fence}).Validate(); err != nil {
			errs = append(errs, fmt.Errorf("row %q of %s: %w", c.name, a.table, err))
		}
		switch {
		case c.live:
			live = append(live, c.name)
		case c.doubtful:
			doubtful = append(doubtful, c.name)
		case c.taken:
			taken = append(taken, c.name)
		}
	}
	if len(live) > 0 {
		errs = append(errs, fmt.Errorf("%w: still live in %s: %s; stop their holders and wait, or set leased_until to NULL", fencepost.ErrHeld, a.table, sqlstore.Quoted(live)))
	}
	if len(doubtful) > 0 {
		errs = append(errs, fmt.Errorf("%w: in doubt in %s: %s; they ended less than 14 hours ago, and the column does not say in which time zone: "+
			"make sure that their holders have stopped, then set leased_until to NULL", fencepost.ErrHeld, a.table, sqlstore.Quoted(doubtful)))
	}
	if len(taken) > 0 {
		errs = append(errs, fmt.Errorf("%w: live here, with a lower fence than in %s: %s; release them first", fencepost.ErrHeld, a.table, sqlstore.Quoted(taken)))
	}
	return errors.Join(errs...)
}
