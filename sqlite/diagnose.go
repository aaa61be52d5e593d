package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Diagnose says whether the file is safe for leases. It works without a schema and writes nothing that stays.
func Diagnose(ctx context.Context, db *sql.DB, opts ...Option) ([]fencepost.Finding, error) {
	names, err := namesOf(opts)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, classify(ctx, names, err)
	}
	defer conn.Close()
	var findings []fencepost.Finding
	add := func(check string, level fencepost.Level, detail, advice string) {
		findings = append(findings, fencepost.Finding{Check: check, Level: level, Detail: detail, Advice: advice})
	}

	var version string
	if err := conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); err != nil {
		return nil, classify(ctx, names, err)
	}
	add("server", fencepost.LevelOK, "SQLite "+version+", embedded", "")
	add("clock", fencepost.LevelOK, "the machine's own clock, in milliseconds, UTC; every process that uses the file must run on this machine", "")
	add("isolation", fencepost.LevelOK, "serializable: one writer at a time", "")
	path := ""
	if err := conn.QueryRowContext(ctx, newQueries(names).text("main_file")).Scan(&path); err != nil {
		return nil, classify(ctx, names, err)
	}
	add(filesystem(path))

	var journal string
	var synchronous, timeout int
	for pragma, into := range map[string]any{"journal_mode": &journal, "synchronous": &synchronous, "busy_timeout": &timeout} {
		if err := conn.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(into); err != nil {
			return nil, classify(ctx, names, err)
		}
	}
	if journal == "wal" {
		add("journal", fencepost.LevelOK, "WAL: readers do not wait for the writer", "")
	} else {
		add("journal", fencepost.LevelWarning, "journal mode "+journal+": readers and the writer wait for each other", "open the file with journal_mode=WAL")
	}
	if synchronous >= 2 {
		add("durability", fencepost.LevelOK, "synchronous FULL: a granted fence survives a loss of power", "")
	} else {
		add("durability", fencepost.LevelWarning, fmt.Sprintf("synchronous is %d: a loss of power can take back the last commits, and repeat a fence", synchronous), "open the file with synchronous=FULL")
	}
	if timeout > 0 {
		add("busy-timeout", fencepost.LevelOK, fmt.Sprintf("%d ms; lease operations wait longer by themselves", timeout), "")
	} else {
		add("busy-timeout", fencepost.LevelWarning, "0: your own statements fail at once when another writes", "set busy_timeout on every connection, in the DSN")
	}

	has, knows, err := schemaVersion(ctx, conn, migrations(names)) // a second connection may not be had
	switch {
	case errors.Is(err, fencepost.ErrUnavailable):
		add("schema", fencepost.LevelFailure, err.Error(), "choose another prefix")
	case err != nil:
		return nil, classify(ctx, names, err)
	case has == 0:
		add("schema", fencepost.LevelWarning, "not there yet; it is created on first use", "")
	case has < knows:
		add("schema", fencepost.LevelWarning, fmt.Sprintf("version %d of %d; it is brought up to date on the next use", has, knows), "")
	case has > knows:
		add("schema", fencepost.LevelFailure, fmt.Sprintf("version %d is newer than this program, which knows %d", has, knows), "use a newer fencepost")
	default:
		add("schema", fencepost.LevelOK, fmt.Sprintf("version %d", has), "")
		missing, err := missingTriggers(ctx, conn, names)
		if err != nil {
			return nil, classify(ctx, names, err)
		}
		if len(missing) > 0 {
			add("triggers", fencepost.LevelFailure, "missing: "+strings.Join(missing, ", ")+"; other programs may lower or delete a fence, or a takeover leave no event or an open run behind",
				"restore them from the text of fencepost migrate sql")
		} else {
			add("triggers", fencepost.LevelOK, "the database guards the fences, records the events of acquisitions and ends the runs of replaced tokens", "")
		}
	}

	// Taking the write lock and giving it back is the honest question whether the file can be written.
	_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	if err == nil {
		_, err = conn.ExecContext(ctx, "ROLLBACK")
	}
	switch {
	case err == nil:
		add("write", fencepost.LevelOK, "the file can be written", "")
	case retryable(err):
		add("write", fencepost.LevelWarning, "another holds the write lock at the moment", "look for long transactions")
	default:
		add("write", fencepost.LevelFailure, "the file cannot be written: "+err.Error(), "give this user write access to the file and its folder")
	}

	took := make([]time.Duration, 0, 21)
	for range cap(took) {
		start := time.Now()
		if err := conn.QueryRowContext(ctx, "SELECT 1").Scan(new(int)); err != nil {
			return nil, classify(ctx, names, err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	add("round-trip", fencepost.LevelOK, fmt.Sprintf("median %v, no network", took[len(took)/2].Round(time.Microsecond)), "")
	return findings, nil
}

// filesystem judges where the file is.
func filesystem(path string) (check string, level fencepost.Level, detail, advice string) {
	const local = "move the file to a local disk of the one machine whose processes use it"
	if path == "" {
		return "filesystem", fencepost.LevelFailure, "the database is in memory or temporary; no other process can see its leases", "open a file"
	}
	network, doubtful, known := filesystemOf(path)
	switch {
	case network != "":
		return "filesystem", fencepost.LevelFailure, network + ": SQLite's locks and its log do not hold between machines", local
	case doubtful != "":
		return "filesystem", fencepost.LevelWarning, doubtful + ": whether SQLite's locks hold depends on what is behind it", local
	case !known:
		return "filesystem", fencepost.LevelOK, "not known; it must be a local one", ""
	}
	return "filesystem", fencepost.LevelOK, "local", ""
}

// leaseTriggers are what keeps every program from taking a fence back, records the events, and ends the runs of replaced tokens.
var leaseTriggers = []string{"leases_fence", "leases_replace", "leases_delete", "leases_created", "leases_granted", "leases_released", "leases_abandon"}

func missingTriggers(ctx context.Context, conn *sql.Conn, names sqlstore.Names) (missing []string, err error) {
	there := map[string]bool{}
	err = eachRow(ctx, conn, newQueries(names).text("triggers"), nil, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		there[name] = true
		return err
	})
	for _, trigger := range leaseTriggers {
		if name := names.Prefix + trigger; !there[name] {
			missing = append(missing, name)
		}
	}
	return missing, err
}
