package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

// Settings that roles, databases and pools have for reasons of their own. Sessions with different ones share every lease.
func TestSettingsOfSessionsDoNotMatter(t *testing.T) {
	settings := []map[string]string{
		{},
		{"timezone": "Asia/Kolkata"},
		{"timezone": "America/St_Johns", "datestyle": "SQL, DMY"},
		{"timezone": "Pacific/Kiritimati", "datestyle": "German", "intervalstyle": "sql_standard"},
		{"timezone": "UTC", "intervalstyle": "iso_8601", "extra_float_digits": "-15"},
		{"timezone": "<+23:59>-23:59", "standard_conforming_strings": "off"},
		{"default_transaction_isolation": "serializable", "default_transaction_deferrable": "on"},
		{"default_transaction_isolation": "repeatable read", "idle_in_transaction_session_timeout": "1500ms", "intervalstyle": "sql_standard"},
		{"idle_in_transaction_session_timeout": "2d", "intervalstyle": "postgres_verbose", "lock_timeout": "10ms"},
		{"search_path": "", "bytea_output": "escape", "client_encoding": "SQL_ASCII"},
		{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off"},
		{"plan_cache_mode": "force_custom_plan", "enable_indexscan": "off", "enable_bitmapscan": "off", "enable_nestloop": "off", "jit_above_cost": "0"},
		{"row_security": "off", "session_replication_role": "origin", "synchronous_commit": "off"},
	}
	_, plain := openStore(t)
	run(t, plain, "CREATE TABLE work (n int NOT NULL)", "INSERT INTO work VALUES (0)")
	stores := make([]*postgres.Store, len(settings))
	for i, parameters := range settings {
		pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) {
			for key, value := range parameters {
				c.ConnConfig.RuntimeParams[key] = value
			}
		})
		store, err := postgres.New(t.Context(), pool)
		if err != nil {
			t.Fatalf("%v: %v", parameters, err)
		}
		defer store.Close()
		stores[i] = store
	}
	const ttl = 2 * time.Minute
	for i, holder := range stores {
		name := fmt.Sprintf("job of %v: é", settings[i])
		before := read[int64](t, plain, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
		grant := acquire(t, holder, name, ttl)
		after := read[int64](t, plain, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
		if from, to := time.UnixMicro(before).Add(ttl), time.UnixMicro(after).Add(ttl); grant.LeasedUntil.Before(from) || grant.LeasedUntil.After(to) {
			t.Errorf("%v: leased until %v, want between %v and %v", settings[i], grant.LeasedUntil, from, to)
		}
		for j, other := range stores {
			_, err := other.Acquire(t.Context(), request(name, ttl))
			held := wantHeld(t, err, false)
			if held.Remaining > ttl || held.Remaining < ttl-time.Minute {
				t.Errorf("%v sees %v left of the lease of %v", settings[j], held.Remaining, settings[i])
			}
			if info := inspect(t, other, name); !info.LeasedUntil.Equal(grant.LeasedUntil) {
				t.Errorf("%v sees the end %v, it was granted until %v", settings[j], info.LeasedUntil, grant.LeasedUntil)
			}
		}
		if err := renew(t.Context(), holder, grant.Token); err != nil {
			t.Errorf("%v: %v", settings[i], err)
		}
		if left := inspect(t, stores[0], name).Remaining; left > ttl || left < ttl-time.Minute {
			t.Errorf("%v: %v left after a renewal", settings[i], left)
		}
		if n, err := holder.Exec(t.Context(), grant.Token, "UPDATE public.work SET n = n + 1"); n != 1 || err != nil {
			t.Errorf("%v: Exec: %d rows, %v", settings[i], n, err)
		}
		if err := holder.Tx(t.Context(), grant.Token, func(tx pgx.Tx) error {
			var idle string
			if err := tx.QueryRow(t.Context(), "SELECT current_setting('idle_in_transaction_session_timeout')").Scan(&idle); err != nil {
				return err
			}
			want := "2min"
			if settings[i]["idle_in_transaction_session_timeout"] == "1500ms" {
				want = "1500ms"
			}
			if idle != want {
				t.Errorf("%v: the transaction may idle for %s, want %s", settings[i], idle, want)
			}
			return nil
		}); err != nil {
			t.Errorf("%v: Tx: %v", settings[i], err)
		}
		if out, err := holder.Release(t.Context(), grant.Token); err != nil || !out.Changed {
			t.Errorf("%v: %+v, %v", settings[i], out, err)
		}
		for _, e := range second2(stores[1].Events(t.Context(), fencepost.EventQuery{Lease: name})) {
			if e.At.Before(time.UnixMicro(before)) || e.At.After(time.UnixMicro(before).Add(time.Minute)) || e.At.Location() != time.UTC {
				t.Errorf("%v: %+v", settings[i], e)
			}
		}
	}
}

// The driver sends UTF-8 whatever the session's encoding is. Where the server takes that for Latin-1, the same name is another lease, and
// two would hold it.
func TestASessionInAnotherEncodingIsRefused(t *testing.T) {
	_, plain := openStore(t)
	pool := poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1" })
	if _, err := postgres.New(t.Context(), pool); !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), "client_encoding is LATIN1") {
		t.Errorf("got %v", err)
	}
	findings, err := postgres.Diagnose(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if f := finding(t, findings, "client encoding"); f.Level != fencepost.LevelFailure {
		t.Errorf("%+v", f)
	}
}

// A lease keeps its end when the settings of its holder's role change, and when its table is moved to another zone's sessions.
func TestTheZoneOfTheDatabaseChangesWhileALeaseIsHeld(t *testing.T) {
	store, pool := openStore(t)
	grant := acquire(t, store, "job", long)
	name := pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize()
	for _, zone := range []string{"Pacific/Kiritimati", "Etc/GMT+12"} {
		run(t, pool, "ALTER DATABASE "+name+" SET timezone = '"+zone+"'")
		pool.Reset()
		if got := read[string](t, pool, "SHOW timezone"); got != zone {
			t.Fatalf("the sessions are at %s", got)
		}
		if info := inspect(t, store, "job"); !info.LeasedUntil.Equal(grant.LeasedUntil) || info.State() != fencepost.StateHeld {
			t.Errorf("%s: %+v", zone, info)
		}
		_, err := store.Acquire(t.Context(), request("job", long))
		wantHeld(t, err, false)
	}
}
