package main

import (
	"context"
	"database/sql"
	"io"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/mysql"
)

// mysqlEngine is MySQL and MariaDB.
type mysqlEngine struct {
	url  string
	opts []mysql.Option
}

func newMySQL(p place) (engine, error) {
	e := mysqlEngine{url: p.url}
	if p.prefix != "" {
		e.opts = append(e.opts, mysql.WithPrefix(p.prefix))
	}
	return e, nil
}

func (e mysqlEngine) kind() string { return "mysql" }

func (e mysqlEngine) open(ctx context.Context) (database, error) {
	s, err := mysql.Open(ctx, e.url, e.opts...)
	if err != nil {
		return nil, err // not s: a nil pointer in an interface is not nil
	}
	return s, nil
}

func (e mysqlEngine) migrate(ctx context.Context) (applied []int64, warnings []string, err error) {
	err = e.pooled(ctx, func(db *sql.DB) error {
		report, err := mysql.Migrate(ctx, db, e.opts...)
		applied, warnings = report.Applied, report.Warnings
		return err
	})
	return applied, warnings, err
}

func (e mysqlEngine) migrationSQL(w io.Writer) error { return mysql.MigrationSQL(w, e.opts...) }

func (e mysqlEngine) schemaVersion(ctx context.Context) (has, knows int64, err error) {
	err = e.pooled(ctx, func(db *sql.DB) error {
		has, knows, err = mysql.SchemaVersion(ctx, db, e.opts...)
		return err
	})
	return has, knows, err
}

func (e mysqlEngine) diagnose(ctx context.Context) (found []fencepost.Finding, err error) {
	err = e.pooled(ctx, func(db *sql.DB) error {
		found, err = mysql.Diagnose(ctx, db, e.opts...)
		return err
	})
	return found, err
}

func (e mysqlEngine) adopt(ctx context.Context, table string) (adopted int, err error) {
	err = e.pooled(ctx, func(db *sql.DB) error {
		adopted, err = mysql.Adopt(ctx, db, table, e.opts...)
		return err
	})
	return adopted, err
}

func (e mysqlEngine) quotedSchema() string { return "" }

func (e mysqlEngine) plain(ctx context.Context) (plainDB, error) {
	db, err := mysql.OpenPool(ctx, e.url)
	if err != nil {
		return nil, err
	}
	return plainSQL{db}, nil
}

func (e mysqlEngine) pooled(ctx context.Context, do func(*sql.DB) error) error {
	db, err := mysql.OpenPool(ctx, e.url)
	if err != nil {
		return err
	}
	defer closeSoon(db)
	return do(db)
}
