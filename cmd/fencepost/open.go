package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

const (
	defaultURL = "sqlite:fencepost.db"
	// openTimeout bounds the first contact with a database.
	openTimeout = 10 * time.Second
	// patience bounds a command that asks the database once, so that one which cannot be reached is an error and not a hang.
	patience = 30 * time.Second
)

// database is a store with the fenced statement, as the database packages provide it. Its value stays the package's own, because a
// waiter asks it whether it is a fencepost.Waker.
type database interface {
	fencepost.Store
	Exec(ctx context.Context, t fencepost.Token, statement string, args ...any) (rowsAffected int64, err error)
	Close() error
}

// engine is a database before it is known whether leases can work there.
type engine interface {
	kind() string // sqlite, postgres or mysql
	open(ctx context.Context) (database, error)
	// migrate applies what is missing and says what it did, and what it could not do.
	migrate(ctx context.Context) (applied []int64, warnings []string, err error)
	migrationSQL(w io.Writer) error
	schemaVersion(ctx context.Context) (has, knows int64, err error)
	diagnose(ctx context.Context) ([]fencepost.Finding, error)
	adopt(ctx context.Context, table string) (int, error)
	// quotedSchema is the schema in front of the tables' names in SQL; empty where there is none.
	quotedSchema() string
	// plain opens the database for statements without any fence.
	plain(ctx context.Context) (plainDB, error)
}

// plainDB runs statements as any program would.
type plainDB interface {
	exec(ctx context.Context, statement string, args ...any) error
	text(ctx context.Context, query string) (string, error)
	Close() error
}

// place says where the leases are.
type place struct {
	url, prefix, schema string
	given               bool // the URL was given as a flag
	fromFile            bool // the URL stands in the file that FENCEPOST_DB_FILE names
}

// resolve completes the flags from the environment.
func (p *place) resolve() error {
	p.prefix = cmp.Or(p.prefix, os.Getenv(envPrefix))
	p.schema = cmp.Or(p.schema, os.Getenv(envSchema))
	if p.given {
		if p.url == "" {
			return usagef("--db is empty; give a URL such as %s", defaultURL)
		}
		return nil
	}
	p.url = os.Getenv(envDB)
	if file := os.Getenv(envDBFile); p.url == "" && file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", fencepost.ErrInvalid, envDBFile, err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		p.url, p.fromFile = strings.TrimSpace(line), true
		if p.url == "" {
			return fmt.Errorf("%w: the first line of the file that %s names is empty; it must be a database URL", fencepost.ErrInvalid, envDBFile)
		}
	}
	p.url = cmp.Or(p.url, defaultURL)
	return nil
}

// engines are the databases by the schemes of their URLs.
var engines = map[string]func(place) (engine, error){
	"sqlite":     newSQLite,
	"postgres":   newPostgres,
	"postgresql": newPostgres,
	"mysql":      newMySQL,
	"mariadb":    newMySQL,
}

func (p *place) engine() (engine, error) {
	if err := p.resolve(); err != nil {
		return nil, err
	}
	scheme, _, _ := strings.Cut(p.url, ":")
	make, ok := engines[scheme]
	if !ok {
		// Without the URL itself, not even its beginning: it may be a password that was put in the wrong place.
		return nil, fmt.Errorf("%w: the database URL must begin with sqlite:, postgres://, mysql:// or mariadb://", fencepost.ErrInvalid)
	}
	if p.schema != "" && !strings.HasPrefix(scheme, "postgres") {
		return nil, fmt.Errorf("%w: --schema and %s are for PostgreSQL; elsewhere the URL names the database", fencepost.ErrInvalid, envSchema)
	}
	// Before the file of SQLite is made.
	if err := (sqlstore.Names{Prefix: cmp.Or(p.prefix, sqlstore.DefaultPrefix)}).Validate(); err != nil {
		return nil, err
	}
	return make(*p)
}

func (p *place) open(ctx context.Context) (database, error) {
	e, err := p.engine()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, fmt.Errorf("the database did not answer within %v", openTimeout))
	defer cancel()
	type answer struct {
		db  database
		err error
	}
	opened := make(chan answer, 1)
	go func() {
		db, err := e.open(ctx)
		opened <- answer{db, err}
	}()
	select {
	case a := <-opened:
		if a.err != nil {
			return nil, cannotOpen(ctx, a.err)
		}
		return a.db, nil
	case <-ctx.Done():
	}
	// What closes a connection to a silent server may wait for it: the process ends without that.
	grace := time.NewTimer(closeTime)
	defer grace.Stop()
	select {
	case a := <-opened:
		if a.err == nil {
			closeSoon(a.db)
		}
		return nil, cannotOpen(ctx, cmp.Or(a.err, context.Cause(ctx)))
	case <-grace.C:
		return nil, cannotOpen(ctx, context.Cause(ctx))
	}
}

// closeTime is how long the program waits for a database to be closed. What it asked for is done by then, and its end closes everything.
const closeTime = time.Second

func closeSoon(db io.Closer) {
	done := make(chan struct{})
	go func() {
		db.Close()
		close(done)
	}()
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// cannotOpen makes every failure before the first operation one of two: the call was wrong, or the database cannot be used.
func cannotOpen(ctx context.Context, err error) error {
	if errors.Is(err, fencepost.ErrInvalid) || errors.Is(err, fencepost.ErrUnavailable) {
		return err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", fencepost.ErrUnavailable, err)
}

// named says that the user has chosen a database.
func (p *place) named() bool { return p.given || os.Getenv(envDB) != "" || os.Getenv(envDBFile) != "" }

// names puts the tables' names into the program's own statements.
func (p *place) names(e engine) sqlstore.Names {
	return sqlstore.Names{Prefix: cmp.Or(p.prefix, sqlstore.DefaultPrefix), Schema: e.quotedSchema()}
}
