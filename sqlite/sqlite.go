// Package sqlite keeps leases in a SQLite file, and fences the writes of transactions on the same file.
//
// The driver is modernc.org/sqlite, which needs no C compiler. Times are whole milliseconds of the clock of the machine that the processes
// share; SQLite files on network file systems, whose machines have different clocks and often no working locks, are not
// supported.
//
// SQLite has one writer at a time. A fenced transaction holds the write lock of the whole file from its guard to its end, so a
// process that is paused in the middle of one blocks every writer of the file until it goes on or dies: there is no
// server that could end it. Keep fenced transactions short.
//
// A process that uses the file must not open and close it by other means, such as copying it with os.Open: closing any
// descriptor of a file drops all POSIX locks that the process has on it, and another process could then write beside a guard. Use SQLite's
// backup, or another process.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"sync"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// Store is a fencepost.Store and a fencepost.RunStore on a SQLite file.
type Store struct {
	data    *sql.DB // the caller's, or our own: fenced writes and reads
	leases  *sql.DB // lease operations that write; one connection of its own where the store opened the file
	reading *sql.DB // reads, and noticing commits; connections of its own where the store opened the file, else nil
	owned   []*sql.DB
	queries queries
	names   sqlstore.Names
	watch   watchers
}

var (
	_ fencepost.Store = (*Store)(nil)
	_ fencepost.Waker = (*Store)(nil)
)

// Option changes where a store keeps its tables.
type Option func(*sqlstore.Names)

// WithPrefix sets the prefix of the tables' names; the default is fencepost_. Two prefixes in one file keep separate leases.
func WithPrefix(prefix string) Option { return func(n *sqlstore.Names) { n.Prefix = prefix } }

func namesOf(opts []Option) (sqlstore.Names, error) {
	n := sqlstore.Names{Prefix: sqlstore.DefaultPrefix}
	for _, opt := range opts {
		opt(&n)
	}
	return n, n.Validate()
}

// Open opens the file of a URL such as sqlite:jobs.db, creates it and its schema if they are missing, and returns a store that owns its
// connections. Lease operations have a connection that no caller's transaction can use up.
//
// A URL that cannot be used is a fencepost.ErrInvalid; a file that is no database, or cannot be opened or written, a
// fencepost.ErrUnavailable. Such a file is left as it was.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	var owned []*sql.DB
	closeAll := func() {
		for _, db := range owned {
			db.Close()
		}
	}
	for range 3 {
		db, err := OpenPool(ctx, url)
		if err != nil {
			closeAll()
			return nil, err
		}
		owned = append(owned, db)
	}
	data, leases, reading := owned[0], owned[1], owned[2]
	// One connection, queued for inside the process, beats many that wait for each other's locks in the file.
	leases.SetMaxOpenConns(1)
	// Readers wait for no lock, so they must not queue behind the writer that does.
	reading.SetMaxOpenConns(readers)
	reading.SetMaxIdleConns(readers)
	s, err := newStore(ctx, data, leases, opts)
	if err != nil {
		closeAll()
		return nil, err
	}
	s.reading, s.owned = reading, owned
	return s, nil
}

// readers are the connections for reads of a store that opened the file; waiters take one of them.
const readers = 4

// New returns a store on the caller's pool, which stays the caller's. It creates the schema if it is missing. The pool may be set up in any way;
// [OpenPool] returns one that is set up well. Lease operations share the pool: a job that holds all its connections delays renewals.
func New(ctx context.Context, db *sql.DB, opts ...Option) (*Store, error) {
	return newStore(ctx, db, db, opts)
}

func newStore(ctx context.Context, data, leases *sql.DB, opts []Option) (*Store, error) {
	names, err := namesOf(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{data: data, leases: leases, names: names, queries: newQueries(names)}
	if _, err := Migrate(ctx, leases, opts...); err != nil {
		return nil, err
	}
	return s, nil
}

// Close stops what the store runs and closes what it opened. A caller's pool stays open.
func (s *Store) Close() error {
	s.watch.close()
	var first error
	for _, db := range s.owned {
		if err := db.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// DB returns the pool that fenced writes use: the caller's, or the store's own.
func (s *Store) DB() *sql.DB { return s.data }

// queries are the texts of the sql folder with the configured names in them.
type queries struct{ names sqlstore.Names }

var rendered sync.Map // of query{prefix, name} to its text

type query struct{ prefix, name string }

func newQueries(n sqlstore.Names) queries { return queries{n} }

// text returns the statement of sql/NAME.sql.
func (q queries) text(name string) string {
	key := query{q.names.Prefix, name}
	if text, ok := rendered.Load(key); ok {
		return text.(string)
	}
	raw, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("sqlite: no statement %q", name)) // a misspelt name in this package
	}
	text := q.names.Render(string(raw))
	rendered.Store(key, text)
	return text
}
