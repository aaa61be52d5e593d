package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
)

// Diagnose answers whether the database is safe for leases, and says what is slower, blinder or weaker than it could be. It works
// without the schema too, and changes nothing. The error is for a database that cannot be asked.
func Diagnose(ctx context.Context, pool *pgxpool.Pool, opts ...Option) ([]fencepost.Finding, error) {
	p, err := placeOf(opts)
	if err != nil {
		return nil, err
	}
	d := &diagnosis{ctx: ctx, via: pooled(pool), place: p}
	if d.condition, err = readCondition(ctx, d.via, p); err != nil {
		return nil, err
	}
	for _, check := range []func() error{d.server, d.schema, d.pooler} {
		if err := check(); err != nil {
			return d.findings, err
		}
	}
	return d.findings, nil
}

type diagnosis struct {
	ctx       context.Context
	via       link
	place     place
	condition condition
	findings  []fencepost.Finding
}

// say adds what was found: the good text, or else the level, the bad text and the advice.
func (d *diagnosis) say(check string, fine bool, good string, level fencepost.Level, bad, advice string) {
	f := fencepost.Finding{Check: check, Level: fencepost.LevelOK, Detail: good}
	if !fine {
		f.Level, f.Detail, f.Advice = level, bad, advice
	}
	d.findings = append(d.findings, f)
}

func (d *diagnosis) note(check, detail string) { d.say(check, true, detail, "", "", "") }

// oldTransaction is when an open transaction begins to matter: renewals leave one dead row version each that it keeps from being
// cleaned up. A test cannot wait that long and sets less.
var oldTransaction = 5 * time.Minute

// scene is what the server says of itself, beyond the condition.
type scene struct {
	version, zone, isolation, idle, fsync, synchronousCommit, synchronous string
	standbys                                                              int
	oldestSeconds, clock                                                  int64
}

func scanScene(rows pgx.Rows) (s scene, err error) {
	err = rows.Scan(&s.version, &s.zone, &s.isolation, &s.idle, &s.fsync, &s.synchronousCommit, &s.standbys, &s.synchronous, &s.oldestSeconds, &s.clock)
	return s, err
}

func (d *diagnosis) server() error {
	found, err := collect(d.ctx, d.via, d.place.text("diagnose"), false, scanScene)
	if err != nil {
		return err
	}
	s, c := found[0], d.condition
	d.say("version", c.version >= oldestServer, "PostgreSQL "+s.version, fencepost.LevelFailure, "PostgreSQL "+s.version,
		fmt.Sprintf("leases need PostgreSQL %d or newer", oldestServer/10000))
	d.say("primary", !c.standby, "this is a primary", fencepost.LevelFailure, "this is a standby", "connect to the primary")
	d.say("writable", !c.readOnly, "transactions can write, and statements commit by themselves", fencepost.LevelFailure, "transactions are read-only by default",
		"unset default_transaction_read_only for this user and database")
	d.say("encoding", c.encoding == "UTF8", "UTF8", fencepost.LevelFailure, c.encoding, "lease names are UTF-8: use a database with that encoding")
	d.say("client encoding", c.unconverted(), c.clientEncoding, fencepost.LevelFailure, c.clientEncoding+": other sessions would not find the names of leases",
		"unset client_encoding for this user and database")
	skew := time.Until(time.Unix(s.clock, 0)).Round(time.Second)
	d.note("clock", fmt.Sprintf("clock_timestamp() of the server, read after lock waits; it differs from this machine's by %v, which does not matter to leases", skew.Abs()))
	d.note("zone", "sessions use "+s.zone+"; leases keep instants, to which no zone matters")
	d.note("isolation", "sessions default to "+s.isolation+"; guards hold at every level, and what the server asks to be repeated is repeated")
	d.say("idle transactions", s.idle != "0", "idle_in_transaction_session_timeout is "+s.idle, fencepost.LevelWarning, "idle_in_transaction_session_timeout is 0",
		"a process that is paused in a transaction of its own with a Guard blocks the takeover for ever: set it below the shortest TTL for such users; Tx does so by itself")
	oldest := time.Duration(s.oldestSeconds) * time.Second
	d.say("old transactions", oldest < oldTransaction, fmt.Sprintf("the oldest open transaction is %v old", oldest), fencepost.LevelWarning,
		fmt.Sprintf("a transaction has been open for %v", oldest), "renewals leave dead row versions that cannot be cleaned up before it ends: end it")
	d.say("durability", s.fsync == "on" && s.synchronousCommit != "off", "fsync is on, synchronous_commit is "+s.synchronousCommit, fencepost.LevelWarning,
		fmt.Sprintf("fsync is %s, synchronous_commit is %s", s.fsync, s.synchronousCommit), "a crash can lose the newest grants, so that a fence is granted twice: switch both on")
	d.say("replication", s.standbys == 0 || s.synchronous != "", fmt.Sprintf("%d standby(s), synchronous_standby_names is %q", s.standbys, s.synchronous),
		fencepost.LevelWarning, fmt.Sprintf("%d standby(s), none of them synchronous", s.standbys),
		"a failover can lose the newest grants; such a token is refused afterwards, but its work is lost: set synchronous_standby_names")
	return nil
}

// triggersThere is how many triggers guard the leases, write the events and end the runs of tokens that are replaced.
const triggersThere = 7

func (d *diagnosis) schema() error {
	c, leases := d.condition, d.place.names.Table("leases")
	d.say("rights", c.missing == "", "the user can read and write leases, events and runs", fencepost.LevelFailure, "the user lacks rights", "let the owner run: "+c.missing)
	current := c.books && (!c.versioned || c.has >= c.knows)
	d.say("schema", c.installed && current, fmt.Sprintf("version %d, in %s", c.has, d.place.names.Schema), fencepost.LevelFailure,
		fmt.Sprintf("version %d in %s, this program needs %d", c.has, d.place.names.Schema, c.knows), "run `fencepost migrate up`")
	if !c.installed {
		return nil
	}
	d.say("fence key", c.fenceKey, "a takeover changes a unique key, so that a fenced write keeps it out", fencepost.LevelFailure,
		leases+" has no valid unique index with fence_token: a fenced write does not keep a takeover out", "restore the constraints of `fencepost migrate sql`")
	d.say("triggers", c.triggers >= triggersThere, "the database guards the fences, records the events and ends the runs of replaced tokens", fencepost.LevelWarning,
		fmt.Sprintf("%d of %d triggers on %s are enabled: fences are not guarded against other programs, or events are not recorded, or runs are not marked abandoned", c.triggers, triggersThere, leases),
		"restore the triggers of `fencepost migrate sql`")
	coarse, err := collect(d.ctx, d.via, d.place.text("time_columns"), false, value[string], d.place.schema, d.place.names.Prefix+"leases", d.place.names.Prefix+"events",
		d.place.names.Prefix+"runs", d.place.names.Prefix+"dead")
	if err != nil {
		return err
	}
	d.say("time columns", len(coarse) == 0, "timestamptz with microseconds", fencepost.LevelFailure, "not timestamptz(6): "+strings.Join(coarse, ", "),
		"a time that is rounded or has no zone ends a lease early or late: change the columns to timestamptz(6)")
	return nil
}

// roundTrips is how many are measured; the first ones may open a connection.
const roundTrips = 21

// pooler asks one connection again and again which backend it talks to. An answer that differs from the connection's own means a pooler.
func (d *diagnosis) pooler() error {
	direct := true
	took := make([]time.Duration, roundTrips)
	err := d.via.on(d.ctx, func(conn *pgx.Conn) error {
		for i := range took {
			start := time.Now()
			found, err := query(d.ctx, conn, d.place.text("backend"), value[uint32], withoutName(nil))
			if err != nil {
				return judge(d.ctx, err, false)
			}
			took[i] = time.Since(start)
			direct = direct && found[0] == conn.PgConn().PID()
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.say("pooler", direct, "connected to the server itself", fencepost.LevelWarning, "a pooler stands between",
		"nothing needs doing for correctness; in transaction mode waiters are not woken and poll, so connect directly for a faster handover")
	slices.Sort(took)
	d.note("round trip", fmt.Sprintf("median %v of %d; a TTL should be far above it", took[roundTrips/2].Round(10*time.Microsecond), roundTrips))
	return nil
}
