package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// Renew implements [fencepost.Store], in one statement for any number of leases, on a connection of its own. A row that another
// transaction has locked is answered with [fencepost.ErrBusy] and holds up nothing.
func (s *Store) Renew(ctx context.Context, tokens []fencepost.Token) ([]fencepost.Renewal, error) {
	var names, owners []string
	var fences []int64
	asked := make(map[fencepost.Token]bool, len(tokens))
	for _, t := range tokens {
		if err := t.Validate(); err != nil {
			return nil, err
		}
		if asked[t] {
			continue // the statement must meet every row once
		}
		asked[t] = true
		names, owners, fences = append(names, t.Name), append(owners, t.Owner), append(fences, t.Fence)
	}
	if len(asked) == 0 {
		return nil, ended(ctx)
	}
	found, err := collect(ctx, s.beat.link, s.place.text("renew"), true, scanRenewed, names, owners, fences)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]renewed, len(found))
	for _, r := range found {
		byName[r.lease.Name] = r
	}
	renewals := make([]fencepost.Renewal, len(tokens))
	for i, t := range tokens {
		r, there := byName[t.Name]
		switch refusal := t.Refusal(r.lease, there); {
		case refusal != nil:
			renewals[i].Err = refusal
		case !r.done:
			renewals[i].Err = errLocked // live, and skipped
		default:
			renewals[i].LeasedUntil = r.lease.LeasedUntil
		}
	}
	return renewals, nil
}

// renewed is a row after a renewal: extended, or as the statement found it.
type renewed struct {
	done  bool
	lease fencepost.LeaseInfo
}

func scanRenewed(rows pgx.Rows) (r renewed, err error) {
	var until, left *int64
	err = rows.Scan(&r.done, &r.lease.Name, &r.lease.Owner, &r.lease.Fence, &r.lease.Holder, &until, &left)
	r.lease.LeasedUntil, r.lease.Remaining = fromMicros(until), remaining(left)
	return r, err
}
