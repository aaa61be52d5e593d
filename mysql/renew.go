package mysql

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencepost/fencepost"
)

const (
	// tokensPerStatement bounds the text of a renewal: servers refuse packets above max_allowed_packet, 16 MiB by default.
	tokensPerStatement = 10_000
	// busyTries is how often a row that was skipped because it was locked is tried again at once: usually it is only being
	// looked at by somebody who wants the lease.
	busyTries = 4
	busyPause = 4 * time.Millisecond
)

// Renew implements [fencepost.Store]. A row that another transaction keeps locked is skipped and answered with
// [fencepost.ErrBusy].
func (s *Store) Renew(ctx context.Context, tokens []fencepost.Token) ([]fencepost.Renewal, error) {
	renewals := make([]fencepost.Renewal, len(tokens))
	for start := 0; start < len(tokens); start += tokensPerStatement {
		end := min(start+tokensPerStatement, len(tokens))
		if err := s.renew(ctx, tokens[start:end], renewals[start:end], busyTries); err != nil {
			return nil, err
		}
	}
	return renewals, nil
}

func (s *Store) renew(ctx context.Context, tokens []fencepost.Token, renewals []fencepost.Renewal, tries int) error {
	statement, query := s.renewal(tokens)
	found, err := changeAndRead(ctx, s.beat.via, s.beat.packets, statement, query, scanLease)
	if err != nil {
		return err
	}
	busy := settle(tokens, renewals, found)
	if len(busy) == 0 || tries <= 1 || !pause(ctx, busyPause/2+rand.N(busyPause)) {
		return nil
	}
	again := make([]fencepost.Token, len(busy))
	for i, at := range busy {
		again[i] = tokens[at]
	}
	outcomes := make([]fencepost.Renewal, len(busy))
	if err := s.renew(ctx, again, outcomes, tries-1); err != nil {
		return nil // the others were renewed: that answer must not be lost
	}
	for i, at := range busy {
		renewals[at] = outcomes[i]
	}
	return nil
}

// renewal is the statement that renews tokens and the query that reads their leases back.
func (s *Store) renewal(tokens []fencepost.Token) (statement, query string) {
	if len(tokens) == 1 {
		return s.texts.with("renew_one", tokenValues(tokens[0])), s.inspect(tokens[0].Name)
	}
	asked := tokensLiteral(tokens)
	return s.texts.with("renew", values{"tokens": asked, "count": intLiteral(int64(len(tokens)))}), s.texts.with("inspect_many", values{"tokens": asked})
}

// settle answers for each token from the rows as they were read back, and returns the tokens that are live but were not renewed: their
// rows were locked and so skipped.
func settle(tokens []fencepost.Token, renewals []fencepost.Renewal, found []row) (busy []int) {
	rows := make(map[string]row, len(found))
	for _, r := range found {
		rows[r.Name] = r
	}
	since := renewedSince(rows)
	for i, t := range tokens {
		r, there := rows[t.Name]
		refusal := t.Refusal(r.LeaseInfo, there)
		switch {
		case refusal != nil:
			renewals[i] = fencepost.Renewal{Err: refusal}
		case r.renewedMicros >= since:
			renewals[i] = fencepost.Renewal{LeasedUntil: r.LeasedUntil}
		default:
			renewals[i] = fencepost.Renewal{Err: errSkipped}
			busy = append(busy, i)
		}
	}
	return busy
}

// renewedSince tells the rows that a renewal reached from those that it skipped. It changed some number of rows, and gave all the same
// time, the newest there is except where yet another renewal came later: so that number of rows, newest first, was
// renewed.
func renewedSince(rows map[string]row) int64 {
	var times []int64
	changed := int64(0)
	for _, r := range rows {
		times = append(times, r.renewedMicros)
		changed = r.changed
	}
	if changed <= 0 {
		return math.MaxInt64
	}
	slices.Sort(times)
	return times[max(int64(len(times))-changed, 0)]
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errSkipped = fmt.Errorf("%w: the lease's row is locked by another transaction; try again in a moment", fencepost.ErrBusy)
