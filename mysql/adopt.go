package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

var tableForm = regexp.MustCompile("^[^`.\x00]{1,64}(\\.[^`.\x00]{1,64})?$")

// candidate is a row of the table to adopt.
type candidate struct {
	name, owner       string
	fence             int64
	until             sql.NullString
	live, maybe, free bool
}

// Adopt takes over a team's own table of leases with the columns lease_name, owner_token, fence_token and leased_until: each of its rows
// becomes a free lease with the same owner and fence, so that the next acquisition gets a higher fence than any before. Where the
// name is already a lease here, the greater fence stays. table may be "database.table". The table itself is not changed.
//
// It is all or nothing, and refused with an error that names the rows while one of them is live, or may be: a DATETIME does not say in
// which zone it was written, so an end less than 14 hours ago is in doubt. Stop the old writers first. A lease that is live here
// is not touched either.
func Adopt(ctx context.Context, db *sql.DB, table string, opts ...Option) (adopted int, err error) {
	o, err := settings(opts)
	if err != nil {
		return 0, err
	}
	if !tableForm.MatchString(table) {
		return 0, fmt.Errorf("%w: %q is not the name of a table", fencepost.ErrInvalid, table)
	}
	a := adoption{texts: renderStatements(o.names), source: literal("`" + strings.ReplaceAll(table, ".", "`.`") + "`"), table: table}
	err = sqlstore.Retry(ctx, again, func() error {
		adopted, err = a.run(ctx, db)
		return err
	})
	return adopted, err
}

type adoption struct {
	texts  statements
	source literal
	table  string
}

func (a adoption) run(ctx context.Context, db *sql.DB) (adopted int, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, unavailable(err)
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, a.texts.with("adopt_source", values{"source": a.source}))
	if err != nil {
		return 0, unavailable(err)
	}
	candidates, err := scanAll(rows, func(rows *sql.Rows) (c candidate, err error) {
		err = rows.Scan(&c.name, &c.owner, &c.fence, &c.until, &c.live, &c.maybe)
		return c, err
	})
	if err != nil {
		return 0, fmt.Errorf("%w: a row of %s cannot be read: %w", fencepost.ErrInvalid, a.table, err)
	}
	if err := a.refuse(candidates); err != nil {
		return 0, err
	}
	var taken []string
	for _, c := range candidates {
		v := values{"name": bytesLiteral(c.name), "owner": bytesLiteral(c.owner), "fence": intLiteral(c.fence)}
		if _, err := tx.ExecContext(ctx, a.texts.with("adopt_new", v)); err == nil {
			adopted++
			continue
		} else if serverCode(err) != codeDuplicateKey {
			return 0, judge(err, false)
		}
		info, _, err := lookIn(ctx, tx, a.texts.with("adopt_here", v))
		switch {
		case err != nil:
			return 0, err
		case info.Fence >= c.fence:
			continue
		case info.State() == fencepost.StateHeld:
			taken = append(taken, c.name)
			continue
		}
		if _, err := tx.ExecContext(ctx, a.texts.with("adopt_raise", v)); err != nil {
			return 0, judge(err, false)
		}
		adopted++
	}
	if len(taken) > 0 {
		return 0, fmt.Errorf("%w: live here, with a lower fence than in %s: %s; release them first", fencepost.ErrHeld, a.table, sqlstore.Quoted(taken))
	}
	return adopted, commit(ctx, tx)
}

// refuse names the rows that cannot become leases, or are live.
func (a adoption) refuse(candidates []candidate) error {
	var errs []error
	var live, doubt []string
	for _, c := range candidates {
		if err := (fencepost.Token{Name: c.name, Owner: c.owner, Fence: c.fence}).Validate(); err != nil {
			errs = append(errs, fmt.Errorf("row %q of %s: %w", c.name, a.table, err))
		}
		switch {
		case c.live:
			live = append(live, c.name)
		case c.maybe:
			doubt = append(doubt, c.name)
		}
	}
	if len(live) > 0 {
		errs = append(errs, fmt.Errorf("%w: still live in %s if its times are UTC: %s; stop their holders and wait, or set leased_until to NULL", fencepost.ErrHeld, a.table, sqlstore.Quoted(live)))
	}
	if len(doubt) > 0 {
		errs = append(errs, fmt.Errorf("%w: in doubt in %s: %s; they ended less than 14 hours ago, and the column does not say in which time zone: "+
			"make sure that their holders have stopped, then set leased_until to NULL", fencepost.ErrHeld, a.table, sqlstore.Quoted(doubt)))
	}
	return errors.Join(errs...)
}
