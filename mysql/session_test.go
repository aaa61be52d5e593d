package mysql_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/mysql"
)

// sessions are what callers' sessions and drivers are set to.
func sessions(p place) map[string]func(*driver.Config) {
	param := func(name, value string) func(*driver.Config) {
		return func(c *driver.Config) {
			c.Params = maps.Clone(c.Params)
			if c.Params == nil {
				c.Params = map[string]string{}
			}
			c.Params[name] = value
		}
	}
	isolation := "transaction_isolation"
	if isMariaDB(p) {
		isolation = "tx_isolation"
	}
	all := map[string]func(*driver.Config){
		"UTC":                   param("time_zone", "'+00:00'"),
		"east":                  param("time_zone", "'+05:00'"),
		"west":                  param("time_zone", "'-11:00'"),
		"in the missing hour":   param("timestamp", "1711853086"), // 2024-03-31 02:44:46 UTC
		"in the repeated hour":  param("timestamp", "1729989000"), // 2024-10-27 00:30:00 UTC
		"before the end":        param("timestamp", "2147483640"), // 2038-01-19 03:14:00 UTC
		"ANSI":                  param("sql_mode", "'ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE,IGNORE_SPACE'"),
		"no mode":               param("sql_mode", "''"),
		"traditional":           param("sql_mode", "'TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION'"),
		"safe updates":          param("sql_safe_updates", "1"),
		"small selects":         param("sql_select_limit", "1"),
		"SERIALIZABLE":          param(isolation, "'SERIALIZABLE'"),
		"READ COMMITTED":        param(isolation, "'READ-COMMITTED'"),
		"READ UNCOMMITTED":      param(isolation, "'READ-UNCOMMITTED'"),
		"latin1":                func(c *driver.Config) { c.Apply(driver.Charset("latin1", "latin1_swedish_ci")) },
		"found rows":            func(c *driver.Config) { c.ClientFoundRows = true },
		"parseTime":             func(c *driver.Config) { c.ParseTime = true },
		"parseTime, local zone": func(c *driver.Config) { c.ParseTime, c.Loc = true, time.FixedZone("Sofia", 2*3600) },
		"interpolate":           func(c *driver.Config) { c.InterpolateParams = true },
		"several":               func(c *driver.Config) { c.MultiStatements, c.InterpolateParams = true, true },
		"several, found rows":   func(c *driver.Config) { c.MultiStatements, c.ClientFoundRows = true, true },
	}
	if isMariaDB(p) {
		all["ORACLE"] = param("sql_mode", "'ORACLE,EMPTY_STRING_IS_NULL'")
	}
	return all
}

// What a session is set to must change neither who holds a lease nor for how long.
func TestSessionSettingsChangeNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		reference := p.open(t)
		p.run(t, p.admin, "CREATE TABLE runs (name VARCHAR(100) PRIMARY KEY, n INT NOT NULL)")
		// A server that runs in its zone's DST hour cannot be had; a session whose clock says so can.
		for name, set := range sessions(p) {
			t.Run(name, func(t *testing.T) {
				cfg := p.config()
				set(cfg)
				db := connect(t, cfg)
				store := p.store(t, db)
				p.run(t, p.admin, fmt.Sprintf("INSERT INTO runs VALUES ('%s', 0)", name))

				// Its grants are what the reference sees.
				grant := acquire(t, store, name, 2*time.Minute)
				i, _, err := reference.Inspect(t.Context(), name)
				if err != nil || !i.LeasedUntil.Equal(grant.LeasedUntil) || i.LeasedUntil.Sub(i.AcquiredAt) != 2*time.Minute || i.Remaining < 110*time.Second || i.Remaining > 2*time.Minute {
					t.Fatalf("granted %+v, the reference sees %+v, %v", grant, i, err)
				}
				own, _, err := store.Inspect(t.Context(), name)
				if err != nil || !own.LeasedUntil.Equal(i.LeasedUntil) || !own.AcquiredAt.Equal(i.AcquiredAt) || own.Remaining > i.Remaining || own.Remaining < 110*time.Second {
					t.Errorf("it sees %+v, the reference %+v, %v", own, i, err)
				}
				_, err = reference.Acquire(t.Context(), request(name, time.Minute))
				wantHeld(t, err, false)

				for range 3 { // a count of changed rows must not look like a loss
					if err := renew(t, store, grant.Token); err != nil {
						t.Errorf("renew: %v", err)
					}
				}
				n, err := store.Exec(t.Context(), grant.Token, "UPDATE runs SET n = n + 1 WHERE name = '"+name+"'")
				if err != nil || n != 1 {
					t.Errorf("fenced exec: %d, %v", n, err)
				}
				if err := store.Check(t.Context(), grant.Token); err != nil {
					t.Errorf("check: %v", err)
				}
				if err := store.Record(t.Context(), fencepost.Event{Lease: name, Kind: fencepost.EventLost, Fence: 1}); err != nil {
					t.Errorf("record: %v", err)
				}
				if out, err := store.Release(t.Context(), grant.Token); err != nil || !out.Changed {
					t.Errorf("release: %+v, %v", out, err)
				}
				if out, err := store.Release(t.Context(), grant.Token); err != nil || out.Changed {
					t.Errorf("second release: %+v, %v", out, err)
				}

				// The other way round: it respects what the reference holds, and takes over what has run out.
				held := acquire(t, reference, name, 2*time.Minute)
				_, err = store.Acquire(t.Context(), request(name, time.Minute))
				if refusal := wantHeld(t, err, false); refusal.Remaining < 110*time.Second || refusal.Remaining > 2*time.Minute {
					t.Errorf("remaining %v", refusal.Remaining)
				}
				wantStale(t, renew(t, store, grant.Token), fencepost.ReasonSuperseded)
				_, err = store.Exec(t.Context(), grant.Token, "UPDATE runs SET n = 99")
				wantStale(t, err, fencepost.ReasonSuperseded)
				p.expire(t, name)
				wantStale(t, renew(t, store, held.Token), fencepost.ReasonExpired)
				_, err = store.Release(t.Context(), held.Token)
				wantStale(t, err, fencepost.ReasonExpired)
				next := acquire(t, store, name, time.Minute)
				if !next.TakenOver || next.Token.Fence != held.Token.Fence+1 {
					t.Errorf("takeover: %+v after fence %d", next, held.Token.Fence)
				}
				if _, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: name, Fence: next.Token.Fence, Owner: "x", Actor: "me", TTL: time.Minute}); err != nil {
					t.Errorf("preempt: %v", err)
				}

				events, err := store.Events(t.Context(), fencepost.EventQuery{Lease: name})
				want := []fencepost.EventKind{
					fencepost.EventAcquired, fencepost.EventLost, fencepost.EventReleased, fencepost.EventAcquired, fencepost.EventStaleRefused, fencepost.EventTakenOver, fencepost.EventPreempted,
				}
				if err != nil || len(events) != len(want) {
					t.Fatalf("events %+v, %v", events, err)
				}
				for i, e := range events {
					if e.Kind != want[i] || e.At.Sub(own.AcquiredAt).Abs() > time.Minute {
						t.Errorf("event %d: %+v, want %s around %v", i, e, want[i], own.AcquiredAt)
					}
				}
			})
		}
		if n := p.text(t, "SELECT MAX(n) FROM runs"); n != "1" {
			t.Errorf("a row was written %s times", n)
		}
	})
}

// A lease of a session whose clock stands at the end of the 32-bit era, or in an hour that does not exist, is an ordinary one. One that ends
// after 2038 is kept as it is.
func TestTimesAfter2038(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		store := p.open(t)
		grant := acquire(t, store, "job", 30*365*24*time.Hour)
		if grant.LeasedUntil.Year() < 2050 {
			t.Errorf("leased until %v", grant.LeasedUntil)
		}
		if err := renew(t, store, grant.Token); err != nil {
			t.Error(err)
		}
		i, _, err := store.Inspect(t.Context(), "job")
		if err != nil || i.Remaining < 29*365*24*time.Hour {
			t.Errorf("%+v, %v", i, err)
		}
	})
}

func TestSessionsThatCannotHoldLeasesAreRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		for name, value := range map[string]string{"autocommit": "0", "completion_type": "CHAIN"} {
			cfg := p.config()
			cfg.Params = map[string]string{name: value}
			if _, err := mysql.New(t.Context(), connect(t, cfg)); !errors.Is(err, fencepost.ErrInvalid) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		}
	})
}
