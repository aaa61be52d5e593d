package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Diagnose answers whether the database is safe for leases, and says what is slower, blinder or weaker than it could be. It works
// without the schema too, and changes nothing. The error is for a database that cannot be asked.
func Diagnose(ctx context.Context, db *sql.DB, opts ...Option) ([]fencepost.Finding, error) {
	o, err := settings(opts)
	if err != nil {
		return nil, err
	}
	d := diagnosis{ctx: ctx, via: pooled(db), texts: renderStatements(o.names), names: o.names}
	if d.server, err = readServer(ctx, d.via); err != nil {
		return nil, err
	}
	for _, check := range []func() error{d.version, d.writable, d.session, d.clock, d.durability, d.schema, d.rights, d.triggers, d.roundTrip} {
		if err := check(); err != nil {
			return d.findings, err
		}
	}
	return d.findings, nil
}

type diagnosis struct {
	ctx      context.Context
	via      link
	texts    statements
	names    sqlstore.Names
	server   server
	schemaOK bool
	findings []fencepost.Finding
}

func (d *diagnosis) add(check string, level fencepost.Level, detail, advice string) {
	d.findings = append(d.findings, fencepost.Finding{Check: check, Level: level, Detail: detail, Advice: advice})
}

// text reads one value.
func (d *diagnosis) text(statement string) (string, error) {
	found, err := read(d.ctx, d.via, d.texts.with(statement, nil), func(rows *sql.Rows) (s sql.NullString, err error) {
		err = rows.Scan(&s)
		return s, err
	})
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].String, nil
}

func (d *diagnosis) version() error {
	var major, minor int
	fmt.Sscanf(d.server["version"], "%d.%d", &major, &minor)
	name, oldest := "MySQL", "8.0"
	tooOld := major < 8
	if d.server.mariaDB() {
		name, oldest = "MariaDB", "10.6"
		tooOld = major < 10 || major == 10 && minor < 6
	}
	detail := name + " " + d.server["version"]
	if tooOld {
		d.add("version", fencepost.LevelFailure, detail, "leases need "+name+" "+oldest+" or newer: older ones cannot skip locked rows")
		return nil
	}
	d.add("version", fencepost.LevelOK, detail, "")
	return nil
}

func (d *diagnosis) writable() error {
	if err := d.server.usable(); err != nil {
		d.add("writable", fencepost.LevelFailure, err.Error(), "connect to the writable primary, with sessions that commit by themselves")
		return nil
	}
	d.add("writable", fencepost.LevelOK, "the server takes writes, and sessions commit by themselves", "")
	return nil
}

func (d *diagnosis) session() error {
	zone := d.server["time_zone"]
	if zone == "SYSTEM" {
		zone += " (" + d.server["system_time_zone"] + ")"
	}
	d.add("zone", fencepost.LevelOK, "sessions use "+zone+"; every lease statement sets UTC for itself", "")
	level := d.server["transaction_isolation"] + d.server["tx_isolation"]
	if d.server["transaction_isolation"] != "" {
		level = d.server["transaction_isolation"]
	}
	if level == "SERIALIZABLE" {
		d.add("isolation", fencepost.LevelWarning, "sessions default to SERIALIZABLE",
			"during a fenced write at that level, renewals of its own lease have to wait; use READ COMMITTED or REPEATABLE READ for long ones")
	} else {
		d.add("isolation", fencepost.LevelOK, "sessions default to "+level, "")
	}
	idle, variable := d.server["wait_timeout"], "wait_timeout"
	if d.server.mariaDB() {
		idle, variable = d.server["idle_transaction_timeout"], "idle_transaction_timeout"
	}
	if idle == "0" || len(idle) > 3 {
		d.add("idle transactions", fencepost.LevelWarning, variable+" is "+idle+" s",
			"a process that is paused inside a fenced write keeps the lease from being taken over until the server ends its transaction; set "+variable+" near the TTL for such sessions")
	} else {
		d.add("idle transactions", fencepost.LevelOK, variable+" is "+idle+" s", "")
	}
	return nil
}

func (d *diagnosis) clock() error {
	if d.server.on("sysdate_is_now") {
		d.add("clock", fencepost.LevelWarning, "sysdate_is_now is on: SYSDATE is the statement's start", "start the server without it: after a lock wait the expiry is judged by an old clock")
		return nil
	}
	shift, err := d.text("clock_shift")
	if err != nil {
		return err
	}
	if shift != "0" {
		d.add("clock", fencepost.LevelWarning, "the session's clock is "+shift+" s away from the server's (SET timestamp)", "leases are not affected, but other statements of these sessions are")
		return nil
	}
	d.add("clock", fencepost.LevelOK, "SYSDATE(6) in UTC, with microseconds", "")
	return nil
}

func (d *diagnosis) durability() error {
	if d.server["innodb_flush_log_at_trx_commit"] != "1" {
		d.add("durability", fencepost.LevelWarning, "innodb_flush_log_at_trx_commit is "+d.server["innodb_flush_log_at_trx_commit"],
			"a crash of the machine can lose the last second of grants, so that a fence is granted twice; set it to 1")
	}
	replicas, err := read(d.ctx, d.via, d.texts.with("replicas", nil), func(rows *sql.Rows) (n int, err error) {
		err = rows.Scan(&n)
		return n, err
	})
	switch {
	case d.server.on("wsrep_on"):
		d.add("replication", fencepost.LevelWarning, "a Galera cluster", "let all processes use one node for leases: locks of one node are not seen on the others before commit, so that fenced writes end in deadlock errors that are tried again")
	case err != nil:
		d.add("replication", fencepost.LevelOK, "not visible without the PROCESS right", "")
	case len(replicas) > 0 && replicas[0] > 0:
		d.add("replication", fencepost.LevelWarning, fmt.Sprintf("%d replica(s) are fed from this server", replicas[0]),
			"after a failover to an asynchronous replica the last grants can be missing; such a token is refused (its owner is not known there), but its work is lost")
	default:
		d.add("replication", fencepost.LevelOK, "no replica is connected", "")
	}
	return nil
}

func (d *diagnosis) schema() error {
	has, versionErr := appliedVersion(d.ctx, d.via, d.texts)
	table := d.names.Table("leases")
	if versionErr != nil && serverCode(versionErr) != codeNoTable && serverCode(versionErr) != codeTableDenied {
		return versionErr
	}
	coarse, err := read(d.ctx, d.via, d.texts.with("time_columns", values{
		"leases": bytesLiteral(d.names.Prefix + "leases"), "events": bytesLiteral(d.names.Prefix + "events"),
	}), func(rows *sql.Rows) (c column, err error) {
		err = rows.Scan(&c.name, &c.precise)
		return c, err
	})
	switch {
	case err != nil:
		return err
	case len(coarse) == 0:
		d.add("schema", fencepost.LevelFailure, table+" is not there, or not visible", "run `fencepost migrate up`")
		return nil
	case versionErr == nil && has < newestVersion():
		d.add("schema", fencepost.LevelFailure, fmt.Sprintf("version %d, this program needs %d", has, newestVersion()), "run `fencepost migrate up`")
		return nil
	}
	coarse = slices.DeleteFunc(coarse, func(c column) bool { return c.precise })
	if len(coarse) > 0 {
		names := make([]string, len(coarse))
		for i, c := range coarse {
			names[i] = c.name
		}
		d.add("schema", fencepost.LevelFailure, "not DATETIME(6): "+strings.Join(names, ", "), "a time that is rounded ends a lease early or late: change the columns to DATETIME(6)")
		return nil
	}
	d.schemaOK = true
	d.add("schema", fencepost.LevelOK, fmt.Sprintf("version %d", newestVersion()), "")
	return nil
}

type column struct {
	name    string
	precise bool
}

func (d *diagnosis) rights() error {
	if !d.schemaOK {
		return nil
	}
	s := &Store{common: d.via, texts: d.texts, names: d.names}
	if err := s.checkSchema(d.ctx); err != nil {
		d.add("rights", fencepost.LevelFailure, err.Error(), "grant SELECT, INSERT and UPDATE on the fencepost tables")
		return nil
	}
	d.add("rights", fencepost.LevelOK, "leases can be read and changed", "")
	return nil
}

func (d *diagnosis) triggers() error {
	if !d.schemaOK {
		return nil
	}
	there, err := read(d.ctx, d.via, d.texts.with("triggers", values{"table": bytesLiteral(d.names.Prefix + "leases")}), func(rows *sql.Rows) (name string, err error) {
		err = rows.Scan(&name)
		return name, err
	})
	if err != nil {
		return err
	}
	var missing []string
	for file := range readStatements(triggerFiles, "triggers") {
		if name := d.names.Prefix + file; !slices.Contains(there, name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		d.add("triggers", fencepost.LevelWarning, "missing, or not visible without the TRIGGER right: "+strings.Join(missing, ", "), withoutTriggers)
		return nil
	}
	d.add("triggers", fencepost.LevelOK, "the database guards the fences and records the events of acquisitions", "")
	return nil
}

// roundTrips is how many are measured; the first ones may open a connection.
const roundTrips = 9

func (d *diagnosis) roundTrip() error {
	took := make([]time.Duration, roundTrips)
	for i := range took {
		start := time.Now()
		if _, err := d.text("ping"); err != nil {
			return err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	median := took[roundTrips/2]
	d.add("round trip", fencepost.LevelOK, "median "+median.Round(10*time.Microsecond).String(),
		fmt.Sprintf("a TTL should be far above it: at least %v", max(100*median, time.Second).Round(time.Second)))
	return nil
}
