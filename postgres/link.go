package postgres

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/sqlstore"
)

// link is where statements go.
type link struct {
	// on runs an operation on a connection. Its own errors are those of an operation that was not begun.
	on func(ctx context.Context, op func(*pgx.Conn) error) error
	*habits
}

// habits are what must be known of a pool's connections.
type habits struct {
	// unnamed is set once a pooler was met that mixes up prepared statements: from then on none are used.
	unnamed atomic.Bool
}

var habitsByPool sync.Map // weak.Pointer[pgxpool.Pool] -> *habits

func habitsOf(pool *pgxpool.Pool) *habits {
	key := weak.Make(pool)
	if known, ok := habitsByPool.Load(key); ok {
		return known.(*habits)
	}
	h := &habits{}
	known, seen := habitsByPool.LoadOrStore(key, h)
	if !seen {
		runtime.AddCleanup(pool, func(key weak.Pointer[pgxpool.Pool]) { habitsByPool.Delete(key) }, key)
	}
	return known.(*habits)
}

// mixedUp reports, and remembers of a pooler, that a statement is to be sent again without a name.
func (h *habits) mixedUp(err error) bool {
	mixed, pooler := mixedUp(err)
	if pooler {
		h.unnamed.Store(true)
	}
	return mixed
}

// pooled takes any connection of a pool.
func pooled(pool *pgxpool.Pool) link {
	return link{habits: habitsOf(pool), on: func(ctx context.Context, op func(*pgx.Conn) error) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return unavailable(ctx, err)
		}
		defer conn.Release()
		if conn.Conn().IsClosed() {
			return unavailable(ctx, errClosed)
		}
		return op(conn.Conn())
	}}
}

// collect runs a statement of this package and scans its rows, and tries again what the server asks to be tried again. writes says
// whether the statement could have changed something.
func collect[T any](ctx context.Context, via link, text string, writes bool, scan func(pgx.Rows) (T, error), args ...any) (found []T, err error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	err = sqlstore.Retry(ctx, again, func() error {
		return via.on(ctx, func(conn *pgx.Conn) error {
			var err error
			found, err = collectOn(ctx, conn, via.habits, text, scan, args)
			return err
		})
	})
	return found, judge(ctx, err, writes)
}

func collectOn[T any](ctx context.Context, conn querier, h *habits, text string, scan func(pgx.Rows) (T, error), args []any) ([]T, error) {
	if !h.unnamed.Load() {
		found, err := query(ctx, conn, text, scan, args)
		if !h.mixedUp(err) {
			return found, err
		}
	}
	return query(ctx, conn, text, scan, withoutName(args))
}

// withoutName are arguments that make the driver send the text itself, whatever the pool's default is.
func withoutName(args []any) []any { return append([]any{pgx.QueryExecModeExec}, args...) }

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// query reads all rows: only after the last one the server says that it has committed.
func query[T any](ctx context.Context, conn querier, text string, scan func(pgx.Rows) (T, error), args []any) ([]T, error) {
	rows, err := conn.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return scanAll(rows, scan)
}

func scanAll[T any](rows pgx.Rows, scan func(pgx.Rows) (T, error)) ([]T, error) {
	defer rows.Close()
	var found []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// value scans a row of one column.
func value[T any](rows pgx.Rows) (v T, err error) {
	err = rows.Scan(&v)
	return v, err
}
