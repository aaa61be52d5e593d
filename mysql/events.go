package mysql

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/fencepost/fencepost"
)

// longestReason is what the column keeps, in bytes, so that it fits whatever the characters are.
const longestReason = 1000

// Record implements [fencepost.Store].
func (s *Store) Record(ctx context.Context, e fencepost.Event) error {
	return record(ctx, s.common, s.texts, e)
}

func record(ctx context.Context, via link, texts statements, e fencepost.Event) error {
	if err := fencepost.ValidateName(e.Lease); err != nil {
		return err
	}
	_, err := via.write(ctx, texts.with("record", values{
		"name": bytesLiteral(e.Lease), "kind": bytesLiteral(string(e.Kind)), "fence": intLiteral(e.Fence), "holder": bytesLiteral(e.Holder),
		"actor": bytesLiteral(e.Actor), "reason": bytesLiteral(cut(e.Reason, longestReason)),
	}))
	return err
}

// cut shortens a text to a number of bytes and makes it valid UTF-8.
func cut(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// Events implements [fencepost.Store].
func (s *Store) Events(ctx context.Context, q fencepost.EventQuery) ([]fencepost.Event, error) {
	statement, v := "events", values{"after": intLiteral(q.After), "limit": limitLiteral(q.Limit)}
	if q.Lease != "" {
		statement, v["name"] = "events_of", bytesLiteral(q.Lease)
	}
	if q.Last {
		statement += "_last"
	}
	found, err := read(ctx, s.common, s.texts.with(statement, v), scanEvent)
	if q.Last {
		slices.Reverse(found)
	}
	return found, err
}

func scanEvent(rows *sql.Rows) (e fencepost.Event, err error) {
	var at sql.NullInt64
	err = rows.Scan(&e.ID, &e.Lease, &e.Kind, &e.Fence, &e.Holder, &e.Actor, &e.Reason, &at)
	e.At = fromMicros(at)
	return e, err
}
