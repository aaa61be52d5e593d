package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
)

// Adopt takes over a team's table that has the columns lease_name, owner_token, fence_token and leased_until: its rows become free
// leases with their owner and fence, so that the next holder's fence is higher than any that is still about. Where a lease of the
// name exists, the greater fence wins. The source is not changed. Rows that are not free by now are refused, all are
// named, and nothing is adopted: stop the old system first. The table may be named with its schema. A leased_until without a time zone is taken as UTC.
func Adopt(ctx context.Context, pool *pgxpool.Pool, table string, opts ...Option) (adopted int, err error) {
	p, err := placeOf(opts)
	if err != nil {
		return 0, err
	}
	if table == "" || strings.ContainsRune(table, 0) {
		return 0, fmt.Errorf("%w: the table name %q cannot be used", fencepost.ErrInvalid, table)
	}
	source := pgx.Identifier(strings.Split(table, ".")).Sanitize()
	text := func(name string) string { return strings.ReplaceAll(p.text(name), `"adopted_table"`, source) }
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// What is adopted must not be used by the old system in between.
		if _, err := tx.Exec(ctx, text("adopt_lock")); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, text("adopt_utc")); err != nil {
			return err
		}
		var live []string
		err := eachRow(ctx, tx, text("adopt_live"), nil, func(rows pgx.Rows) error {
			var name string
			err := rows.Scan(&name)
			live = append(live, fmt.Sprintf("%q", name))
			return err
		})
		if err != nil {
			return err
		}
		if len(live) > 0 {
			return fmt.Errorf("%w: still leased in %q: %s; stop the old system, wait for the end of its leases, and adopt again",
				fencepost.ErrInvalid, table, strings.Join(live, ", "))
		}
		for _, name := range []string{"adopt_raise", "adopt_new"} {
			tag, err := tx.Exec(ctx, text(name))
			if err != nil {
				return err
			}
			adopted += int(tag.RowsAffected())
		}
		return nil
	})
	switch c := serverCode(err); {
	case err == nil:
		return adopted, nil
	case c == codeUndefinedTable && !strings.Contains(err.Error(), p.names.Prefix+"leases"), c == "42703":
		return 0, fmt.Errorf("%w: cannot adopt %q: %w", fencepost.ErrInvalid, table, err)
	}
	return 0, classify(ctx, p, err, true)
}
