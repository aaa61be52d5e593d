package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The pause before the listening connection is opened again grows between these.
const (
	shortestListenPause = 100 * time.Millisecond
	longestListenPause  = 10 * time.Second
)

// listener is the one connection that listens for releases, while there are waiters.
type listener struct {
	config  func() *pgxpool.Config
	channel string

	mu     sync.Mutex
	byName map[string]map[chan struct{}]struct{}
	stop   context.CancelFunc
	done   chan struct{}
}

// Watch implements fencepost.Waker by LISTEN, on one connection for all waiters of the store. Behind a transaction-mode pooler nothing arrives, and
// waiters poll.
func (s *Store) Watch(_ context.Context, name string) (<-chan struct{}, func(), error) {
	l := &s.listener
	wake := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]map[chan struct{}]struct{}{}
	}
	if l.byName[name] == nil {
		l.byName[name] = map[chan struct{}]struct{}{}
	}
	l.byName[name][wake] = struct{}{}
	if l.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		l.stop, l.done = cancel, make(chan struct{})
		go l.run(ctx, l.done)
	}
	return wake, sync.OnceFunc(func() { l.remove(name, wake) }), nil
}

func (l *listener) remove(name string, wake chan struct{}) {
	l.mu.Lock()
	delete(l.byName[name], wake)
	if len(l.byName[name]) == 0 {
		delete(l.byName, name)
	}
	var stop context.CancelFunc
	var done chan struct{}
	if len(l.byName) == 0 {
		// Taken under the mutex: a waiter that comes now starts a listener of its own.
		stop, done, l.stop = l.stop, l.done, nil
	}
	l.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

func (l *listener) close() {
	l.mu.Lock()
	stop, done := l.stop, l.done
	l.stop = nil
	l.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

func (l *listener) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	pause := shortestListenPause
	for ctx.Err() == nil {
		if l.listen(ctx) {
			pause = shortestListenPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, longestListenPause)
	}
}

// listen hands on notifications until the connection breaks or ctx ends. It reports whether it was connected at all.
func (l *listener) listen(ctx context.Context) bool {
	conn, err := connect(ctx, l.config(), "waiters")
	if err != nil {
		return false
	}
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel}.Sanitize()); err != nil {
		return false
	}
	// A release between the waiters' last tries and LISTEN was not heard: let everybody try once.
	l.wakeAll()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		l.wake(n.Payload)
	}
}

func (l *listener) wake(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.byName[name] {
		nudge(ch)
	}
}

func (l *listener) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, waiters := range l.byName {
		for ch := range waiters {
			nudge(ch)
		}
	}
}

func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // one wake-up is waiting already
	}
}
