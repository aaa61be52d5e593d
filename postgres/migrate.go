package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations(p place) sqlstore.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sqlstore.Migrations{Dialect: goose.DialectPostgres, Names: p.names, Files: files}
}

// Migrate creates the schema or brings it up to date, and returns the versions that it applied. Processes that start together wait for each
// other and all succeed: one holds an advisory lock of its transaction, which works behind a transaction-mode pooler too and is
// gone with the transaction. It needs two connections, which it opens beside the pool.
func Migrate(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (applied []int64, err error) {
	p, err := placeOf(opts)
	if err != nil {
		return nil, err
	}
	config := pool.Config()
	lock, err := connect(ctx, config, "migrate")
	if err != nil {
		return nil, classify(ctx, p, err, false)
	}
	defer closeConn(lock)
	tx, err := lock.Begin(ctx)
	if err != nil {
		return nil, classify(ctx, p, err, false)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, p.text("migrate_lock"), pgx.QueryExecModeExec, p.lockKey()); err != nil {
		return nil, classify(ctx, p, err, false)
	}
	db := database(config)
	defer db.Close()
	if p.schema != DefaultSchema {
		if _, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+p.names.Schema); err != nil {
			return nil, classify(ctx, p, err, false)
		}
	}
	m := migrations(p)
	has, knows, err := schemaVersion(ctx, pool, p)
	if err != nil {
		return nil, err
	}
	if has > knows {
		return nil, fmt.Errorf("%w: the schema has version %d, this program knows %d; use a newer fencepost", fencepost.ErrUnavailable, has, knows)
	}
	if has == knows {
		return nil, nil
	}
	applied, err = m.Up(ctx, db)
	return applied, classify(ctx, p, err, true)
}

// database is goose's view of the same server, with statements that a pooler cannot mix up.
func database(config *pgxpool.Config) *sql.DB {
	c := config.ConnConfig.Copy()
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	var options []stdlib.OptionOpenDB
	if config.BeforeConnect != nil {
		options = append(options, stdlib.OptionBeforeConnect(config.BeforeConnect))
	}
	db := stdlib.OpenDB(*c, options...)
	db.SetMaxOpenConns(1)
	return db
}

// lockKey is different for every installation in a database.
func (p place) lockKey() int64 {
	h := fnv.New64a()
	io.WriteString(h, "fencepost migrate "+p.schema+"."+p.names.Prefix)
	return int64(h.Sum64())
}

// MigrationSQL writes the whole schema as SQL.
func MigrationSQL(w io.Writer, opts ...Option) error {
	p, err := placeOf(opts)
	if err != nil {
		return err
	}
	return migrations(p).Print(w)
}

// SchemaVersion returns the newest version that the database has, 0 for none, and the newest that this program knows. It only reads.
func SchemaVersion(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (has, knows int64, err error) {
	p, err := placeOf(opts)
	if err != nil {
		return 0, 0, err
	}
	return schemaVersion(ctx, pool, p)
}

func schemaVersion(ctx context.Context, pool *pgxpool.Pool, p place) (has, knows int64, err error) {
	if knows, err = migrations(p).Newest(); err != nil {
		return 0, 0, err
	}
	err = pool.QueryRow(ctx, p.text("schema_version"), pgx.QueryExecModeExec).Scan(&has)
	if c := serverCode(err); c == codeUndefinedTable || c == codeNoSchema {
		return 0, knows, nil
	}
	return has, knows, classify(ctx, p, err, false)
}
