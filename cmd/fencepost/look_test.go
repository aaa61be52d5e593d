package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

func TestLeasesAreListedByName(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		type list struct{ Leases []row }
		if got := decode[list](c.ok("ls", "--json")); got.Leases == nil || len(got.Leases) != 0 {
			c.Errorf("an empty list is %+v", got)
		}
		for _, name := range []string{"b", "B", "a", "é", "ab"} {
			c.acquire(name, "--ttl", "1h", "--holder", "of "+name)
		}
		names := func(args ...string) string {
			var names []string
			for _, r := range decode[list](c.ok(append([]string{"ls", "--json"}, args...)...)).Leases {
				names = append(names, r.Lease)
			}
			return strings.Join(names, " ")
		}
		if got := names(); got != "B a ab b é" {
			c.Errorf("listed: %s", got)
		}
		if got := names("--after", "a", "--limit", "2"); got != "ab b" {
			c.Errorf("listed after a, two: %s", got)
		}
		if r := c.ok("ls", "--limit", "2"); !strings.Contains(r.stderr, "--after") {
			c.Errorf("a cut list does not say so: %q", r.stderr)
		}
		if r := c.ok("ls"); r.stderr != "" {
			c.Errorf("a whole list says %q", r.stderr)
		}
		if got := c.ok("ls").stdout; strings.Count(got, "\n") != 6 || !strings.Contains(got, "of é") {
			c.Errorf("the table is\n%s", got)
		}
	})
}

func TestAnOwnerTokenIsShownToNobody(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	g := c.acquire("job")
	for _, args := range [][]string{{"ls"}, {"show", "job"}, {"events"}} {
		for _, format := range []string{"--json=false", "--json"} {
			if r := c.ok(append(args, format)...); strings.Contains(r.stdout+r.stderr, g.Owner) {
				t.Errorf("%q shows the owner token: %s", r.args, r.stdout)
			}
		}
	}
}

func TestShowingANameThatIsUnknown(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	f := c.run("show", "job", "--json").exits(exitUsage).oneLine(`no lease "job" was ever acquired here`).failure()
	if f.Error != "invalid" || f.Reason != "unknown_name" {
		t.Errorf("%+v", f)
	}
}

func TestEventsTellTheHistory(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		s := c.store()
		a := c.acquire("job", "--ttl", "1s", "--holder", "A")
		c.awaitState(s, "job", fencepost.StateExpired)
		b := c.acquire("job", "--ttl", "1h", "--holder", "B")
		c.holding(a).run("sql", "DELETE FROM fencepost_events WHERE 1 = 0").exits(exitStale)
		c.ok("preempt", "job", "--fence", "2", "--reason", "host replaced", "--actor", "ann@ops")
		c.acquire("other")
		d := c.acquire("job", "--holder", "D")
		c.holding(d).ok("release")
		c.holding(b).run("release").exits(exitStale)

		type history struct{ Events []happening }
		all := decode[history](c.ok("events", "job", "--json"))
		var got []string
		for _, e := range all.Events {
			if e.Lease != "job" || e.At == nil || e.ID < 1 {
				c.Errorf("%+v", e)
			}
			got = append(got, fmt.Sprintf("%s %d", e.Kind, e.Fence))
		}
		want := "acquired 1, taken_over 2, stale_refused 1, preempted 3, acquired 4, released 4"
		if strings.Join(got, ", ") != want {
			c.Errorf("events: %s\nwant:   %s", strings.Join(got, ", "), want)
		}
		for _, e := range all.Events {
			if e.Kind == "preempted" && (e.Actor != "ann@ops" || e.Reason != "host replaced") {
				c.Errorf("%+v", e)
			}
		}
		if last := decode[history](c.ok("events", "job", "--limit", "2", "--json")); len(last.Events) != 2 || last.Events[1].Kind != "released" {
			c.Errorf("the last two: %+v", last)
		}
		after := fmt.Sprint(all.Events[0].ID)
		if first := decode[history](c.ok("events", "job", "--after", after, "--limit", "1", "--json")); len(first.Events) != 1 || first.Events[0].Kind != "taken_over" {
			c.Errorf("the first one after %s: %+v", after, first)
		}
		if everything := decode[history](c.ok("events", "--json")); len(everything.Events) != 7 {
			c.Errorf("%d events of all leases", len(everything.Events))
		}
	})
}

func TestFollowingEvents(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		c.holding(c.acquire("job")).ok("release")
		p := c.start("events", "job", "--follow", "--json", "--limit", "1")
		p.said(`"released"`)
		c.acquire("other")
		c.holding(c.acquire("job")).ok("release")
		p.said(`"fence_token":2`)
		p.until("both new events", func() bool { return strings.Count(p.stdout.String(), "\n") >= 3 })
		p.signal(syscall.SIGINT)
		<-p.done
		var kinds []string
		for line := range strings.Lines(p.stdout.String()) {
			var e happening
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Lease != "job" {
				c.Errorf("%v: %s", err, line)
			}
			kinds = append(kinds, fmt.Sprintf("%s %d", e.Kind, e.Fence))
		}
		if got := strings.Join(kinds, ", "); got != "released 1, acquired 2, released 2" {
			c.Errorf("followed: %s", got)
		}
	})
}

func TestPreemptingALiveLease(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		a := c.acquire("job", "--ttl", "1h", "--holder", "A")
		s := c.store()
		before := c.inspect(s, "job")
		if f := c.run("preempt", "job", "--fence", "2", "--reason", "r", "--json").exits(exitStale).failure(); f.Error != "stale" || *f.CurrentFence != 1 {
			c.Errorf("a wrong fence: %+v", f)
		}
		if f := c.run("preempt", "jobs", "--fence", "1", "--reason", "r", "--json").exits(exitStale).failure(); f.Reason != "unknown_name" {
			c.Errorf("a wrong name: %+v", f)
		}
		after := c.inspect(s, "job")
		before.Remaining, after.Remaining = 0, 0
		if after != before {
			c.Errorf("a refused preemption changed the row from\n%+v to\n%+v", before, after)
		}
		type preempted struct {
			Lease    string
			Fence    int64 `json:"fence_token"`
			Previous int64 `json:"previous_fence"`
			State    string
			Actor    string
		}
		got := decode[preempted](c.ok("preempt", "job", "--fence", "1", "--reason", "r", "--json"))
		info := c.inspect(s, "job")
		if got.Fence != 2 || got.Previous != 1 || got.State != "free" || got.Actor != defaultActor() || info.Fence != 2 || info.State() != "free" {
			c.Errorf("preempted: %+v, row %+v", got, info)
		}
		c.holding(a).run("held").exits(exitStale).oneLine("superseded by fence 2")
		if g := c.acquire("job"); g.Fence != 3 {
			c.Errorf("granted %+v", g)
		}
	})
}

// Fences that a floating-point number or 32 bits cannot hold.
func TestLargeFencesAreExactEverywhere(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		c.acquire("job")
		info := c.inspect(c.store(), "job")
		c.ok("preempt", "job", "--fence", fmt.Sprint(info.Fence), "--reason", "r")
		for _, fence := range []int64{2147483647, 9007199254740992, 9007199254740993, 4611686018427387906} {
			execOn(c.T, c.url(), fmt.Sprintf("UPDATE fencepost_leases SET fence_token = %d, leased_until = NULL WHERE lease_name = 'job'", fence))
			digits := fmt.Sprintf("%d", fence+1)
			r := c.ok("run", "job", "--json", "--", "sh", "-c", fmt.Sprintf(`%s held >&2 && echo "env $FENCEPOST_FENCE"`, program))
			for _, text := range []string{r.stdout, c.ok("ls", "--json").stdout, c.ok("show", "job", "--json").stdout, c.ok("events", "job", "--json").stdout} {
				if !strings.Contains(text, `"fence_token":`+digits+",") {
					c.Errorf("%s is not exact in %s", digits, text)
				}
			}
			if !strings.Contains(r.stderr, "env "+digits+"\n") {
				c.Errorf("the command's environment: %s", r.stderr)
			}
			if text := c.ok("ls").stdout; !strings.Contains(text, digits) {
				c.Errorf("%s is not exact in %s", digits, text)
			}
		}
	})
}

func TestStrangeLabelsAreHarmlessOnATerminal(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.acquire("job \u202e", "--holder", "\x1b[31mred\x07 \u202egnp.exe <img src=x> 🔒 é")
	execOn(t, c.url(), "UPDATE fencepost_leases SET holder = char(27) || ']0;title' || char(7) || char(10) || 'second line'")
	execOn(t, c.url(), "UPDATE fencepost_events SET holder = char(27) || '[2J', reason = char(13) || 'x'")
	for _, args := range [][]string{{"ls"}, {"show", "job \u202e"}, {"events"}, {"acquire", "job \u202e"}} {
		r := c.run(args...)
		for _, bad := range []string{"\x1b", "\x07", "\r", "\u202e", "\nsecond"} {
			if strings.Contains(r.stdout+r.stderr, bad) {
				t.Errorf("%q writes %q: %q", args, bad, r.stdout+r.stderr)
			}
		}
	}
	if !strings.Contains(c.ok("ls").stdout, `\x1b]0;title\a\nsecond line`) {
		t.Errorf("ls: %s", c.ok("ls").stdout)
	}
}

func TestSQLIsRefusedWithAStaleToken(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		execOn(c.T, c.url(), "CREATE TABLE results (id INTEGER PRIMARY KEY, total INTEGER, note VARCHAR(50))")
		a := c.acquire("job", "--ttl", "1h")
		holder := c.holding(a)
		insert, count := "INSERT INTO results VALUES (1, ?, ?)", "SELECT CAST(COUNT(*) AS CHAR) FROM results"
		if strings.HasPrefix(c.url(), "postgres") {
			insert, count = "INSERT INTO results VALUES (1, $1, $2)", "SELECT count(*)::text FROM results"
		}
		if got := holder.ok("sql", insert, "42", "it's ü").stdout; got != "1\n" {
			c.Errorf("rows affected: %q", got)
		}
		type affected struct {
			Rows int64 `json:"rows_affected"`
		}
		if got := decode[affected](holder.ok("sql", "--json", "UPDATE results SET total = total + 1 WHERE id = 2")); got.Rows != 0 {
			c.Errorf("rows affected: %d", got.Rows)
		}
		f := holder.run("sql", "--json", "INSERT INTO results VALUES (1, 1, 'twice')").oneLine().failure()
		if f.Error != "failed" {
			c.Errorf("a duplicate key: %+v", f)
		}
		// What is wrong with the user's own statement says nothing about the leases.
		for _, statement := range []string{"UPDATE no_such_table SET x = 1", "UPDATE results SET no_such_column = 1", "UPDATE results SET"} {
			if f := holder.run("sql", "--json", statement).exits(exitFailed).oneLine().failure(); f.Error != "failed" || strings.Contains(f.Message, "migrate") {
				c.Errorf("%s: %+v", statement, f)
			}
		}
		c.ok("preempt", "job", "--fence", "1", "--reason", "r")
		f = holder.run("sql", "--json", "INSERT INTO results VALUES (2, 1, 'stale')").exits(exitStale).oneLine().failure()
		if f.Error != "stale" || f.Reason != "superseded" || *f.CurrentFence != 2 {
			c.Errorf("%+v", f)
		}
		c.run("sql", "--lease", "job", "--owner", a.Owner, "--fence", "2", "DELETE FROM results").exits(exitStale)
		if got := textOn(c.T, c.url(), count); got != "1" {
			c.Errorf("%s rows", got)
		}
	})
}

// Ids are given out when a transaction asks for one, and become visible when it commits.
func TestAFollowerShowsEventsThatCommitLate(t *testing.T) {
	t.Parallel()
	f := follower{seen: map[int64]time.Time{}}
	now := time.Now()
	event := func(ids ...int64) (events []fencepost.Event) {
		for _, id := range ids {
			events = append(events, fencepost.Event{ID: id})
		}
		return events
	}
	ids := func(events []fencepost.Event) (ids []int64) {
		for _, e := range events {
			ids = append(ids, e.ID)
		}
		return ids
	}
	for _, step := range []struct {
		after time.Duration
		found []int64
		fresh []int64
		start int64 // of the next query
	}{
		{0, []int64{1, 2, 4}, []int64{1, 2, 4}, 0},
		{time.Second, []int64{1, 2, 3, 4}, []int64{3}, 0},
		{followGrace, []int64{1, 2, 3, 4}, nil, 4},
		{followGrace + time.Second, []int64{5}, []int64{5}, 4},
		{followGrace + 2*time.Second, []int64{5, 6}, []int64{6}, 4},
		{3 * followGrace, []int64{5, 6}, nil, 6},
	} {
		at := now.Add(step.after)
		if got := ids(f.fresh(event(step.found...), at)); !slices.Equal(got, step.fresh) {
			t.Errorf("after %v: %v is new, want %v", step.after, got, step.fresh)
		}
		if f.forget(at); f.query.After != step.start {
			t.Errorf("after %v: the next query starts at %d, want %d", step.after, f.query.After, step.start)
		}
	}
}
