package postgres_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// wire counts what the connections of a pool send: statements as the driver is given them, and round trips as the network sees them.
type wire struct {
	mu         sync.Mutex
	statements []string
	trips      int
}

// tap makes a pool's connections be counted, also those that a store opens beside it.
func (w *wire) tap(c *pgxpool.Config) {
	c.ConnConfig.Tracer = w
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &tappedConn{Conn: conn, wire: w}, nil
	}
}

func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statements, w.trips = nil, 0
}

// sent is what was sent since the last reset.
func (w *wire) sent() (statements, trips int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.statements), w.trips
}

// containing counts the statements with a text in them.
func (w *wire) containing(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.statements {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

func (w *wire) want(t testing.TB, what string, statements, trips int) {
	t.Helper()
	if s, n := w.sent(); s != statements || n != trips {
		t.Errorf("%s: %d statements in %d round trips, want %d in %d:\n%s", what, s, n, statements, trips, strings.Join(w.statements, "\n"))
	}
	w.reset()
}

func (w *wire) add(statement string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statements = append(w.statements, statement)
}

func (w *wire) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	w.add(d.SQL)
	return ctx
}
func (w *wire) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (w *wire) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (w *wire) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	w.add(d.SQL)
}
func (w *wire) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// tappedConn counts a round trip when something is sent after something was received.
type tappedConn struct {
	net.Conn
	wire *wire

	mu    sync.Mutex
	asked bool
}

func (c *tappedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked {
		c.asked = true
		c.wire.mu.Lock()
		c.wire.trips++
		c.wire.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *tappedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.mu.Lock()
		c.asked = false
		c.mu.Unlock()
	}
	return n, err
}
