package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations(names sqlstore.Names) sqlstore.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sqlstore.Migrations{Dialect: goose.DialectSQLite3, Names: names, Files: files}
}

// Migrate creates the schema or brings it up to date, and returns the versions that it applied. Processes that start together
// all succeed. A file whose schema is newer than this program is a fencepost.ErrUnavailable.
func Migrate(ctx context.Context, db *sql.DB, opts ...Option) (applied []int64, err error) {
	names, err := namesOf(opts)
	if err != nil {
		return nil, err
	}
	m := migrations(names)
	clashes := 0
	err = sqlstore.Retry(ctx, racing, func() error {
		has, knows, err := schemaVersion(ctx, db, m)
		switch {
		case err != nil:
			return err
		case has > knows:
			return fmt.Errorf("%w: the schema has version %d, this program knows %d; use a newer fencepost", fencepost.ErrUnavailable, has, knows)
		case has == knows:
			return nil // the usual case: nothing is written
		}
		applied, err = m.Up(ctx, db)
		if clash(err) {
			// What another process is creating is complete when we look again; what is in the way after that stays.
			if clashes++; clashes > mostClashes {
				return foreign(names, err)
			}
		}
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", fencepost.ErrUnknown, withCause(ctx, err))
		}
		return err
	})
	return applied, classify(ctx, names, err)
}

// mostClashes is far more than processes that start together can cause: each of them can be in the way once per migration.
const mostClashes = 10

// racing errors come from another process that creates the same schema at the same moment: look again.
func racing(err error) bool {
	return !errors.Is(err, fencepost.ErrUnavailable) && (retryable(err) || clash(err))
}

func clash(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "already exists") || strings.Contains(err.Error(), "UNIQUE constraint"))
}

func foreign(names sqlstore.Names, err error) error {
	return fmt.Errorf("%w: something in the file has a name that begins with %q and is not fencepost's; choose another prefix: %w",
		fencepost.ErrUnavailable, names.Prefix, err)
}

// MigrationSQL writes the whole schema as SQL.
func MigrationSQL(w io.Writer, opts ...Option) error {
	names, err := namesOf(opts)
	if err != nil {
		return err
	}
	return migrations(names).Print(w)
}

// SchemaVersion returns the newest version that the file has, 0 for none, and the newest that this program knows.
func SchemaVersion(ctx context.Context, db *sql.DB, opts ...Option) (has, knows int64, err error) {
	names, err := namesOf(opts)
	if err != nil {
		return 0, 0, err
	}
	has, knows, err = schemaVersion(ctx, db, migrations(names))
	return has, knows, classify(ctx, names, err)
}

// schemaVersion only reads: asking must not create the table of versions.
func schemaVersion(ctx context.Context, db rowSource, m sqlstore.Migrations) (has, knows int64, err error) {
	knows, err = m.Newest()
	if err != nil {
		return 0, 0, err
	}
	text := newQueries(m.Names).text("schema_version")
	err = db.QueryRowContext(ctx, text).Scan(&has)
	if err != nil && code(err) == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "no such table") {
		return 0, knows, nil
	}
	if code(err) == sqlite3.SQLITE_ERROR {
		return 0, knows, foreign(m.Names, err) // a table of that name, but with other columns
	}
	return has, knows, err
}

// rowSource is a *sql.DB or *sql.Conn.
type rowSource interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Adopt takes over a team's table that has the columns lease_name, owner_token, fence_token and leased_until: its rows become
// free leases with their owner and fence, so that the next holder's fence is higher than any that is still about. Where a
// lease of the name exists, the greater fence wins. The source is not changed. Rows that are not free by now are refused, all are named, and nothing is adopted:
// stop the old system first. leased_until may be NULL, seconds or milliseconds since 1970, or UTC text that SQLite understands.
func Adopt(ctx context.Context, db *sql.DB, table string, opts ...Option) (adopted int, err error) {
	names, err := namesOf(opts)
	if err != nil {
		return 0, err
	}
	if strings.ContainsAny(table, "\"\x00") || table == "" {
		return 0, fmt.Errorf("%w: the table name %q cannot be used", fencepost.ErrInvalid, table)
	}
	quoted := func(statement string) string {
		return strings.ReplaceAll(newQueries(names).text(statement), `"adopted_table"`, `"`+table+`"`)
	}
	err = sqlstore.Retry(ctx, retryable, func() error {
		adopted = 0
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		var live []string
		err = eachRow(ctx, tx, quoted("adopt_live"), nil, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			live = append(live, fmt.Sprintf("%q", name))
			return err
		})
		if err != nil {
			return err
		}
		if len(live) > 0 {
			return fmt.Errorf("%w: still leased in %q: %s; stop the old system, wait for the end of its leases, and adopt again",
				fencepost.ErrInvalid, table, strings.Join(live, ", "))
		}
		for _, statement := range []string{"adopt_raise", "adopt_new"} {
			result, err := tx.ExecContext(ctx, quoted(statement))
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			adopted += int(n)
		}
		return committed(ctx, tx.Commit())
	})
	if err != nil && code(err) == sqlite3.SQLITE_ERROR && (strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "no such column")) {
		return 0, fmt.Errorf("%w: cannot adopt %q: %w", fencepost.ErrInvalid, table, err)
	}
	if code(err) == sqlite3.SQLITE_CONSTRAINT {
		return 0, fmt.Errorf("%w: cannot adopt %q: a row of it can be no lease; names have 1 to %d bytes, fences are whole numbers: %w",
			fencepost.ErrInvalid, table, fencepost.MaxNameBytes, err)
	}
	if err != nil {
		return 0, classify(ctx, names, err)
	}
	return adopted, nil
}

func retryClassified(ctx context.Context, op func() error) error {
	err := sqlstore.Retry(ctx, retryable, op)
	if err == nil {
		return nil
	}
	classified := classify(ctx, sqlstore.Names{Prefix: sqlstore.DefaultPrefix}, err)
	if !errors.Is(classified, fencepost.ErrUnavailable) {
		return fmt.Errorf("%w: %w", fencepost.ErrUnavailable, classified)
	}
	return classified
}
