package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

func TestATokenLivesFromAcquireToRelease(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		first := c.acquire("report", "--ttl", "1m", "--holder", "night shift")
		if first.Fence != 1 || first.Lease != "report" || first.Holder != "night shift" || first.Owner == "" {
			t.Errorf("granted %+v", first)
		}
		if first.LeasedUntil == nil || first.LeasedUntil.Location() != time.UTC || first.RemainingMS < 30_000 || first.RemainingMS > 60_000 {
			t.Errorf("granted until %v, remaining %d ms", first.LeasedUntil, first.RemainingMS)
		}
		holder := c.holding(first)
		if k := decode[kept](holder.ok("held", "--json")); k.Lease != "report" || k.Fence != 1 || k.RemainingMS <= 0 {
			t.Errorf("held: %+v", k)
		}
		renewed := decode[kept](holder.ok("renew", "--json"))
		if renewed.LeasedUntil == nil || !renewed.LeasedUntil.After(*first.LeasedUntil) {
			t.Errorf("renewed until %v, granted until %v", renewed.LeasedUntil, first.LeasedUntil)
		}
		refused := c.run("acquire", "report", "--json").exits(exitHeld).oneLine(`"night shift"`, "fence 1")
		if f := refused.failure(); f.Error != "held" || f.Holder != "night shift" || *f.CurrentFence != 1 || *f.RemainingMS <= 0 {
			t.Errorf("refused: %+v", f)
		}
		type released struct{ Changed bool }
		if r := decode[released](holder.ok("release", "--json")); !r.Changed {
			t.Error("the release says that it changed nothing")
		}
		if r := decode[released](holder.ok("release", "--json")); r.Changed {
			t.Error("a second release says that it changed something")
		}
		if f := holder.run("held", "--json").exits(exitStale).failure(); f.Error != "stale" || f.Reason != "released" {
			t.Errorf("held after the release: %+v", f)
		}
		if f := holder.run("renew", "--json").exits(exitStale).failure(); f.Reason != "released" {
			t.Errorf("renew after the release: %+v", f)
		}
		if next := c.acquire("report"); next.Fence != 2 || next.Owner == first.Owner {
			t.Errorf("the next grant is %+v", next)
		}
	})
}

func TestAScriptCanEvaluateTheToken(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	name := `it's "$(touch pwned)" ` + "`touch pwned`; # \\ é🔒"
	script := exec.CommandContext(t.Context(), "sh", "-euc", fmt.Sprintf(`
		eval "$(%[1]s acquire %[2]s --ttl 1m)"
		printf '%%s|%%s' "$FENCEPOST_LEASE" "$FENCEPOST_FENCE"
		%[1]s sql 'CREATE TABLE t (n INTEGER)' >&2
		%[1]s sql 'INSERT INTO t VALUES (?)' 42 >&2
		%[1]s renew >&2 && %[1]s held >&2 && %[1]s release >&2
		[ ! -e pwned ]`, program, shellQuote(name)))
	script.Dir = c.dir
	script.Env = []string{"PATH=" + c.env["PATH"]}
	var stderr strings.Builder
	script.Stderr = &stderr
	out, err := script.Output()
	if err != nil || string(out) != name+"|1" {
		t.Fatalf("%v\n%q\n%s", err, out, stderr.String())
	}
}

func TestAnOldHolderCannotReleaseItsSuccessorsLease(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		s := c.store()
		a := c.acquire("job", "--ttl", "1s")
		c.awaitState(s, "job", fencepost.StateExpired)
		b := c.acquire("job", "--ttl", "5m", "--holder", "B")
		before := c.inspect(s, "job")
		for _, command := range []string{"release", "renew", "held"} {
			f := c.holding(a).run(command, "--json").exits(exitStale).oneLine("superseded by fence 2").failure()
			if f.Reason != "superseded" || *f.CurrentFence != 2 || *f.Fence != 1 {
				t.Errorf("%s: %+v", command, f)
			}
		}
		after := c.inspect(s, "job")
		before.Remaining, after.Remaining = 0, 0
		if after != before {
			t.Errorf("the row was\n%+v and is\n%+v", before, after)
		}
		c.run("acquire", "job").exits(exitHeld)
		c.holding(b).ok("release")
	})
}

func TestAnExpiredLeaseIsNotRevived(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		s := c.store()
		a := c.acquire("job", "--ttl", "1s")
		c.awaitState(s, "job", fencepost.StateExpired)
		for _, command := range []string{"renew", "held", "release"} {
			if f := c.holding(a).run(command, "--json").exits(exitStale).failure(); f.Reason != "expired" {
				t.Errorf("%s: %+v", command, f)
			}
		}
		if next := c.acquire("job"); next.Fence != 2 {
			t.Errorf("the next grant is %+v", next)
		}
	})
}

func TestEqualLabelsAreNotTheSameHolder(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	a := c.acquire("job", "--holder", "web-1:1")
	c.run("acquire", "job", "--holder", "web-1:1").exits(exitHeld).oneLine(`"web-1:1"`)
	c.holding(a).ok("release")
	if b := c.acquire("job", "--holder", "web-1:1"); b.Owner == a.Owner || b.Fence != a.Fence+1 {
		t.Errorf("%+v after %+v", b, a)
	}
}

func TestATokenMustBeWhole(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	g := c.acquire("job")
	c.acquire("other")
	holder := c.holding(g)
	for _, tc := range []struct {
		c    *cli
		args []string
		says string
	}{
		{c, []string{"held"}, "no lease is named"},
		{c, []string{"held", "job"}, "no token is given"},
		{c, []string{"held", "job", "--owner", g.Owner}, "belong together"},
		{c, []string{"held", "job", "--fence", "1"}, "belong together"},
		{holder, []string{"held", "--fence", "1"}, "belong together"},
		{holder, []string{"release", "other"}, "the token in the environment is of"},
		{c, []string{"held", "job", "--owner", g.Owner, "--fence", "one"}, "whole number"},
		{c, []string{"held", "job", "--owner", g.Owner, "--fence", "1.0"}, "whole number"},
		{c, []string{"held", "job", "--owner", g.Owner, "--fence", "0"}, "whole number"},
		{c, []string{"held", "job", "--owner", g.Owner, "--fence", "9223372036854775808"}, "whole number"},
		{c, []string{"held", "job", "--owner", "", "--fence", "1"}, "owner token is empty"},
		{holder.with(envFence, "x"), []string{"held"}, "whole number"},
		{c, []string{"sql", "SELECT 1"}, "no lease is named"},
		{c, []string{"sql"}, "needs a STATEMENT"},
	} {
		tc.c.run(tc.args...).exits(exitUsage).oneLine(tc.says)
	}
	holder.ok("held", "job")
	c.ok("held", "job", "--owner", g.Owner, "--fence", "1")
}

func TestATokenThatWasNeverGrantedIsRefused(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		g := c.acquire("job")
		s := c.store()
		before := c.inspect(s, "job")
		for _, tc := range []struct {
			lease, owner, fence, reason string
		}{
			{"job", "somebody", "1", "not_granted"},
			{"job", g.Owner, "2", "not_granted"},
			{"jobs", g.Owner, "1", "unknown_name"},
		} {
			args := []string{tc.lease, "--owner", tc.owner, "--fence", tc.fence, "--json"}
			for _, command := range []string{"held", "renew", "release"} {
				f := c.run(append([]string{command}, args...)...).exits(exitStale).failure()
				if f.Error != "stale" || f.Reason != tc.reason {
					t.Errorf("%s %v: %+v", command, tc, f)
				}
			}
		}
		after := c.inspect(s, "job")
		before.Remaining, after.Remaining = 0, 0
		if after != before {
			t.Errorf("the row was\n%+v and is\n%+v", before, after)
		}
	})
}
