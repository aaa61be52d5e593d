package mysql

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Release implements [fencepost.Store]. It does not wait for fenced writes in progress: they are still covered, because the next
// holder does. While another transaction keeps the row locked it tries again until ctx ends, then returns [fencepost.ErrBusy].
func (s *Store) Release(ctx context.Context, t fencepost.Token) (out fencepost.Released, err error) {
	if err := t.Validate(); err != nil {
		return out, err
	}
	err = sqlstore.Retry(ctx, again, func() error {
		for wanted := range int64(2) { // usually nobody waits
			v := tokenValues(t)
			v["wanted"] = intLiteral(wanted)
			affected, err := s.common.write(ctx, s.texts.with("release", v))
			if err != nil {
				return err
			}
			if affected > 0 {
				out = fencepost.Released{Changed: true, Wanted: wanted > 0}
				return nil
			}
		}
		info, found, err := s.look(ctx, t.Name)
		if err != nil {
			return err
		}
		refusal := t.Refusal(info, found)
		if refusal == nil {
			return errSkipped
		}
		if stale, ok := errors.AsType[*fencepost.StaleError](refusal); ok && stale.Reason == fencepost.ReasonReleased {
			return nil
		}
		return refusal
	})
	return out, err
}
