package mysql_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/mysql"
)

func TestReplicasThatMigrateAtOnceAllSucceed(t *testing.T) {
	for kind, server := range map[string]func(testing.TB) *testenv.Server{"MariaDB": testenv.MariaDB, "MySQL": testenv.MySQL} {
		t.Run(kind, func(t *testing.T) {
			p := emptyPlace(t, server(t))
			var wg sync.WaitGroup
			var mu sync.Mutex
			applied, triggers := 0, 0
			for range 16 {
				db := p.pool(t, p.url)
				wg.Go(func() {
					report, err := mysql.Migrate(t.Context(), db)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					applied += len(report.Applied)
					triggers += len(report.Triggers)
				})
			}
			wg.Wait()
			if applied != 1 || triggers != 3 {
				t.Errorf("16 replicas applied %d migrations and %d triggers; want 1 and 3 in all", applied, triggers)
			}
			if n := p.text(t, "SELECT COUNT(*) FROM fencepost_schema_version WHERE version_id = 1"); n != "1" {
				t.Errorf("version 1 is recorded %s times", n)
			}
			if free := p.text(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock' AND DB = ?", p.database); free != "0" {
				t.Errorf("%s sessions still wait for the lock", free)
			}
		})
	}
}

func TestMigrateRefusesAPoolOfOneConnection(t *testing.T) {
	p := emptyPlace(t, testenv.MariaDB(t))
	p.admin.SetMaxOpenConns(1)
	if _, err := mysql.Migrate(t.Context(), p.admin); !errors.Is(err, fencepost.ErrInvalid) {
		t.Errorf("%v; want it refused, not hanging", err)
	}
}

func TestTheSchemaKeepsWhatLeasesNeed(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		if wrong := p.text(t, `SELECT GROUP_CONCAT(COLUMN_NAME) FROM information_schema.COLUMNS
			WHERE TABLE_SCHEMA = ? AND TABLE_NAME LIKE 'fencepost\_%' AND TABLE_NAME <> 'fencepost_schema_version' AND (
				COLUMN_NAME IN ('leased_until', 'acquired_at', 'renewed_at', 'at') AND COLUMN_TYPE <> 'datetime(6)'
				OR COLUMN_NAME IN ('id', 'fence_token', 'ttl_ms') AND DATA_TYPE <> 'bigint'
				OR COLUMN_NAME IN ('lease_name', 'owner_token') AND DATA_TYPE <> 'varbinary')`, p.database); wrong != "" {
			t.Errorf("columns of another type: %s", wrong)
		}
		// A table that somebody made coarser is reported.
		p.run(t, p.admin, "ALTER TABLE fencepost_leases MODIFY renewed_at DATETIME NULL")
		findings, err := mysql.Diagnose(t.Context(), p.admin)
		if err != nil {
			t.Fatal(err)
		}
		wantFinding(t, findings, "schema", fencepost.LevelFailure)
	})
}

// The database itself refuses what would let an old holder in again, whoever asks.
func TestTheDatabaseGuardsTheFences(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		store := p.open(t)
		grant := acquire(t, store, "job", time.Hour)
		if _, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: grant.Token.Fence, Owner: "x", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{
			"UPDATE fencepost_leases SET fence_token = 1",
			"UPDATE fencepost_leases SET owner_token = 'me'",
			"UPDATE fencepost_leases SET lease_name = 'other'",
			"DELETE FROM fencepost_leases",
			"REPLACE INTO fencepost_leases (lease_name, owner_token, fence_token) VALUES ('job', 'me', 1)",
			"INSERT INTO fencepost_leases (lease_name, owner_token, fence_token) VALUES ('job', 'me', 1) ON DUPLICATE KEY UPDATE fence_token = 1",
		} {
			if _, err := p.admin.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "fencepost:") {
				t.Errorf("%s: %v", statement, err)
			}
		}
		if row := p.text(t, "SELECT CONCAT(lease_name, owner_token, fence_token) FROM fencepost_leases"); row != "jobx2" {
			t.Errorf("the row is %s", row)
		}
	})
}

func TestPrefixesKeepInstallationsApart(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		other := mysql.WithPrefix("team_b_")
		if _, err := mysql.Migrate(t.Context(), p.admin, other); err != nil {
			t.Fatal(err)
		}
		a, b := p.store(t, p.admin), p.store(t, p.admin, other)
		first, second := acquire(t, a, "job", time.Hour), acquire(t, b, "job", time.Hour)
		if first.Token.Fence != 1 || second.Token.Fence != 1 {
			t.Errorf("%v and %v", first.Token, second.Token)
		}
		tx := begin(t, p.admin, 0)
		if err := b.Guard(t.Context(), tx, second.Token); err != nil {
			t.Error(err)
		}
		wantStale(t, b.Guard(t.Context(), tx, first.Token), fencepost.ReasonNotGranted)
		if _, err := mysql.New(t.Context(), p.admin, mysql.WithPrefix("no; good")); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("%v", err)
		}
	})
}

func TestThePrintedSchemaIsTheMigratedOne(t *testing.T) {
	var printed bytes.Buffer
	if err := mysql.MigrationSQL(&printed, mysql.WithPrefix("p_")); err != nil {
		t.Fatal(err)
	}
	text := printed.String()
	for _, want := range []string{"CREATE TABLE IF NOT EXISTS p_leases", "CREATE TABLE IF NOT EXISTS p_events", "CREATE TRIGGER p_leases_changed", "CREATE TRIGGER p_leases_deleted"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(text, "DROP") || strings.Contains(text, "fencepost_") {
		t.Errorf("other tools would run all of it:\n%s", text)
	}
}
