package main

import (
	"cmp"
	"context"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

// postgresEngine is PostgreSQL.
type postgresEngine struct {
	url    string
	schema string
	opts   []postgres.Option
}

func newPostgres(p place) (engine, error) {
	e := postgresEngine{url: p.url, schema: cmp.Or(p.schema, postgres.DefaultSchema)}
	e.opts = append(e.opts, postgres.WithSchema(e.schema))
	if p.prefix != "" {
		e.opts = append(e.opts, postgres.WithPrefix(p.prefix))
	}
	return e, nil
}

func (e postgresEngine) kind() string { return "postgres" }

func (e postgresEngine) open(ctx context.Context) (database, error) {
	s, err := postgres.Open(ctx, e.url, e.opts...)
	if err != nil {
		return nil, err // not s: a nil pointer in an interface is not nil
	}
	return s, nil
}

func (e postgresEngine) migrate(ctx context.Context) (applied []int64, warnings []string, err error) {
	err = e.pooled(ctx, func(pool *pgxpool.Pool) error {
		applied, err = postgres.Migrate(ctx, pool, e.opts...)
		return err
	})
	return applied, nil, err
}

func (e postgresEngine) migrationSQL(w io.Writer) error { return postgres.MigrationSQL(w, e.opts...) }

func (e postgresEngine) schemaVersion(ctx context.Context) (has, knows int64, err error) {
	err = e.pooled(ctx, func(pool *pgxpool.Pool) error {
		has, knows, err = postgres.SchemaVersion(ctx, pool, e.opts...)
		return err
	})
	return has, knows, err
}

func (e postgresEngine) diagnose(ctx context.Context) (found []fencepost.Finding, err error) {
	err = e.pooled(ctx, func(pool *pgxpool.Pool) error {
		found, err = postgres.Diagnose(ctx, pool, e.opts...)
		return err
	})
	return found, err
}

func (e postgresEngine) adopt(ctx context.Context, table string) (adopted int, err error) {
	err = e.pooled(ctx, func(pool *pgxpool.Pool) error {
		adopted, err = postgres.Adopt(ctx, pool, table, e.opts...)
		return err
	})
	return adopted, err
}

func (e postgresEngine) quotedSchema() string { return pgx.Identifier{e.schema}.Sanitize() }

func (e postgresEngine) plain(ctx context.Context) (plainDB, error) {
	pool, err := postgres.OpenPool(ctx, e.url)
	if err != nil {
		return nil, err
	}
	return plainPostgres{pool}, nil
}

func (e postgresEngine) pooled(ctx context.Context, do func(*pgxpool.Pool) error) error {
	pool, err := postgres.OpenPool(ctx, e.url)
	if err != nil {
		return err
	}
	defer closeSoon(plainPostgres{pool})
	return do(pool)
}

// plainPostgres is a plainDB of pgx.
type plainPostgres struct{ pool *pgxpool.Pool }

func (p plainPostgres) exec(ctx context.Context, statement string, args ...any) error {
	_, err := p.pool.Exec(ctx, statement, args...)
	return err
}

func (p plainPostgres) text(ctx context.Context, query string) (text string, err error) {
	err = p.pool.QueryRow(ctx, query).Scan(&text)
	return text, err
}

func (p plainPostgres) Close() error {
	p.pool.Close()
	return nil
}
