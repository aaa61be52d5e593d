package mysql_test

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/mysql"
)

// as is a pool of a new user with the given grants; ? stands for the database.
func (p place) as(t *testing.T, grants ...string) *sql.DB {
	t.Helper()
	user := "u" + p.database[max(0, len(p.database)-16):]
	p.run(t, p.admin, "CREATE USER '"+user+"'@'%' IDENTIFIED BY 'pw'")
	t.Cleanup(func() { p.admin.Exec("DROP USER '" + user + "'@'%'") })
	for _, grant := range grants {
		p.run(t, p.admin, "GRANT "+strings.ReplaceAll(grant, "?", p.database)+" TO '"+user+"'@'%'")
	}
	cfg := p.config()
	cfg.User, cfg.Passwd = user, "pw"
	if slices.ContainsFunc(grants, func(g string) bool { return strings.HasPrefix(g, "USAGE") }) && len(grants) == 1 {
		cfg.DBName = ""
	}
	return connect(t, cfg)
}

func TestAUserWithDMLRightsNeedsNoMore(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		db := p.as(t, "SELECT, INSERT, UPDATE ON ?.fencepost_leases", "SELECT, INSERT ON ?.fencepost_events", "SELECT ON ?.fencepost_schema_version")
		store := p.store(t, db)
		grant := acquire(t, store, "job", time.Minute)
		if err := renew(t, store, grant.Token); err != nil {
			t.Error(err)
		}
		if _, err := store.Want(t.Context(), "job"); err != nil {
			t.Error(err)
		}
		if out, err := store.Release(t.Context(), grant.Token); err != nil || !out.Changed || !out.Wanted {
			t.Errorf("%+v, %v", out, err)
		}
		if err := store.Record(t.Context(), fencepost.Event{Lease: "job", Kind: fencepost.EventLost, Fence: 1}); err != nil {
			t.Error(err)
		}
		if events, err := store.Events(t.Context(), fencepost.EventQuery{}); err != nil || len(events) != 3 {
			t.Errorf("%+v, %v", events, err)
		}
	})
}

func TestMissingRightsAreNamed(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		db := p.as(t, "SELECT ON ?.fencepost_leases", "SELECT ON ?.fencepost_events")
		_, err := mysql.New(t.Context(), db)
		if !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "fencepost_leases") || !strings.Contains(err.Error(), "grant") {
			t.Errorf("%v; want the table and the missing grant", err)
		}
		findings, err := mysql.Diagnose(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		wantFinding(t, findings, "rights", fencepost.LevelFailure)
	})
}

func wantFinding(t *testing.T, findings []fencepost.Finding, check string, level fencepost.Level) {
	t.Helper()
	for _, f := range findings {
		if f.Check == check {
			if f.Level != level {
				t.Errorf("%s: %+v; want %s", check, f, level)
			}
			return
		}
	}
	t.Errorf("no finding about %s in %+v", check, findings)
}

func TestAMissingSchemaNamesTheCommand(t *testing.T) {
	for kind, server := range map[string]func(testing.TB) *testenv.Server{"MariaDB": testenv.MariaDB, "MySQL": testenv.MySQL} {
		t.Run(kind, func(t *testing.T) {
			p := emptyPlace(t, server(t))
			_, err := mysql.New(t.Context(), p.admin)
			if !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "fencepost migrate up") {
				t.Errorf("%v; want the command", err)
			}
			findings, err := mysql.Diagnose(t.Context(), p.admin)
			if err != nil {
				t.Fatal(err)
			}
			wantFinding(t, findings, "schema", fencepost.LevelFailure)
			if has, knows, err := mysql.SchemaVersion(t.Context(), p.admin); err != nil || has != 0 || knows < 1 {
				t.Errorf("version %d of %d, %v", has, knows, err)
			}
			if n := p.text(t, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?", p.database); n != "0" {
				t.Errorf("looking created %s tables", n)
			}
		})
	}
}

// Managed servers forbid triggers to ordinary users while the binary log is on. Leases must work there, and the loss be said.
func TestAServerThatForbidsTriggers(t *testing.T) {
	server := testenv.PrivateMySQL(t, "log-bin=bin", "log_bin_trust_function_creators=0")
	p := emptyPlace(t, server)
	db := p.as(t, "ALL ON ?.*")
	report, err := mysql.Migrate(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Applied) == 0 || len(report.Triggers) != 0 || len(report.Warnings) != 3 || !strings.Contains(report.Warnings[0], "1419") {
		t.Fatalf("%+v; want tables, no triggers, and a warning for each", report)
	}
	store := p.store(t, db)
	first := acquire(t, store, "job", time.Minute)
	if _, err := store.Release(t.Context(), first.Token); err != nil {
		t.Fatal(err)
	}
	if next := acquire(t, store, "job", time.Minute); next.Token.Fence != 2 {
		t.Errorf("fence %d", next.Token.Fence)
	}
	findings, err := mysql.Diagnose(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, findings, "triggers", fencepost.LevelWarning)

	p.run(t, p.admin, "SET GLOBAL log_bin_trust_function_creators = 1")
	if report, err = mysql.Migrate(t.Context(), db); err != nil || len(report.Applied) != 0 || len(report.Triggers) != 3 || len(report.Warnings) != 0 {
		t.Fatalf("allowed now: %+v, %v", report, err)
	}
	if findings, err = mysql.Diagnose(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, findings, "triggers", fencepost.LevelOK)
}

// A replica's answer may be old, whatever the user may do there.
func TestAReadOnlyServerIsNotBelieved(t *testing.T) {
	for kind, start := range map[string]func(testing.TB, ...string) *testenv.Server{"MariaDB": testenv.PrivateMariaDB, "MySQL": testenv.PrivateMySQL} {
		t.Run(kind, func(t *testing.T) {
			p := newPlace(t, start(t))
			store := p.open(t)
			grant := acquire(t, store, "job", time.Hour)
			p.run(t, p.admin, "SET GLOBAL read_only = 1")
			if err := store.Check(t.Context(), grant.Token); !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "primary") {
				t.Errorf("check: %v", err)
			}
			if _, _, err := store.Inspect(t.Context(), "job"); !errors.Is(err, fencepost.ErrUnavailable) {
				t.Errorf("inspect: %v", err)
			}
			if _, err := mysql.New(t.Context(), p.admin); !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "read_only") {
				t.Errorf("New: %v", err)
			}
			findings, err := mysql.Diagnose(t.Context(), p.admin)
			if err != nil {
				t.Fatal(err)
			}
			wantFinding(t, findings, "writable", fencepost.LevelFailure)
			p.run(t, p.admin, "SET GLOBAL read_only = 0")
			if err := store.Check(t.Context(), grant.Token); err != nil {
				t.Errorf("writable again: %v", err)
			}
		})
	}
}
