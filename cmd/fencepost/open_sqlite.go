package main

import (
	"context"
	"database/sql"
	"io"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

// sqliteEngine is a SQLite file.
type sqliteEngine struct {
	url  string
	opts []sqlite.Option
}

func newSQLite(p place) (engine, error) {
	e := sqliteEngine{url: p.url}
	if p.prefix != "" {
		e.opts = append(e.opts, sqlite.WithPrefix(p.prefix))
	}
	return e, nil
}

func (e sqliteEngine) kind() string { return "sqlite" }

func (e sqliteEngine) open(ctx context.Context) (database, error) {
	s, err := sqlite.Open(ctx, e.url, e.opts...)
	if err != nil {
		return nil, err // not s: a nil pointer in an interface is not nil
	}
	return s, nil
}

func (e sqliteEngine) migrate(ctx context.Context) (applied []int64, warnings []string, err error) {
	err = e.pooled(ctx, func(db *sql.DB) error {
		applied, err = sqlite.Migrate(ctx, db, e.opts...)
		return err
	})
	return applied, warnings, err
}

func (e sqliteEngine) migrationSQL(w io.Writer) error { return sqlite.MigrationSQL(w, e.opts...) }

func (e sqliteEngine) schemaVersion(ctx context.Context) (has, knows int64, err error) {
	err = e.pooled(ctx, func(db *sql.DB) error {
		has, knows, err = sqlite.SchemaVersion(ctx, db, e.opts...)
		return err
	})
	return has, knows, err
}

func (e sqliteEngine) diagnose(ctx context.Context) (found []fencepost.Finding, err error) {
	err = e.pooled(ctx, func(db *sql.DB) error {
		found, err = sqlite.Diagnose(ctx, db, e.opts...)
		return err
	})
	return found, err
}

func (e sqliteEngine) adopt(ctx context.Context, table string) (adopted int, err error) {
	err = e.pooled(ctx, func(db *sql.DB) error {
		// First use creates the schema, here as everywhere.
		if _, err := sqlite.Migrate(ctx, db, e.opts...); err != nil {
			return err
		}
		adopted, err = sqlite.Adopt(ctx, db, table, e.opts...)
		return err
	})
	return adopted, err
}

func (e sqliteEngine) quotedSchema() string { return "" }

func (e sqliteEngine) plain(ctx context.Context) (plainDB, error) {
	db, err := sqlite.OpenPool(ctx, e.url)
	if err != nil {
		return nil, err
	}
	return plainSQL{db}, nil
}

func (e sqliteEngine) pooled(ctx context.Context, do func(*sql.DB) error) error {
	db, err := sqlite.OpenPool(ctx, e.url)
	if err != nil {
		return err
	}
	defer closeSoon(db)
	return do(db)
}
