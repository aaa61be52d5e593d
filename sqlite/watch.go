package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost"
)

// lookEvery is how often the file's version is read while somebody waits. It costs a few microseconds and touches no page.
const lookEvery = 10 * time.Millisecond

// watchers are the waiters of a store. One goroutine looks for all of them, while there are any.
type watchers struct {
	mu     sync.Mutex
	byName map[string]map[chan struct{}]struct{}
	stop   context.CancelFunc
	done   chan struct{}
	closed bool
}

// Watch implements fencepost.Waker. SQLite has no messages between processes: the number that changes with every commit of
// another connection is polled, and only when it did are the watched leases looked at. On a caller's pool the leases are looked
// at each time: a connection that keeps comparing its number would be missing there, and be all there is in a pool of one.
func (s *Store) Watch(_ context.Context, name string) (<-chan struct{}, func(), error) {
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, nil, fmt.Errorf("%w: the store is closed", fencepost.ErrUnavailable)
	}
	wake := make(chan struct{}, 1)
	if w.byName == nil {
		w.byName = map[string]map[chan struct{}]struct{}{}
	}
	if w.byName[name] == nil {
		w.byName[name] = map[chan struct{}]struct{}{}
	}
	w.byName[name][wake] = struct{}{}
	if w.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		w.stop, w.done = cancel, make(chan struct{})
		go s.look(ctx, w.done)
	}
	return wake, sync.OnceFunc(func() { w.remove(name, wake) }), nil
}

// remove ends the goroutine with the last waiter and waits for its end.
func (w *watchers) remove(name string, wake chan struct{}) {
	w.mu.Lock()
	delete(w.byName[name], wake)
	if len(w.byName[name]) == 0 {
		delete(w.byName, name)
	}
	end := func() {}
	if len(w.byName) == 0 {
		end = w.takeEnd() // under the mutex: a waiter that comes now starts a goroutine of its own
	}
	w.mu.Unlock()
	end()
}

// close ends the goroutine, if there is one, for good.
func (w *watchers) close() {
	w.mu.Lock()
	w.closed = true
	end := w.takeEnd()
	w.mu.Unlock()
	end()
}

// takeEnd returns what ends the goroutine that runs now. The mutex must be held, and not be held when the end is awaited.
func (w *watchers) takeEnd() func() {
	stop, done := w.stop, w.done
	w.stop = nil
	if stop == nil {
		return func() {}
	}
	return func() {
		stop()
		<-done
	}
}

// look polls until ctx ends.
func (s *Store) look(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var version changes
	defer version.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch {
		case s.reading == nil:
			s.wakeTakeable(ctx, s.leases)
		case version.changed(ctx, s.reading):
			s.wakeTakeable(ctx, version.conn)
		}
	}
}

// changes notices the commits of others on one connection: its number means something only in comparison with what the same
// connection read before.
type changes struct {
	conn *sql.Conn
	last int64
}

func (c *changes) changed(ctx context.Context, db *sql.DB) bool {
	if c.conn == nil {
		conn, err := db.Conn(ctx)
		if err != nil {
			return false // waiters poll besides
		}
		c.conn, c.last = conn, -1
	}
	var version int64
	if err := c.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		c.close()
		return false
	}
	changed := version != c.last
	c.last = version
	return changed
}

func (c *changes) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// wakeTakeable wakes the waiters of those watched leases that can be taken: a wake-up for every commit in the file would make them
// all ask.
func (s *Store) wakeTakeable(ctx context.Context, db rowsSource) {
	s.watch.mu.Lock()
	names, err := json.Marshal(slices.Collect(maps.Keys(s.watch.byName)))
	s.watch.mu.Unlock()
	if err != nil {
		return
	}
	eachRow(ctx, db, s.queries.text("awaited"), []any{string(names)}, func(rows *sql.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		s.watch.mu.Lock()
		defer s.watch.mu.Unlock()
		for wake := range s.watch.byName[name] {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		return nil
	})
}
