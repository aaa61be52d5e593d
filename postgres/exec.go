package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Exec runs one statement as a fenced write, in one round trip, for tables with the default names, and returns the rows affected. It
// commits only while the token is the newest of its name and its lease live; otherwise it returns a *[fencepost.StaleError], writes nothing,
// and records the refusal as an event. The statement may run more than once, but commits at most once; an outcome that is not
// known is [fencepost.ErrUnknown]. Errors of the statement itself are returned as they are.
//
// The statement is an INSERT, UPDATE, DELETE, MERGE, WITH or SELECT. Others are refused, because they could end the transaction that
// fences them (COMMIT, CALL, DO) or run outside of any; use [Tx] for the rest. Several statements in one text are refused by the server.
func Exec(ctx context.Context, pool *pgxpool.Pool, t fencepost.Token, statement string, args ...any) (rowsAffected int64, err error) {
	return fenced{pooled(pool), defaultPlace()}.exec(ctx, t, statement, args)
}

// Exec is [Exec] for the pool and the tables of this store.
func (s *Store) Exec(ctx context.Context, t fencepost.Token, statement string, args ...any) (rowsAffected int64, err error) {
	return fenced{s.common, s.place}.exec(ctx, t, statement, args)
}

func (f fenced) exec(ctx context.Context, t fencepost.Token, statement string, args []any) (n int64, err error) {
	ctx, done := fencepost.WriteBegins(ctx, "exec", t)
	defer func() { done(err) }()
	if err := t.Validate(); err != nil {
		return 0, err
	}
	if err := validateStatement(statement); err != nil {
		return 0, err
	}
	if err := ended(ctx); err != nil {
		return 0, err
	}
	err = sqlstore.Retry(ctx, againWhole, func() error {
		return f.via.on(ctx, func(conn *pgx.Conn) error {
			var err error
			n, err = f.execOn(ctx, conn, t, statement, args)
			return err
		})
	})
	if err = f.verdict(ctx, err); err != nil {
		n = 0
	}
	f.note(ctx, t, err)
	return n, err
}

func (f fenced) execOn(ctx context.Context, conn *pgx.Conn, t fencepost.Token, statement string, args []any) (int64, error) {
	// The simple protocol would send both as one text, in which the caller's could be several statements. The connection is asked and
	// not the pool, because a hook of the pool's may have changed it.
	if conn.Config().DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol && !f.via.unnamed.Load() {
		n, err := f.execNamed(ctx, conn, t, statement, args)
		if !f.via.mixedUp(err) {
			return n, err
		}
	}
	return f.execUnnamed(ctx, conn, t, statement, args)
}

// execNamed sends the guard and the statement together, without BEGIN: the server makes them one transaction. The guard goes first, so
// that locks are taken in the order of every other fenced write, lease before data.
func (f fenced) execNamed(ctx context.Context, conn *pgx.Conn, t fencepost.Token, statement string, args []any) (int64, error) {
	batch := &pgx.Batch{}
	batch.Queue(f.place.text("guard_raising"), t.Name, t.Owner, t.Fence)
	batch.Queue(statement, args...)
	results := conn.SendBatch(ctx, batch)
	_, err := results.Exec()
	var tag pgconn.CommandTag
	if err == nil {
		tag, err = results.Exec()
	}
	return tag.RowsAffected(), closeBatch(ctx, conn, results, err)
}

// closeBatch returns the error of a batch: only its end says that it was committed.
func closeBatch(ctx context.Context, conn *pgx.Conn, results pgx.BatchResults, err error) error {
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	_, preparing := errors.AsType[pgx.ErrPreprocessingBatch](err)
	// After trouble with the link the driver closes the connection: on one that is open, the error was its own.
	if err != nil && (preparing || !conn.IsClosed()) {
		err = notBegun(ctx, conn, err)
	}
	return err
}

// execUnnamed is the same with texts instead of prepared statements.
func (f fenced) execUnnamed(ctx context.Context, conn *pgx.Conn, t fencepost.Token, statement string, args []any) (int64, error) {
	batch := &pgconn.Batch{}
	if len(args) > 0 {
		if rewriter, ok := args[0].(pgx.QueryRewriter); ok {
			var err error
			if statement, args, err = rewriter.RewriteQuery(ctx, conn, statement, args[1:]); err != nil {
				return 0, notBegun(ctx, conn, err)
			}
		}
	}
	for _, one := range []struct {
		text string
		args []any
	}{{f.place.text("guard_raising"), []any{t.Name, t.Owner, t.Fence}}, {statement, args}} {
		if err := queueText(ctx, conn, batch, one.text, one.args); err != nil {
			return 0, err
		}
	}
	results := conn.PgConn().ExecBatch(ctx, batch)
	var tag pgconn.CommandTag
	for results.NextResult() {
		tag, _ = results.ResultReader().Close() // Close below has the error
	}
	return tag.RowsAffected(), results.Close()
}

func queueText(ctx context.Context, conn *pgx.Conn, batch *pgconn.Batch, text string, args []any) error {
	var built pgx.ExtendedQueryBuilder
	if err := built.Build(conn.TypeMap(), nil, args); err != nil {
		return notBegun(ctx, conn, err)
	}
	batch.ExecParams(text, built.ParamValues, nil, built.ParamFormats, built.ResultFormats)
	return nil
}

// notBegun is for an error before anything was executed: the arguments do not fit, or the link was lost while preparing. What the server
// said of the statement is left as it is.
func notBegun(ctx context.Context, conn *pgx.Conn, err error) error {
	if _, ok := serverError(err); ok {
		return err
	}
	if conn.IsClosed() || ctx.Err() != nil {
		return unavailable(ctx, err)
	}
	return fmt.Errorf("%w: %w", fencepost.ErrInvalid, err)
}

// verdict tells the fence's errors from those of the caller's statement.
func (f fenced) verdict(ctx context.Context, err error) error {
	err = Refused(err)
	e, fromServer := serverError(err)
	if !fromServer || fatal(e) || againWhole(err) {
		return judge(ctx, err, true)
	}
	switch e.Code {
	case codeReadOnly: // the guard comes first, and locks
		return unavailable(ctx, err)
	case codeNoFunction, codeSchemaMissing, codeNoTable, codePrivilege:
		for _, ours := range []string{"guard", "leases"} {
			if strings.Contains(e.Message, f.place.names.Prefix+ours) {
				return unavailable(ctx, err)
			}
		}
	}
	return err
}
