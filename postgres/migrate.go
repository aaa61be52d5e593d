package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

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
	return sqlstore.Migrations{Dialect: goose.DialectPostgres, Names: p.names, Files: files,
		TableExists: func(ctx context.Context, db database.DBTxConn) (exists bool, err error) {
			err = db.QueryRowContext(ctx, p.text("table_exists"), p.schema, p.names.Prefix+"schema_version").Scan(&exists)
			return exists, err
		}}
}

// Migrate creates the tables or brings them up to date, and returns the versions that it applied. The schema of [WithSchema] is created if it is
// missing. Any number of processes may call it at once: they take turns by an advisory lock of a transaction, which works behind a
// transaction-mode pooler too and is gone with the transaction. It needs the right CREATE on the schema, and two connections, which it
// opens beside the pool.
func Migrate(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (applied []int64, err error) {
	p, err := placeOf(opts)
	if err != nil {
		return nil, err
	}
	c, err := readCondition(ctx, pooled(pool), p)
	switch {
	case err != nil:
		return nil, err
	case c.standby, c.readOnly, c.version < oldestServer, c.encoding != "UTF8":
		return nil, c.usable(p)
	case c.installed && c.versioned && c.has >= c.knows:
		return nil, nil
	}
	db := standardView(pool.Config())
	defer db.Close()
	lock, err := migrateAlone(ctx, db, p)
	if err != nil {
		return nil, p.notMigrated(ctx, err)
	}
	defer lock.Rollback() // which frees the lock
	if err := createSchema(ctx, db, p); err != nil {
		return nil, p.notMigrated(ctx, err)
	}
	applied, err = migrations(p).Up(ctx, db)
	if err != nil {
		return applied, p.notMigrated(ctx, err)
	}
	return applied, nil
}

// notMigrated names the rights that migrating needs, which are not those that leases need.
func (p place) notMigrated(ctx context.Context, err error) error {
	if serverCode(err) != codePrivilege {
		return unavailable(ctx, err)
	}
	return fmt.Errorf("%w: %w; migrating needs CREATE on the schema %s, or on the database when the schema is missing: grant it, "+
		"or let the owner run `fencepost migrate up`", fencepost.ErrUnavailable, because(ctx, err), p.names.Schema)
}

// standardView is the migration library's view of the same server: two connections with all that the pool does to its own, and texts
// instead of prepared statements, which a pooler could mix up.
func standardView(config *pgxpool.Config) *sql.DB {
	c := config.ConnConfig.Copy()
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	options := []stdlib.OptionOpenDB{stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		return prepare(ctx, config, conn)
	})}
	if config.BeforeConnect != nil {
		options = append(options, stdlib.OptionBeforeConnect(config.BeforeConnect))
	}
	db := stdlib.OpenDB(*c, options...)
	db.SetMaxOpenConns(2)
	return db
}

// lockPause is about how long a process waits before it asks again for the turn to migrate.
const lockPause = 50 * time.Millisecond

// migrateAlone returns a transaction that holds the lock of migrations until it ends.
func migrateAlone(ctx context.Context, db *sql.DB, p place) (*sql.Tx, error) {
	for {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		locked := false
		err = tx.QueryRowContext(ctx, p.text("migrate_lock"), p.lockKey()).Scan(&locked)
		if err == nil && locked {
			return tx, nil
		}
		tx.Rollback()
		if err != nil {
			return nil, err
		}
		timer := time.NewTimer(lockPause/2 + rand.N(lockPause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("another process is migrating: %w", context.Cause(ctx))
		}
	}
}

// createSchema leaves a schema alone that is there: creating it "if not exists" needs the right to create it.
func createSchema(ctx context.Context, db *sql.DB, p place) error {
	exists := false
	if err := db.QueryRowContext(ctx, p.text("schema_exists"), p.schema).Scan(&exists); err != nil || exists {
		return err
	}
	_, err := db.ExecContext(ctx, p.createSchema())
	return err
}

func (p place) createSchema() string {
	return strings.ReplaceAll(p.text("create_schema"), `"created_schema"`, p.names.Schema)
}

// MigrationSQL prints the whole schema as SQL, for tools like Flyway, Atlas and goose: one file with goose's annotations, which are
// comments to the others.
func MigrationSQL(w io.Writer, opts ...Option) error {
	p, err := placeOf(opts)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := migrations(p).Print(&b); err != nil {
		return err
	}
	text := b.String()
	if p.schema != DefaultSchema {
		const up = "-- +goose Up\n"
		text = strings.Replace(text, up, up+p.createSchema()+";\n", 1)
	}
	_, err = io.WriteString(w, text)
	return err
}

// SchemaVersion returns the version of the schema in the database, 0 if there is none, and the version that this program needs. It only
// reads.
func SchemaVersion(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (has, knows int64, err error) {
	p, err := placeOf(opts)
	if err != nil {
		return 0, 0, err
	}
	c, err := readCondition(ctx, pooled(pool), p)
	if err != nil {
		return 0, 0, err
	}
	if c.installed && !c.versioned {
		return 0, c.knows, fmt.Errorf("%w: the version of the schema cannot be read; let the owner run: GRANT SELECT ON %s", fencepost.ErrUnavailable, p.names.Table("schema_version"))
	}
	return c.has, c.knows, nil
}
