package main

import (
	"strings"
	"testing"
)

// started acquires a lease and starts a run, and returns the environment of the script that does so.
func (c *cli) started(name string) *cli {
	c.Helper()
	g := decode[granted](c.ok("acquire", name, "--ttl", "1h", "--json"))
	holder := c.holding(g)
	r := decode[execution](holder.ok("runs", "start", "--json"))
	if r.Run == "" || r.Status != "running" || r.Fence != 1 {
		c.Fatalf("started %+v", r)
	}
	return holder.with(envRun, r.Run)
}

func TestAScriptKeepsItsBooks(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	job := c.started("job")
	id := job.env[envRun]
	job.ok("runs", "progress", `{"page": 17}`)
	if r := decode[execution](c.ok("runs", "show", id, "--json")); string(r.Progress) != `{"page":17}` && string(r.Progress) != `{"page": 17}` {
		t.Errorf("progress %s", r.Progress)
	}
	if out := job.ok("runs", "finish", "--result", "42").stdout; !strings.Contains(out, "succeeded") {
		t.Error(out)
	}
	again := decode[struct{ Already bool }](job.ok("runs", "finish", "--result", "42", "--json"))
	if !again.Already {
		t.Error("the repeated finish does not say that it was finished before")
	}
	other := job.run("runs", "finish", "--status", "failed", "--error", "no", "--json")
	if f := decode[failure](other); other.code != exitUsage || f.Reason != "finished" {
		t.Errorf("another outcome: exit %d, %+v", other.code, f)
	}
	for _, out := range []string{c.ok("runs", "ls").stdout, c.ok("runs", "ls", "job", "--status", "succeeded").stdout, c.ok("runs", "show", id).stdout} {
		if !strings.Contains(out, id) || !strings.Contains(out, "succeeded") || strings.Contains(out, job.env[envOwner]) {
			t.Error(out)
		}
	}
}

func TestAResultThatComesTooLateIsKeptAndAdopted(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	old := c.started("job")
	c.ok("preempt", "job", "--fence", "1", "--reason", "test")
	late := old.run("runs", "finish", "--result", `{"total": 7}`)
	if late.code != exitStale || !strings.Contains(late.stderr, "dead letter 1") {
		t.Fatalf("exit %d: %s", late.code, late.stderr)
	}
	if r := decode[execution](c.ok("runs", "show", old.env[envRun], "--json")); r.Status != "abandoned" || r.ReplacedBy != 2 || r.Result != nil {
		t.Errorf("the old run: %+v", r)
	}
	if out := c.ok("dead", "show", "1").stdout; !strings.Contains(out, `"total"`) || !strings.Contains(out, "superseded") {
		t.Error(out)
	}
	holder := decode[granted](c.ok("acquire", "job", "--ttl", "1h", "--json"))
	if busy := c.run("dead", "adopt", "1"); busy.code != exitHeld {
		t.Errorf("adopted while another holds the lease: exit %d, %s", busy.code, busy.stderr)
	}
	if stale := c.run("dead", "adopt", "1", "--owner", old.env[envOwner], "--fence", "1"); stale.code != exitStale {
		t.Errorf("adopted by a stale token: exit %d, %s", stale.code, stale.stderr)
	}
	adopted := decode[execution](c.ok("dead", "adopt", "1", "--owner", holder.Owner, "--fence", "3", "--actor", "ann", "--json"))
	if adopted.Status != "succeeded" || adopted.Fence != 3 || adopted.Actor != "ann" || adopted.AdoptedFrom != 1 {
		t.Errorf("adopted %+v", adopted)
	}
	twice := c.run("dead", "adopt", "1", "--owner", holder.Owner, "--fence", "3", "--json")
	if f := decode[failure](twice); twice.code != exitUsage || f.Reason != "adopted" {
		t.Errorf("adopted twice: exit %d, %+v", twice.code, f)
	}
	if out := c.ok("dead", "ls").stdout; strings.Contains(out, "superseded") {
		t.Errorf("an adopted letter is listed:\n%s", out)
	}
	c.ok("dead", "drop", "1", "--actor", "ann")
	if out := c.ok("events", "job").stdout; !strings.Contains(out, "adopted") || !strings.Contains(out, "dropped") || !strings.Contains(out, "ann") {
		t.Error(out)
	}
}

func TestASlotIsStartedOnce(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	g := decode[granted](c.ok("acquire", "job", "--ttl", "1h", "--json"))
	job := c.holding(g)
	r := decode[execution](job.ok("runs", "start", "--slot", "2026-03-29T02:00:00+01:00", "--json"))
	if r.Slot == nil || r.Slot.Format("2006-01-02T15:04:05Z07:00") != "2026-03-29T01:00:00Z" {
		t.Errorf("slot %v", r.Slot)
	}
	job.with(envRun, r.Run).ok("runs", "finish")
	for slot, reason := range map[string]string{"2026-03-29T01:00:00Z": "slot_taken", "2126-01-01T00:00:00Z": "slot_not_due"} {
		refused := job.run("runs", "start", "--slot", slot, "--json")
		if f := decode[failure](refused); refused.code != exitHeld || f.Reason != reason {
			t.Errorf("%s: exit %d, %+v", slot, refused.code, f)
		}
	}
}

func TestWrongCallsOfRunsWriteNothing(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	job := c.started("job")
	for _, args := range [][]string{
		{"runs"}, {"runs", "start", "--slot", "tomorrow"}, {"runs", "start", "--id", "a b"}, {"runs", "start"},
		{"runs", "progress"}, {"runs", "progress", "{"}, {"runs", "progress", "1", "--run", "unknown"},
		{"runs", "finish", "--status", "done"}, {"runs", "finish", "--result", "{"}, {"runs", "finish", "--run", ""}, {"runs", "finish", "--run", "unknown"},
		{"runs", "ls", "--status", "done"}, {"runs", "ls", "--limit", "0"}, {"runs", "show", "unknown"},
		{"dead"}, {"dead", "show", "one"}, {"dead", "show", "7"}, {"dead", "adopt", "7"}, {"dead", "drop", "7"}, {"dead", "ls", "--limit", "0"},
	} {
		if r := job.run(args...); r.code != exitUsage || r.stderr == "" || r.stdout != "" {
			t.Errorf("%q: exit %d, %s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	if r := decode[execution](c.ok("runs", "show", job.env[envRun], "--json")); r.Status != "running" || r.Progress != nil || r.Result != nil {
		t.Errorf("the run: %+v", r)
	}
}
