package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/fencepost/fencepost/internal/sqlstore"
)

// link runs an operation on a connection that it chooses.
type link func(ctx context.Context, op func(*sql.Conn) error) error

// deadConnections is how many connections of a pool may turn out dead, each without having sent anything, before the
// database counts as unavailable: after a restart of the server all idle ones are.
const deadConnections = 20

// pooled takes any connection of the pool, and another one when the driver says that nothing was sent on the first.
// database/sql would do that too, but then it would not be known any more whether an error came before or after sending.
func pooled(db *sql.DB) link {
	return func(ctx context.Context, op func(*sql.Conn) error) error {
		for dead := 0; ; dead++ {
			if err := ended(ctx); err != nil {
				return err
			}
			conn, err := db.Conn(ctx)
			if err != nil {
				return unavailable(err)
			}
			err = op(conn)
			conn.Close()
			if !errors.Is(err, driver.ErrBadConn) || dead == deadConnections {
				return err
			}
		}
	}
}

// write runs a statement that changes leases or events, and tries again what the server asks to be tried again.
func (via link) write(ctx context.Context, statement string) (affected int64, err error) {
	err = sqlstore.Retry(ctx, again, func() error {
		return via(ctx, func(conn *sql.Conn) error {
			result, err := conn.ExecContext(ctx, statement)
			if err != nil {
				return err
			}
			affected, err = result.RowsAffected()
			return err
		})
	})
	return affected, judge(err, true)
}

// read runs a query and scans its rows.
func read[T any](ctx context.Context, via link, query string, scan func(*sql.Rows) (T, error)) (found []T, err error) {
	err = sqlstore.Retry(ctx, again, func() error {
		return via(ctx, func(conn *sql.Conn) error {
			rows, err := conn.QueryContext(ctx, query)
			if err == nil {
				found, err = scanAll(rows, scan)
			}
			return err
		})
	})
	return found, judge(err, false)
}

// changeAndRead runs a statement that changes leases, and in the same packet, if the pool lets several statements travel in
// one, the query that reads them back; else the query follows by itself. What the query finds tells what the statement did,
// so that a try whose outcome was not heard can be made again.
func changeAndRead[T any](ctx context.Context, via link, p *packets, statement, query string, scan func(*sql.Rows) (T, error)) (found []T, err error) {
	err = sqlstore.Retry(ctx, again, func() error {
		return via(ctx, func(conn *sql.Conn) error {
			if !p.no.Load() {
				rows, err := conn.QueryContext(ctx, statement+";\n"+query)
				if serverCode(err) != codeSyntax {
					if err == nil {
						found, err = scanAll(rows, scan)
					}
					return judgePacket(err)
				}
				p.no.Store(true)
			}
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
			rows, err := conn.QueryContext(ctx, query)
			if err == nil {
				found, err = scanAll(rows, scan)
			}
			if err != nil && !again(err) {
				return unknown(err)
			}
			return err
		})
	})
	return found, judge(err, true)
}

// judgePacket is for a packet of several statements, where an error can come from the second one when the first has been applied: from
// one that interrupts whatever is running, nothing is known of the first.
func judgePacket(err error) error {
	switch serverCode(err) {
	case codeShutdown, codeInterrupted, codeKilledMariaDB, codeStatementTimeMariaDB, codeStatementTime:
		return unknown(err)
	}
	return err
}

func scanAll[T any](rows *sql.Rows, scan func(*sql.Rows) (T, error)) ([]T, error) {
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

// discard keeps a connection from going back to its pool.
func discard(conn *sql.Conn) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
}
