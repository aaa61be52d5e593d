package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/fencepost/fencepost"
)

// Error numbers that this package acts on. MySQL and MariaDB share those below 1700.
const (
	codeTooManyConnections = 1040
	codeDatabaseDenied     = 1044
	codeLoginDenied        = 1045
	codeUnknownDatabase    = 1049
	codeUnknownColumn      = 1054
	codeDuplicateKey       = 1062
	codeSyntax             = 1064
	codeTableDenied        = 1142
	codeColumnDenied       = 1143
	codeNoTable            = 1146
	codeCommitFailed       = 1180
	codeLockWaitTimeout    = 1205
	codeDeadlock           = 1213
	codePrivilegeNeeded    = 1227
	codeReadOnlyServer     = 1290
	codeTriggersForbidden  = 1419
	codeOutOfRange         = 1690
	codeReadOnlyTx         = 1792
	codeReadOnlyEngine     = 1836
	codeRecordChanged      = 1020 // MariaDB's innodb_snapshot_isolation

	codeShutdown             = 1053
	codeInterrupted          = 1317
	codeKilledMariaDB        = 1927
	codeStatementTimeMariaDB = 1969
	codeStatementTime        = 3024
)

// serverCode is the number of an error that the server sent, or 0.
func serverCode(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// again reports errors after which the same statement or transaction should be tried again: none of them says
// anything about the lease.
func again(err error) bool {
	switch serverCode(err) {
	case codeDeadlock, codeLockWaitTimeout, codeRecordChanged:
		return true
	}
	return errors.Is(err, fencepost.ErrBusy)
}

// unavailable wraps an error after which it is certain that nothing was applied.
func unavailable(err error) error {
	advice := ""
	switch serverCode(err) {
	case codeNoTable, codeUnknownColumn:
		advice = "; the schema is missing or too old: run `fencepost migrate up`"
	case codeUnknownDatabase:
		advice = "; create the database, then run `fencepost migrate up`"
	case codeTableDenied, codeColumnDenied, codeDatabaseDenied, codePrivilegeNeeded:
		advice = "; grant it: leases need SELECT, INSERT and UPDATE on the fencepost tables"
	case codeLoginDenied:
		advice = "; check user and password"
	case codeReadOnlyServer, codeReadOnlyTx, codeReadOnlyEngine:
		advice = "; leases need the writable primary"
	case codeTooManyConnections:
		advice = "; the server has no connection left"
	}
	return fmt.Errorf("%w: %w%s", fencepost.ErrUnavailable, err, advice)
}

// judge says what an error of a statement means that was, or may have been, sent. A statement that the server answered with an
// error was not applied, unless it failed while committing.
func judge(err error, writes bool) error {
	switch code := serverCode(err); {
	case err == nil:
		return nil
	case errors.Is(err, fencepost.ErrInvalid), errors.Is(err, fencepost.ErrUnavailable), errors.Is(err, fencepost.ErrUnknown), errors.Is(err, fencepost.ErrBusy):
		return err
	case code == codeDeadlock, code == codeLockWaitTimeout, code == codeRecordChanged:
		return fmt.Errorf("%w: %w", fencepost.ErrBusy, err)
	case code == codeCommitFailed && writes:
		return unknown(err)
	case code != 0, !writes, errors.Is(err, driver.ErrBadConn):
		return unavailable(err)
	}
	return unknown(err)
}

func unknown(err error) error {
	return fmt.Errorf("%w: the link was lost while the server may have been applying: %w", fencepost.ErrUnknown, err)
}

// ended reports, as certain that nothing was sent, a context that was over before the operation began.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", fencepost.ErrUnavailable, context.Cause(ctx))
}
