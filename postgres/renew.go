package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
)

// Renew implements fencepost.Store, in one statement on a connection of its own. Rows that another transaction has locked are
// answered as busy and hold up nothing.
func (s *Store) Renew(ctx context.Context, tokens []fencepost.Token) (out []fencepost.Renewal, err error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	names, owners, fences := make([]string, len(tokens)), make([]string, len(tokens)), make([]int64, len(tokens))
	for i, t := range tokens {
		names[i], owners[i], fences[i] = t.Name, t.Owner, t.Fence
	}
	err = s.retry(ctx, true, func() error {
		out = make([]fencepost.Renewal, len(tokens))
		return s.renewals.use(ctx, func(conn *pgx.Conn) error {
			return s.each(ctx, conn, "renew", []any{names, owners, fences}, func(rows pgx.Rows) error {
				var position int64
				var renewed, until *time.Time
				var remaining *int64
				var info fencepost.LeaseInfo
				if err := rows.Scan(&position, &renewed, &info.Owner, &info.Fence, &info.Holder, &until, &remaining); err != nil {
					return err
				}
				r, t := &out[position-1], tokens[position-1]
				if renewed != nil {
					r.LeasedUntil = utc(renewed)
					return nil
				}
				setTimes(&info, 0, until, remaining)
				if r.Err = t.Refusal(info, info.Fence > 0); r.Err == nil {
					r.Err = fencepost.ErrBusy
				}
				return nil
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// renewalLink is the connection of the renewals: a job that holds every connection of the pool must not keep them from being sent.
// It is opened at the first renewal, one renewal at a time uses it, and it is replaced when it broke.
type renewalLink struct {
	config func() *pgxpool.Config
	turn   turn
	conn   *pgx.Conn
}

// use hands the connection to op. A connection that was lost while it was idle is replaced before anything is sent over the new one.
func (l *renewalLink) use(ctx context.Context, op func(*pgx.Conn) error) error {
	if err := l.turn.take(ctx); err != nil {
		return err
	}
	defer l.turn.give()
	for again := true; ; again = false {
		fresh := l.conn == nil
		if fresh {
			conn, err := connect(ctx, l.config(), "renewals")
			if err != nil {
				return err
			}
			l.conn = conn
		}
		err := op(l.conn)
		if !l.conn.IsClosed() {
			return err
		}
		l.conn = nil
		if fresh || !again || err == nil || ctx.Err() != nil {
			return err
		}
		// A renewal may be sent twice: what it asks for is the same.
	}
}

func (l *renewalLink) close() {
	if l.turn.take(context.Background()) != nil {
		return
	}
	defer l.turn.give()
	if l.conn != nil {
		closeConn(l.conn)
		l.conn = nil
	}
}

// connect opens a connection beside the pool, with all that the pool does to its own.
func connect(ctx context.Context, config *pgxpool.Config, purpose string) (*pgx.Conn, error) {
	c := config.ConnConfig.Copy()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, c); err != nil {
			return nil, err
		}
	}
	if name := c.RuntimeParams["application_name"]; name == "" {
		c.RuntimeParams["application_name"] = "fencepost " + purpose
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if config.AfterConnect != nil {
		if err := config.AfterConnect(ctx, conn); err != nil {
			closeConn(conn)
			return nil, err
		}
	}
	return conn, nil
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}

// turn is a mutex whose wait ends with a context.
type turn struct {
	once sync.Once
	free chan struct{}
}

func (t *turn) take(ctx context.Context) error {
	t.once.Do(func() { t.free = make(chan struct{}, 1) })
	select {
	case t.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: the renewals before have not ended: %w", fencepost.ErrUnavailable, ctx.Err())
	}
}

func (t *turn) give() { <-t.free }
