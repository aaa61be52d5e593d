package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Triggers are no versioned migrations: where they are forbidden the rest must work, and once they are allowed the next
// Migrate must add them.
//
//go:embed triggers/*.sql
var triggerFiles embed.FS

// Report says what [Migrate] did.
type Report struct {
	Applied  []int64  // versions of the migrations that were applied
	Triggers []string // names of the triggers that were created
	// Warnings say what could not be done and what that means: leases work, but are guarded or recorded less.
	Warnings []string
}

func migrations(names sqlstore.Names) sqlstore.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // embedded: cannot fail once it was tested
	}
	return sqlstore.Migrations{Dialect: goose.DialectMySQL, Names: names, Files: files}
}

// newestVersion is the schema that this program needs: the number that its last migration's name begins with.
func newestVersion() int64 {
	newest := int64(0)
	for name := range readStatements(migrationFiles, "migrations") {
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			panic(err)
		}
		newest = max(newest, version)
	}
	return newest
}

// Migrate creates or updates the tables and triggers. Any number of processes may call it at once: a lock of the server makes them
// take turns. It needs a pool of at least two connections, and the rights CREATE, ALTER, INDEX, REFERENCES, SELECT, INSERT and TRIGGER.
//
// Triggers guard the fences against every other program and write the events of acquisitions in the transaction that changes the
// lease. Where the server forbids them (error 1419: binary logging without log_bin_trust_function_creators), the report says so.
func Migrate(ctx context.Context, db *sql.DB, opts ...Option) (Report, error) {
	o, err := settings(opts)
	if err != nil {
		return Report{}, err
	}
	if db.Stats().MaxOpenConnections == 1 {
		return Report{}, fmt.Errorf("%w: Migrate needs a pool of at least two connections: one keeps the lock that makes replicas take turns", fencepost.ErrInvalid)
	}
	server, err := readServer(ctx, pooled(db))
	if err != nil {
		return Report{}, err
	}
	if err := server.usable(); err != nil {
		return Report{}, err
	}
	var report Report
	err = alone(ctx, db, o.names, func(conn *sql.Conn) error {
		report.Applied, err = migrations(o.names).Up(ctx, db)
		if err != nil {
			return unavailable(err)
		}
		return report.createTriggers(ctx, conn, o.names)
	})
	return report, err
}

// lockPatience is how long one request for the lock waits, in seconds: ctx is looked at in between.
const lockPatience = 1

// alone runs work while no other process migrates the same tables. The lock belongs to the session, so it is taken, and
// checked, on a connection that is kept; it ends with that connection at the latest.
func alone(ctx context.Context, db *sql.DB, names sqlstore.Names, work func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return unavailable(err)
	}
	defer conn.Close()
	texts := defaultStatements()
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, texts.with("database", nil)).Scan(&database); err != nil {
		return unavailable(err)
	}
	if !database.Valid {
		return fmt.Errorf("%w: the DSN names no database", fencepost.ErrInvalid)
	}
	// The lock is the server's, not the database's, and its name has at most 64 bytes.
	sum := sha256.Sum256([]byte(database.String + "\x00" + names.Prefix))
	name := bytesLiteral("fencepost migrate " + hex.EncodeToString(sum[:16]))
	for locked := (sql.NullInt64{}); locked.Int64 != 1; {
		query := texts.with("migrate_lock", values{"lock": name, "seconds": intLiteral(lockPatience)})
		if err := conn.QueryRowContext(ctx, query).Scan(&locked); err != nil {
			return unavailable(err)
		}
		if !locked.Valid {
			return fmt.Errorf("%w: the server refused the lock that makes replicas take turns (GET_LOCK gave NULL)", fencepost.ErrUnavailable)
		}
	}
	err = work(conn)
	var released sql.NullInt64
	if unlockErr := conn.QueryRowContext(ctx, texts.with("migrate_unlock", values{"lock": name})).Scan(&released); unlockErr != nil || released.Int64 != 1 {
		discard(conn) // the server frees the lock with the session
	}
	return err
}

func (r *Report) createTriggers(ctx context.Context, conn *sql.Conn, names sqlstore.Names) error {
	texts := readStatements(triggerFiles, "triggers")
	there, err := triggersOn(ctx, conn, names)
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		name := names.Prefix + file
		if slices.Contains(there, name) {
			continue
		}
		_, err := conn.ExecContext(ctx, names.Render(texts[file]))
		switch serverCode(err) {
		case codeTriggersForbidden, codePrivilegeNeeded, codeTableDenied:
			r.Warnings = append(r.Warnings, fmt.Sprintf("trigger %s could not be created: %v; %s", name, err, withoutTriggers))
			continue
		}
		if err != nil {
			return unavailable(err)
		}
		r.Triggers = append(r.Triggers, name)
	}
	return nil
}

const withoutTriggers = "without the triggers the database does not guard fences against other programs, and the events acquired, taken_over, released and " +
	"preempted are not recorded; let the server allow them (log_bin_trust_function_creators=1, and the TRIGGER right) and run `fencepost migrate up` again"

// triggersOn returns the names of the triggers on the leases.
func triggersOn(ctx context.Context, conn *sql.Conn, names sqlstore.Names) ([]string, error) {
	rows, err := conn.QueryContext(ctx, defaultStatements().with("triggers", values{"table": bytesLiteral(names.Prefix + "leases")}))
	if err != nil {
		return nil, unavailable(err)
	}
	there, err := scanAll(rows, func(rows *sql.Rows) (name string, err error) {
		err = rows.Scan(&name)
		return name, err
	})
	if err != nil {
		return nil, unavailable(err)
	}
	return there, nil
}

// MigrationSQL prints the whole schema, triggers included, for tools like Flyway, Atlas and goose: one file with goose's annotations,
// which are comments to the others.
func MigrationSQL(w io.Writer, opts ...Option) error {
	o, err := settings(opts)
	if err != nil {
		return err
	}
	if err := migrations(o.names).Print(w); err != nil {
		return err
	}
	texts := readStatements(triggerFiles, "triggers")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if _, err := fmt.Fprintf(w, "-- +goose StatementBegin\n%s;\n-- +goose StatementEnd\n\n", o.names.Render(texts[name])); err != nil {
			return err
		}
	}
	return nil
}

// SchemaVersion returns the version of the schema in the database, 0 if there is none, and the version that this program needs.
func SchemaVersion(ctx context.Context, db *sql.DB, opts ...Option) (has, knows int64, err error) {
	o, err := settings(opts)
	if err != nil {
		return 0, 0, err
	}
	has, err = appliedVersion(ctx, pooled(db), renderStatements(o.names))
	if serverCode(err) == codeNoTable {
		has, err = 0, nil
	}
	return has, newestVersion(), err
}

func appliedVersion(ctx context.Context, via link, texts statements) (int64, error) {
	found, err := read(ctx, via, texts.with("schema_version", nil), func(rows *sql.Rows) (version int64, err error) {
		err = rows.Scan(&version)
		return version, err
	})
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, errors.New("the schema's version cannot be read")
	}
	return found[0], nil
}
