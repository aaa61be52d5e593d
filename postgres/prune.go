package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost"
)

// Prune implements [fencepost.RunStore]. It needs the right DELETE on the runs, or on the events.
func (s *Store) Prune(ctx context.Context, p fencepost.PruneRequest) (n int64, err error) {
	ctx, done := fencepost.WriteBegins(ctx, "prune", p.Token)
	defer func() { done(err) }()
	if err := errors.Join(p.Token.Validate(), fencepost.ValidateName(p.Lease)); err != nil {
		return 0, err
	}
	if p.Limit < 1 || p.Keep < 0 || p.OlderThan < 0 {
		return 0, fmt.Errorf("%w: pruning needs a limit of at least 1, and no negative age or number", fencepost.ErrInvalid)
	}
	statement := "prune_runs"
	if p.Events {
		statement = "prune_events"
	}
	f := fenced{s.common, s.place}
	// A part of a millisecond counts as a whole one: nothing goes too early.
	age := p.OlderThan.Milliseconds()
	if p.OlderThan%time.Millisecond > 0 {
		age++
	}
	found, err := write(ctx, f, p.Token, value[int64], sentence{statement, []any{p.Lease, age, int64(p.Keep), int64(p.Limit)}})
	f.note(ctx, p.Token, err)
	if err != nil {
		return 0, err
	}
	return found[0], nil
}
