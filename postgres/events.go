package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// Record implements [fencepost.Store].
func (s *Store) Record(ctx context.Context, e fencepost.Event) error {
	return record(ctx, s.common, s.place, e)
}

// record writes an event that explains. What the server cannot store of a text is left out of it: the event matters more.
func record(ctx context.Context, via link, p place, e fencepost.Event) error {
	if err := fencepost.ValidateName(e.Lease); err != nil {
		return err
	}
	_, err := collect(ctx, via, p.text("record"), true, value[bool],
		e.Lease, storable(string(e.Kind)), e.Fence, storable(e.Holder), storable(e.Actor), storable(e.Reason))
	return err
}

// storable makes a text one that the server takes: valid UTF-8 without zero bytes.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// Events implements [fencepost.Store].
func (s *Store) Events(ctx context.Context, q fencepost.EventQuery) ([]fencepost.Event, error) {
	statement, args := "events", []any{q.After, limitOf(q.Limit)}
	if q.Lease != "" {
		statement, args = "events_of", append(args, q.Lease)
	}
	if q.Last {
		statement += "_last"
	}
	found, err := collect(ctx, s.common, s.place.text(statement), false, scanEvent, args...)
	if q.Last {
		slices.Reverse(found)
	}
	return found, err
}

func scanEvent(rows pgx.Rows) (e fencepost.Event, err error) {
	var at int64
	err = rows.Scan(&e.ID, &e.Lease, &e.Kind, &e.Fence, &e.Holder, &e.Actor, &e.Reason, &at)
	e.At = fromMicros(&at)
	return e, err
}
