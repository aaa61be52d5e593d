package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// The pause before the listening connection is opened again grows between these.
	shortestListenPause = 100 * time.Millisecond
	longestListenPause  = 10 * time.Second
	// listenProbe is how often a silent listening connection is asked whether it still lives: one that a firewall forgot would stay
	// silent for ever.
	listenProbe = 30 * time.Second
	// listenLinger is how long the connection outlives the last waiter: waiters of short jobs come and go.
	listenLinger = time.Second
)

// listener is the one connection that listens for releases, while there are waiters.
type listener struct {
	pool    *pgxpool.Pool
	channel string

	mu     sync.Mutex
	byName map[string]map[chan struct{}]struct{}
	round  *listening // nil when there is none
	closed bool

	running sync.WaitGroup // also rounds that have been ended and are closing their connection
}

// listening is one life of the goroutine that listens.
type listening struct {
	cancel context.CancelFunc
	linger *time.Timer // set when the last waiter left
}

func newListener(pool *pgxpool.Pool, channel string) *listener {
	return &listener{pool: pool, channel: channel, byName: map[string]map[chan struct{}]struct{}{}}
}

// Watch implements [fencepost.Waker] by LISTEN, on one connection for all waiters of the store, which is opened with the first of them and opened
// again when it breaks. Behind a transaction-mode pooler nothing arrives, and waiters poll. After [Store.Close] nothing arrives either.
func (s *Store) Watch(_ context.Context, name string) (wake <-chan struct{}, stop func(), err error) {
	l := s.listener
	ch := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName[name] == nil {
		l.byName[name] = map[chan struct{}]struct{}{}
	}
	l.byName[name][ch] = struct{}{}
	switch {
	case l.closed:
	case l.round == nil:
		ctx, cancel := context.WithCancel(context.Background())
		l.round = &listening{cancel: cancel}
		l.running.Go(func() { l.run(ctx) })
	case l.round.linger != nil:
		l.round.linger.Stop()
		l.round.linger = nil
	}
	return ch, sync.OnceFunc(func() { l.remove(name, ch) }), nil
}

func (l *listener) remove(name string, ch chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byName[name], ch)
	if len(l.byName[name]) == 0 {
		delete(l.byName, name)
	}
	if round := l.round; len(l.byName) == 0 && round != nil {
		round.linger = time.AfterFunc(listenLinger, func() { l.end(round) })
	}
}

// end stops a round unless a waiter has come meanwhile.
func (l *listener) end(round *listening) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round == round && len(l.byName) == 0 {
		// Under the mutex: a waiter that comes now starts a round of its own.
		l.round = nil
		round.cancel()
	}
}

func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	round := l.round
	l.round = nil
	l.mu.Unlock()
	if round != nil {
		round.cancel()
	}
	l.running.Wait()
}

func (l *listener) run(ctx context.Context) {
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

// listen hands on notifications until the connection breaks or ctx ends. It reports whether it listened at all.
func (l *listener) listen(ctx context.Context) bool {
	conn, err := connect(ctx, l.pool.Config(), "waiters")
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
		waiting, cancel := context.WithTimeout(ctx, listenProbe)
		n, err := conn.WaitForNotification(waiting)
		silent := waiting.Err() != nil
		cancel()
		switch {
		case err == nil:
			l.wake(n.Payload)
		case ctx.Err() != nil || !silent:
			return true
		default:
			probing, cancel := context.WithTimeout(ctx, listenProbe)
			err := conn.Ping(probing)
			cancel()
			if err != nil {
				return true
			}
		}
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
