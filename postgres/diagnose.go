package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
)

// Diagnose says whether the database is safe for leases. It works without a schema and writes nothing.
func Diagnose(ctx context.Context, pool *pgxpool.Pool, opts ...Option) ([]fencepost.Finding, error) {
	p, err := placeOf(opts)
	if err != nil {
		return nil, err
	}
	d := &diagnosis{place: p}
	if err := d.server(ctx, pool); err != nil {
		return nil, classify(ctx, p, err, false)
	}
	if err := d.schema(ctx, pool); err != nil {
		return nil, classify(ctx, p, err, false)
	}
	if err := d.pooler(ctx, pool); err != nil {
		return nil, classify(ctx, p, err, false)
	}
	return d.findings, nil
}

type diagnosis struct {
	place    place
	findings []fencepost.Finding
}

func (d *diagnosis) add(check string, level fencepost.Level, detail, advice string) {
	d.findings = append(d.findings, fencepost.Finding{Check: check, Level: level, Detail: detail, Advice: advice})
}

func (d *diagnosis) say(check string, fine bool, good string, level fencepost.Level, bad, advice string) {
	if fine {
		d.add(check, fencepost.LevelOK, good, "")
		return
	}
	d.add(check, level, bad, advice)
}

func (d *diagnosis) server(ctx context.Context, pool *pgxpool.Pool) error {
	var version, zone, isolation, readOnly, idle, syncStandbys string
	var standby bool
	var standbys, oldestMinutes int
	err := pool.QueryRow(ctx, d.place.text("diagnose_server"), pgx.QueryExecModeExec).
		Scan(&version, &zone, &isolation, &readOnly, &idle, &standby, &standbys, &syncStandbys, &oldestMinutes)
	if err != nil {
		return err
	}
	d.add("server", fencepost.LevelOK, "PostgreSQL "+version, "")
	d.add("clock", fencepost.LevelOK, "clock_timestamp() of the server, read after lock waits; instants, so that no zone matters", "")
	d.add("zone", fencepost.LevelOK, "session zone "+zone+", not used for leases", "")
	d.add("isolation", fencepost.LevelOK, "default "+isolation+"; guards hold at every level, serialization failures are retried", "")
	d.say("primary", !standby, "this is a primary", fencepost.LevelFailure, "this is a standby", "connect to the primary")
	d.say("read-only", readOnly == "off", "transactions can write", fencepost.LevelFailure, "transactions are read-only by default", "unset default_transaction_read_only for this user and database")
	d.say("replication", standbys == 0 || syncStandbys != "", fmt.Sprintf("%d standbys, synchronous: %q", standbys, syncStandbys), fencepost.LevelWarning,
		fmt.Sprintf("%d standbys, none synchronous: a failover can lose the newest grants, and repeat their fences", standbys),
		"set synchronous_standby_names, or raise the fences after a failover")
	d.say("idle-transactions", idle != "0", "idle_in_transaction_session_timeout is "+idle, fencepost.LevelWarning,
		"idle_in_transaction_session_timeout is 0: a paused process whose own transaction holds a guard blocks the takeover for ever",
		"set it below the shortest TTL for users whose transactions use Guard; Tx does so by itself")
	d.say("old-transactions", oldestMinutes < 10, fmt.Sprintf("the oldest open transaction is %d min old", oldestMinutes), fencepost.LevelWarning,
		fmt.Sprintf("a transaction has been open for %d min: renewals leave dead rows that cannot be cleaned up", oldestMinutes), "end it")
	return nil
}

func (d *diagnosis) schema(ctx context.Context, pool *pgxpool.Pool) error {
	has, knows, err := schemaVersion(ctx, pool, d.place)
	if err != nil {
		return err
	}
	d.say("schema", has == knows, fmt.Sprintf("version %d in %s", has, d.place.names.Schema), fencepost.LevelFailure,
		fmt.Sprintf("version %d in %s, this program needs %d", has, d.place.names.Schema, knows), "run fencepost migrate up")
	if has == 0 {
		return nil
	}
	leases, events := d.place.names.Table("leases"), d.place.names.Table("events")
	var missing []string
	if err := pool.QueryRow(ctx, d.place.text("missing_rights"), pgx.QueryExecModeExec, leases, events).Scan(&missing); err != nil {
		return err
	}
	d.say("rights", len(missing) == 0, "the user can read and write leases and events", fencepost.LevelFailure, "the user lacks rights", joined(missing))
	var triggers, micros int
	var key bool
	err = pool.QueryRow(ctx, d.place.text("diagnose_schema"), pgx.QueryExecModeExec, leases).Scan(&triggers, &micros, &key)
	if err != nil {
		return err
	}
	d.say("triggers", triggers >= 6, "the database refuses a lower fence and deleted leases", fencepost.LevelFailure,
		fmt.Sprintf("only %d of 6 triggers are enabled on %s", triggers, leases), "enable them, or install the schema anew")
	d.say("time-columns", micros == 3, "microseconds", fencepost.LevelFailure, "time columns of the leases are not timestamptz(6)", "restore the column types of fencepost migrate sql")
	d.say("fence-key", key, "(lease_name, fence_token) is a unique key, so guards and takeovers exclude each other", fencepost.LevelFailure,
		"(lease_name, fence_token) is no valid unique key: a guard does not keep a takeover out", "restore the constraint of fencepost migrate sql")
	return nil
}

// pooler asks twice for the backend that it talks to. Two answers on one client connection mean a transaction-mode pooler; the same
// answer proves nothing.
func (d *diagnosis) pooler(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	backends := map[int]bool{}
	took := make([]time.Duration, 0, 21)
	for range cap(took) {
		var pid int
		start := time.Now()
		if err := conn.QueryRow(ctx, d.place.text("backend"), pgx.QueryExecModeExec).Scan(&pid); err != nil {
			return err
		}
		took = append(took, time.Since(start))
		backends[pid] = true
	}
	own := int(conn.Conn().PgConn().PID())
	d.say("pooler", len(backends) == 1 && backends[own], "connected directly", fencepost.LevelWarning,
		"a pooler stands between: waiters may not be woken and then poll", "nothing for correctness; connect directly for a faster handover")
	slices.Sort(took)
	d.add("round-trip", fencepost.LevelOK, fmt.Sprintf("median %v, longest %v of %d", took[len(took)/2].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond), len(took)), "")
	return nil
}
