package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost"
)

// The server's error codes that this package acts on.
const (
	codeProtocol         = "08P01"
	codeFeature          = "0A000"
	codeReadOnly         = "25006"
	codeIdleTransaction  = "25P03"
	codeNoStatement      = "26000"
	codeDatabaseMissing  = "3D000"
	codeSchemaMissing    = "3F000"
	codeSerialization    = "40001"
	codeDeadlock         = "40P01"
	codePrivilege        = "42501"
	codeNoColumn         = "42703"
	codeNoFunction       = "42883"
	codeStatementExists  = "42P05"
	codeNoTable          = "42P01"
	codeConnections      = "53300"
	codeLockNotAvailable = "55P03"
	codeStarting         = "57P03"
	codeIdleSession      = "57P05"
	codeStale            = "LF001" // our own: raised by the guard
)

func serverError(err error) (*pgconn.PgError, bool) { return errors.AsType[*pgconn.PgError](err) }

func serverCode(err error) string {
	if e, ok := serverError(err); ok {
		return e.Code
	}
	return ""
}

// fatal reports an error that ended the session. A pooler sends one, with any code, when it lost the server in the middle of
// a statement.
func fatal(e *pgconn.PgError) bool {
	severity := e.SeverityUnlocalized
	if severity == "" {
		severity = e.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}

// again reports errors after which the same statement or transaction should be tried again: none of them says anything
// about the lease. A lock that is not available is one that this package's own statements gave up waiting for.
func again(err error) bool {
	switch serverCode(err) {
	case codeSerialization, codeDeadlock, codeLockNotAvailable:
		return true
	}
	return errors.Is(err, fencepost.ErrBusy)
}

// againWhole is for transactions with a caller's statements in them, which may have set a lock_timeout of their own.
func againWhole(err error) bool {
	c := serverCode(err)
	return c == codeSerialization || c == codeDeadlock
}

// mixedUp reports errors that a prepared statement gets and the same text without a name would not: its plan was made before the table or
// the search_path changed, or a transaction-mode pooler prepared it on another connection. pooler tells the two apart. The server
// refused before executing anything.
func mixedUp(err error) (is, pooler bool) {
	e, ok := serverError(err)
	if !ok || fatal(e) {
		return false, false
	}
	switch e.Code {
	case codeFeature:
		return strings.Contains(e.Message, "cached plan"), false
	case codeStatementExists, codeNoStatement, codeProtocol:
		return true, true
	}
	return false, false
}

// unsent are the fatal errors that come before, or instead of, executing: at the door, or to a session that was idle too long, whose
// transaction was rolled back.
var unsent = []string{codeIdleTransaction, codeIdleSession, codeConnections, codeStarting, codeDatabaseMissing}

// judge says what an error of a statement means that was, or may have been, sent. A statement that the server answered with an error of
// its own was not applied.
func judge(ctx context.Context, err error, writes bool) error {
	if err == nil || known(err) {
		return err
	}
	if e, ok := serverError(err); ok {
		switch {
		case writes && fatal(e) && !slices.Contains(unsent, e.Code) && !strings.HasPrefix(e.Code, "28"):
			return unknown(ctx, err)
		case again(err) && ctx.Err() == nil:
			return fmt.Errorf("%w: %w", fencepost.ErrBusy, err)
		}
		return unavailable(ctx, err)
	}
	if !writes || unsentByDriver(err) {
		return unavailable(ctx, err)
	}
	return unknown(ctx, err)
}

// closedText is what the driver says of a connection that is closed: before it was used or, where it reads several results (COMMIT, a
// batch, the simple protocol), in place of the error that closed it while the reply was awaited.
const closedText = "conn closed"

// unsentByDriver reports errors from before anything was sent. Whoever uses a connection looks first whether it is closed, so that
// the driver's word for that can only mean that it was closed meanwhile: a lost reply must not be taken for certain.
func unsentByDriver(err error) bool {
	return pgconn.SafeToRetry(err) && !strings.HasSuffix(err.Error(), closedText)
}

var errClosed = errors.New("the connection was lost before anything was sent")

func known(err error) bool {
	for _, class := range []error{fencepost.ErrHeld, fencepost.ErrStale, fencepost.ErrUnknown, fencepost.ErrInvalid, fencepost.ErrUnavailable, fencepost.ErrBusy} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// unavailable wraps an error after which it is certain that nothing was applied.
func unavailable(ctx context.Context, err error) error {
	advice := ""
	switch serverCode(err) {
	case codeNoTable, codeNoColumn, codeSchemaMissing, codeNoFunction:
		advice = "; the schema is missing or too old: run `fencepost migrate up`"
	case codePrivilege:
		advice = "; grant it: leases need USAGE on the schema, SELECT, INSERT and UPDATE on the leases, SELECT and INSERT on the events; runs need " +
			"SELECT, INSERT and UPDATE on the runs and the dead letters; pruning and dropping letters need DELETE on the table concerned"
	case codeReadOnly:
		advice = "; leases need the writable primary"
	case codeDatabaseMissing:
		advice = "; create the database, then run `fencepost migrate up`"
	}
	return fmt.Errorf("%w: %w%s", fencepost.ErrUnavailable, because(ctx, err), advice)
}

func unknown(ctx context.Context, err error) error {
	return fmt.Errorf("%w: the link was lost while the server may have been applying: %w", fencepost.ErrUnknown, because(ctx, err))
}

// because makes errors.Is find the end of the context, whatever the driver made of it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// ended reports, as certain that nothing was sent, a context that was over before the operation began.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", fencepost.ErrUnavailable, because(ctx, ctx.Err()))
}
