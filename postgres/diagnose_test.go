package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/postgres"
)

func wantFinding(t *testing.T, findings []fencepost.Finding, check string, level fencepost.Level) {
	t.Helper()
	for _, f := range findings {
		if f.Check != check {
			continue
		}
		if f.Level != level || f.Detail == "" || (f.Advice == "") != (level == fencepost.LevelOK) {
			t.Errorf("%+v, want it %s", f, level)
		}
		return
	}
	t.Errorf("nothing was found about %s: %+v", check, findings)
}

func TestDiagnoseAHealthyDatabase(t *testing.T) {
	_, pool := openStore(t)
	findings, err := postgres.Diagnose(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		switch {
		case f.Check == "idle transactions":
			wantFinding(t, findings, f.Check, fencepost.LevelWarning) // the server's default is none
		case f.Check == "old transactions": // of other tests on the same server
		default:
			wantFinding(t, findings, f.Check, fencepost.LevelOK)
		}
	}
	if len(findings) < 15 {
		t.Errorf("only %d findings", len(findings))
	}
}

func TestDiagnoseWithoutASchema(t *testing.T) {
	findings, err := postgres.Diagnose(t.Context(), openPool(t, newDatabase(t)))
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, findings, "schema", fencepost.LevelFailure)
	wantFinding(t, findings, "primary", fencepost.LevelOK)
	wantFinding(t, findings, "pooler", fencepost.LevelOK)
}

// Every fault is made, and found.
func TestDiagnoseFindsFaults(t *testing.T) {
	for _, fault := range []struct {
		check, setting, value string
		statements            []string
		level                 fencepost.Level
	}{
		{check: "writable", setting: "default_transaction_read_only", value: "on", level: fencepost.LevelFailure},
		{check: "durability", setting: "synchronous_commit", value: "off", level: fencepost.LevelWarning},
		{check: "idle transactions", setting: "idle_in_transaction_session_timeout", value: "5s", level: fencepost.LevelOK},
		{check: "triggers", statements: []string{"ALTER TABLE fencepost_leases DISABLE TRIGGER fencepost_leases_keep"}, level: fencepost.LevelWarning},
		{check: "fence key", statements: []string{"ALTER TABLE fencepost_leases DROP CONSTRAINT fencepost_leases_fence"}, level: fencepost.LevelFailure},
		// Covered only: not a key that a takeover would change.
		{check: "fence key", statements: []string{
			"ALTER TABLE fencepost_leases DROP CONSTRAINT fencepost_leases_fence",
			"CREATE UNIQUE INDEX ON fencepost_leases (lease_name) INCLUDE (fence_token)",
		}, level: fencepost.LevelFailure},
		{check: "time columns", statements: []string{"ALTER TABLE fencepost_leases ALTER COLUMN renewed_at TYPE timestamptz(0)"}, level: fencepost.LevelFailure},
		{check: "time columns", statements: []string{"ALTER TABLE fencepost_events ALTER COLUMN at TYPE timestamp"}, level: fencepost.LevelFailure},
		{check: "schema", statements: []string{"UPDATE fencepost_schema_version SET is_applied = false"}, level: fencepost.LevelFailure},
		{check: "triggers", statements: []string{"ALTER TABLE fencepost_leases DISABLE TRIGGER fencepost_leases_abandon"}, level: fencepost.LevelWarning},
		{check: "time columns", statements: []string{"ALTER TABLE fencepost_runs ALTER COLUMN slot TYPE timestamp"}, level: fencepost.LevelFailure},
		{check: "schema", statements: []string{"DROP TABLE fencepost_dead"}, level: fencepost.LevelFailure},
		{check: "schema", statements: []string{"DROP FUNCTION fencepost_guard"}, level: fencepost.LevelFailure},
	} {
		t.Run(fault.check, func(t *testing.T) {
			_, pool := openStore(t)
			run(t, pool, fault.statements...)
			if fault.setting != "" {
				pool = openPool(t, withParameter(t, pool.Config().ConnString(), fault.setting, fault.value))
			}
			findings, err := postgres.Diagnose(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			wantFinding(t, findings, fault.check, fault.level)
			if fault.level == fencepost.LevelFailure && fault.check != "time columns" {
				if _, err := postgres.New(t.Context(), pool); err == nil {
					t.Error("New accepts what Diagnose calls a failure")
				}
			}
		})
	}
}

// Renewals leave dead row versions, which a transaction that stays open keeps from being cleaned up.
func TestDiagnoseSeesAnOldTransaction(t *testing.T) {
	server := testenv.PrivatePostgres(t, "fsync=off")
	pool := openPool(t, newDatabaseOn(t, server))
	postgres.SetOldTransaction(t, 2*time.Second)
	look := func() []fencepost.Finding {
		findings, err := postgres.Diagnose(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		return findings
	}
	wantFinding(t, look(), "old transactions", fencepost.LevelOK)
	old := begin(t, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	run(t, old, "SELECT 1")
	eventually(t, "the transaction to be found old", func() bool {
		return slices.ContainsFunc(look(), func(f fencepost.Finding) bool {
			return f.Check == "old transactions" && f.Level == fencepost.LevelWarning
		})
	})
	wantFinding(t, look(), "old transactions", fencepost.LevelWarning)
	if err := old.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, look(), "old transactions", fencepost.LevelOK)
}
