package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// code is SQLite's primary result code, or 0 for an error that is not SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// retryable errors say that another has the file for the moment. They mean neither held nor lost.
func retryable(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED
}

// classify puts a driver's error into the product's classes. All of them say that nothing was applied: where that is not certain,
// the error has been marked as fencepost.ErrUnknown before, by [committed].
func classify(ctx context.Context, names sqlstore.Names, err error) error {
	if err == nil || errors.Is(err, fencepost.ErrUnavailable) || errors.Is(err, fencepost.ErrUnknown) || errors.Is(err, fencepost.ErrStale) ||
		errors.Is(err, fencepost.ErrInvalid) || errors.Is(err, fencepost.ErrHeld) {
		return err
	}
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		// A statement that gave up waiting for the lock changed nothing.
		return fmt.Errorf("%w: the file is locked by another writer: %w", fencepost.ErrUnavailable, withCause(ctx, err))
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w: the database is read-only; leases need to write: %w", fencepost.ErrUnavailable, err)
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: the file is not a SQLite database; it was left as it is: %w", fencepost.ErrUnavailable, err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return fmt.Errorf("%w: the file cannot be opened; look at the permissions of the file and its folder: %w", fencepost.ErrUnavailable, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: no room to write: %w", fencepost.ErrUnavailable, err)
	case sqlite3.SQLITE_ERROR:
		if strings.Contains(err.Error(), "no such table") && strings.Contains(err.Error(), names.Prefix) {
			return fmt.Errorf("%w: the schema is missing; run fencepost migrate up: %w", fencepost.ErrUnavailable, err)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", fencepost.ErrUnavailable, withCause(ctx, err)) // an interrupted statement is rolled back
	}
	if strings.Contains(err.Error(), "database is closed") { // database/sql has no name for it
		return fmt.Errorf("%w: the pool or the store was closed: %w", fencepost.ErrUnavailable, err)
	}
	return err
}

// committed judges the error of a commit. A lock that was not had, a full disk and the end of the context, which SQLite looks at
// only while it waits for the lock, leave nothing behind. After anything else, such as an error of the disk, nobody knows.
func committed(ctx context.Context, err error) error {
	switch c := code(err); {
	case err == nil, c == sqlite3.SQLITE_BUSY, c == sqlite3.SQLITE_LOCKED, c == sqlite3.SQLITE_FULL, c == sqlite3.SQLITE_INTERRUPT:
		return err
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, sql.ErrTxDone)):
		return withCause(ctx, err)
	}
	return fmt.Errorf("%w: commit: %w", fencepost.ErrUnknown, err)
}

// withCause makes errors.Is find the end of the context, which SQLite reports in words of its own.
func withCause(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}
