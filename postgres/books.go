package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

var _ fencepost.RunStore = (*Store)(nil)

// sentence is one statement of a fenced write of this package's own.
type sentence struct {
	name string // of the file
	args []any
}

// write sends statements behind the guard, in one round trip and one transaction, and returns the rows of the last one. A refusal is not
// recorded yet: the caller may know better.
func write[T any](ctx context.Context, f fenced, t fencepost.Token, scan func(pgx.Rows) (T, error), statements ...sentence) (found []T, err error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	err = sqlstore.Retry(ctx, againWhole, func() error {
		return f.via.on(ctx, func(conn *pgx.Conn) error {
			var err error
			found, err = writeOn(ctx, conn, f, t, scan, statements)
			return err
		})
	})
	if err = judge(ctx, Refused(err), true); err != nil {
		return nil, err
	}
	return found, nil
}

func writeOn[T any](ctx context.Context, conn *pgx.Conn, f fenced, t fencepost.Token, scan func(pgx.Rows) (T, error), statements []sentence) ([]T, error) {
	if conn.Config().DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol && !f.via.unnamed.Load() {
		found, err := writeNamed(ctx, conn, f, t, scan, statements)
		if !f.via.mixedUp(err) {
			return found, err
		}
	}
	batch, err := f.texts(ctx, conn, t, statements)
	if err != nil {
		return nil, err
	}
	results := conn.PgConn().ExecBatch(ctx, batch)
	var found []T
	for n := 0; results.NextResult(); n++ {
		if n < len(statements) {
			results.ResultReader().Close() // the end of the batch has the error
			continue
		}
		rows := pgx.RowsFromResultReader(conn.TypeMap(), results.ResultReader())
		if found, err = scanAll(rows, scan); err != nil {
			break
		}
	}
	if closeErr := results.Close(); err == nil || closeErr != nil {
		err = closeErr
	}
	return found, err
}

func writeNamed[T any](ctx context.Context, conn *pgx.Conn, f fenced, t fencepost.Token, scan func(pgx.Rows) (T, error), statements []sentence) (found []T, err error) {
	batch := &pgx.Batch{}
	queueGuard(batch, f.place, t)
	for _, s := range statements {
		batch.Queue(f.place.text(s.name), s.args...)
	}
	results := conn.SendBatch(ctx, batch)
	for range statements { // the guard and all but the last
		if _, err = results.Exec(); err != nil {
			break
		}
	}
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			found, err = scanAll(rows, scan)
		}
	}
	return found, closeBatch(ctx, conn, results, err)
}

// texts is for the simple protocol, and for a pooler that mixes up prepared statements.
func (f fenced) texts(ctx context.Context, conn *pgx.Conn, t fencepost.Token, statements []sentence) (*pgconn.Batch, error) {
	batch := &pgconn.Batch{}
	guard := sentence{"guard_raising", []any{t.Name, t.Owner, t.Fence}}
	for _, s := range append([]sentence{guard}, statements...) {
		if err := queueText(ctx, conn, batch, f.place.text(s.name), s.args); err != nil {
			return nil, err
		}
	}
	return batch, nil
}
