package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// beatIdle is how long the connection of the renewals outlives the last of them.
const beatIdle = time.Minute

// beat is the connection of the renewals: a job that holds every connection of the pool must not keep its own lease from being
// renewed. One renewal at a time uses it.
type beat struct {
	link
	pool   *pgxpool.Pool
	common link // for when the server gives no further connection

	turn   chan struct{} // holds one value: who takes it may use what follows
	conn   *pgx.Conn
	idle   *time.Timer
	closed bool
}

func newBeat(pool *pgxpool.Pool) *beat {
	b := &beat{pool: pool, common: pooled(pool), turn: make(chan struct{}, 1)}
	b.link = link{on: b.use, habits: b.common.habits}
	b.turn <- struct{}{}
	return b
}

// use hands the connection to op. One that was lost since the last beat is replaced before anything is sent, and one that turns
// out lost is replaced once: what a renewal asks for may be asked for twice.
func (b *beat) use(ctx context.Context, op func(*pgx.Conn) error) error {
	select {
	case <-b.turn:
	case <-ctx.Done():
		return ended(ctx)
	}
	defer func() { b.turn <- struct{}{} }()
	if b.closed {
		return b.common.on(ctx, op)
	}
	if b.conn != nil && b.conn.PgConn().CheckConn() != nil {
		b.hangUp()
	}
	for {
		old := b.conn != nil
		if !old {
			conn, err := connect(ctx, b.pool.Config(), "renewals")
			if err != nil {
				if ctx.Err() != nil {
					return unavailable(ctx, err)
				}
				// Out of connections, perhaps. The pool may still have one.
				return b.common.on(ctx, op)
			}
			b.conn = conn
		}
		b.restLater()
		err := op(b.conn)
		if !b.conn.IsClosed() {
			return err
		}
		b.conn = nil
		if err == nil || !old || ctx.Err() != nil {
			return err
		}
	}
}

// restLater is called by who has the turn.
func (b *beat) restLater() {
	if b.idle == nil {
		b.idle = time.AfterFunc(beatIdle, b.rest)
	} else {
		b.idle.Reset(beatIdle)
	}
}

// rest closes the connection when nothing was renewed for long.
func (b *beat) rest() {
	select {
	case <-b.turn:
		b.hangUp()
		b.turn <- struct{}{}
	default: // a renewal is on its way, and has set the timer anew
	}
}

func (b *beat) hangUp() {
	if b.conn != nil {
		closeConn(b.conn)
		b.conn = nil
	}
}

// close ends the connection, once a renewal on its way has ended. Later renewals use the pool.
func (b *beat) close() {
	<-b.turn
	b.closed = true
	b.hangUp()
	if b.idle != nil {
		b.idle.Stop()
	}
	b.turn <- struct{}{}
}
