package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

// lookEvery is how often the file's version is read while somebody waits. It costs a few microseconds and touches no page.
const lookEvery = 10 * time.Millisecond

// watchers are the waiters of a store. One goroutine looks for all of them, while there are any.
type watchers struct {
	mu     sync.Mutex
	byName map[string]map[chan struct{}]struct{}
	stop   context.CancelFunc
	done   chan struct{}
}

// Watch implements fencepost.Waker. SQLite has no messages between processes: the number that changes with every commit of
// another connection is polled, and only when it did are the watched leases looked at.
func (s *Store) Watch(_ context.Context, name string) (<-chan struct{}, func(), error) {
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
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

func (w *watchers) remove(name string, wake chan struct{}) {
	w.mu.Lock()
	delete(w.byName[name], wake)
	if len(w.byName[name]) == 0 {
		delete(w.byName, name)
	}
	last := len(w.byName) == 0
	w.mu.Unlock()
	if last {
		w.close()
	}
}

// close ends the goroutine, if there is one, and waits for its end.
func (w *watchers) close() {
	w.mu.Lock()
	stop, done := w.stop, w.done
	w.stop = nil
	w.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

// look polls on one connection: the number means something only in comparison with what the same connection read before.
func (s *Store) look(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var conn *sql.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	last := int64(-1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if conn == nil {
			var err error
			if conn, err = s.data.Conn(ctx); err != nil {
				conn = nil
				continue // waiters poll besides
			}
			last = -1
		}
		version := int64(-1)
		if err := conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
			conn.Close()
			conn = nil
			continue
		}
		if version != last {
			last = version
			s.wakeTakeable(ctx, conn)
		}
	}
}

// wakeTakeable wakes the waiters of those watched leases that can be taken: a wake-up for every commit in the file would make them
// all ask.
func (s *Store) wakeTakeable(ctx context.Context, conn *sql.Conn) {
	s.watch.mu.Lock()
	names, err := json.Marshal(slices.Collect(maps.Keys(s.watch.byName)))
	s.watch.mu.Unlock()
	if err != nil {
		return
	}
	eachRow(ctx, conn, s.queries.text("awaited"), []any{string(names)}, func(rows *sql.Rows) error {
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
