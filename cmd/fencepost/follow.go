package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/fencepost/fencepost"
)

const (
	followPoll = 300 * time.Millisecond
	followPage = 500
	// followGrace is how long after an event others with smaller ids are still looked for: ids are given out in the order in which
	// transactions ask for them, not in the order in which they commit.
	followGrace = 30 * time.Second
)

// follower remembers what it has shown.
type follower struct {
	query fencepost.EventQuery
	seen  map[int64]time.Time // when each event after query.After was seen
}

// fresh returns the events of an answer that were not shown before.
func (f *follower) fresh(events []fencepost.Event, now time.Time) (fresh []fencepost.Event) {
	for _, e := range events {
		if _, known := f.seen[e.ID]; !known {
			f.seen[e.ID] = now
			fresh = append(fresh, e)
		}
	}
	return fresh
}

// forget moves the start of the next query up to what has been there for the grace time.
func (f *follower) forget(now time.Time) {
	for id, since := range f.seen {
		if now.Sub(since) >= followGrace {
			f.query.After = max(f.query.After, id)
		}
	}
	for id := range f.seen {
		if id <= f.query.After {
			delete(f.seen, id)
		}
	}
}

// read asks for everything after the start, page by page.
func (f *follower) read(ctx context.Context, client *fencepost.Client) (all []fencepost.Event, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	page := f.query
	for {
		events, err := client.Events(ctx, page)
		if err != nil {
			return nil, err
		}
		all = append(all, events...)
		if len(events) < page.Limit {
			return all, nil
		}
		page.After = events[len(events)-1].ID
	}
}

// followEvents shows events until the process is interrupted or ctx ends. A database that goes away is waited for.
func (a *app) followEvents(ctx context.Context, client *fencepost.Client, q fencepost.EventQuery) error {
	events, err := client.Events(ctx, q)
	if err != nil {
		return err
	}
	f := follower{query: fencepost.EventQuery{Lease: q.Lease, After: q.After, Limit: followPage}, seen: map[int64]time.Time{}}
	if q.Last && len(events) > 0 {
		f.query.After = events[0].ID - 1
	}
	tick := time.NewTicker(followPoll)
	defer tick.Stop()
	failing := false
	for {
		for _, e := range f.fresh(events, time.Now()) {
			if err := a.showFollowed(e); err != nil {
				return err
			}
		}
		f.forget(time.Now())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		events, err = f.read(ctx, client)
		switch {
		case errors.Is(err, fencepost.ErrUnavailable), errors.Is(err, fencepost.ErrUnknown):
			if !failing {
				a.log.Warn("events cannot be read, trying again", "error", err)
			}
		case err != nil:
			return err
		}
		failing = err != nil
	}
}

func (a *app) showFollowed(e fencepost.Event) error {
	if a.out.json {
		return a.out.value(happeningOf(e))
	}
	return a.out.print(nil, func(w io.Writer) { eventLine(w, e) })
}
