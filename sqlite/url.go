package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/fencepost/fencepost"
)

// Scheme begins the URLs of this package: sqlite:PATH.
const Scheme = "sqlite"

// smallestPage is the size of the smallest SQLite file that is not empty.
const smallestPage = 512

// settings go into every connection's DSN: a PRAGMA run once would reach one connection of the pool only.
//
// The busy timeout is for the application's own statements: with a shorter one their transactions fail behind any fenced one
// that takes longer. The end of a context ends the wait at once.
//
// synchronous is FULL because in WAL mode with NORMAL the last commits can be gone after a loss of power, and with
// them a fence that was already handed out. Transactions begin IMMEDIATE because one that reads first and then writes is refused
// at once, without the busy timeout, when another has written in between.
var settings = url.Values{
	"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
	"_txlock": {"immediate"},
}

// OpenPool opens the file of a URL such as sqlite:jobs.db with settings that suit leases, on every connection, also after it was
// recycled: WAL, synchronous FULL, immediate transactions. It creates the file if it is missing, but no folder.
func OpenPool(ctx context.Context, rawURL string) (*sql.DB, error) {
	path, err := pathOf(rawURL)
	if err != nil {
		return nil, err
	}
	if err := inspectFile(path); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fencepost.ErrUnavailable, err)
	}
	// As a file: URI, so that ? # and % in a path are part of the path.
	dsn := (&url.URL{Scheme: "file", Path: absolute, RawQuery: settings.Encode()}).String()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fencepost.ErrUnavailable, err)
	}
	if err := ping(ctx, db); err != nil {
		db.Close()
		return nil, fmt.Errorf("sqlite file %q: %w", path, err)
	}
	return db, nil
}

// pathOf takes everything after the scheme as the path, as it stands; sqlite://PATH and a bare path are the same.
func pathOf(rawURL string) (string, error) {
	path, ok := strings.CutPrefix(rawURL, Scheme+":")
	if !ok {
		// Another database's URL can have a password in it, so it is not repeated.
		return "", fmt.Errorf("%w: a SQLite URL begins with %q, this one does not; write sqlite:PATH", fencepost.ErrInvalid, Scheme+":")
	}
	path = strings.TrimPrefix(path, "//")
	switch {
	case path == "":
		return "", fmt.Errorf("%w: the SQLite URL names no file; write sqlite:PATH", fencepost.ErrInvalid)
	case strings.HasPrefix(path, ":memory:"), strings.HasPrefix(path, "file:"):
		return "", fmt.Errorf("%w: %q is not a plain path; leases need a file that other processes can open too", fencepost.ErrInvalid, rawURL)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("%w: the SQLite path contains a NUL byte", fencepost.ErrInvalid)
	}
	return path, nil
}

// inspectFile says what is wrong with a file before SQLite touches it. It must not open the file: the system drops all of a process's
// POSIX locks on a file when the process closes any descriptor of it, and with them those of its SQLite connections. Whether the
// content is a database is for SQLite to say.
func inspectFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		folder := filepath.Dir(path)
		if _, err := os.Stat(folder); err != nil {
			return fmt.Errorf("%w: sqlite file %q: the folder %q does not exist; create it first", fencepost.ErrUnavailable, path, folder)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: sqlite file: %w", fencepost.ErrUnavailable, err)
	}
	if info.IsDir() {
		return fmt.Errorf("%w: sqlite file %q is a folder", fencepost.ErrUnavailable, path)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: sqlite file %q is no regular file (%s)", fencepost.ErrUnavailable, path, info.Mode().Type())
	}
	// SQLite takes the smallest of files for empty ones, and writes over them.
	if size := info.Size(); 0 < size && size < smallestPage {
		return fmt.Errorf("%w: %q is not a SQLite database, its size is %d; it was left as it is", fencepost.ErrUnavailable, path, size)
	}
	return nil
}

func ping(ctx context.Context, db *sql.DB) error {
	return retryClassified(ctx, func() error { return db.PingContext(ctx) })
}
