package mysql

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// pinnedIdle is how long the connection that is kept for renewals outlives the last renewal.
const pinnedIdle = 10 * time.Minute

// beat is where renewals go: a pool of their own if there is one, else one connection of the common pool, kept from the first
// renewal on. A job that uses up a bounded pool must not keep its own lease from being renewed.
type beat struct {
	common  *sql.DB
	own     *sql.DB // nil: pin one of common
	packets *packets

	turn   chan struct{} // holds one value: who takes it may use what follows
	conn   *sql.Conn
	closed bool

	mu   sync.Mutex
	idle *time.Timer
}

func newBeat(common, own *sql.DB) *beat {
	b := &beat{common: common, own: own, turn: make(chan struct{}, 1)}
	b.packets = packetsOf(common)
	if own != nil {
		b.packets = packetsOf(own)
	}
	b.turn <- struct{}{}
	return b
}

// via is the link for renewals.
func (b *beat) via(ctx context.Context, op func(*sql.Conn) error) error {
	if b.own != nil {
		return pooled(b.own)(ctx, op)
	}
	// An unbounded pool cannot be used up, and of one connection none can be spared.
	if b.common.Stats().MaxOpenConnections < 2 {
		return pooled(b.common)(ctx, op)
	}
	select {
	case <-b.turn:
	case <-ctx.Done():
		return ended(ctx)
	}
	defer func() { b.turn <- struct{}{} }()
	if b.closed {
		return pooled(b.common)(ctx, op)
	}
	if b.conn == nil {
		conn, err := b.common.Conn(ctx)
		if err != nil {
			return unavailable(err)
		}
		b.conn = conn
	}
	b.restLater()
	err := op(b.conn)
	if err != nil && serverCode(err) == 0 {
		b.unpin() // the next try gets a new one
	}
	return err
}

func (b *beat) restLater() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.idle == nil {
		b.idle = time.AfterFunc(pinnedIdle, b.rest)
	} else {
		b.idle.Reset(pinnedIdle)
	}
}

// rest gives the connection back when nothing was renewed for long.
func (b *beat) rest() {
	select {
	case <-b.turn:
		b.unpin()
		b.turn <- struct{}{}
	default: // a renewal is on its way, and has set the timer anew
	}
}

// unpin is called by who has the turn.
func (b *beat) unpin() {
	if b.conn != nil {
		b.conn.Close()
		b.conn = nil
	}
}

// close gives the connection back, once a renewal on its way has ended. Later renewals use the common pool.
func (b *beat) close() {
	<-b.turn
	b.closed = true
	b.unpin()
	b.mu.Lock()
	if b.idle != nil {
		b.idle.Stop()
	}
	b.mu.Unlock()
	b.turn <- struct{}{}
}
