package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/testenv"
)

func checkDemo(c *cli, r result, database string) {
	c.Helper()
	v := decode[report](r.exits(0))
	if !v.OK || v.Database != database {
		c.Errorf("%+v", v)
	}
	f, p := v.Fenced, v.Plain
	if f.Fences["A"] != 1 || f.Fences["B"] != 2 || f.ExitCodes["A"] != exitStale || f.ExitCodes["B"] != 0 || f.Reason != "superseded" || f.Current != 2 || f.Winner != "B" {
		c.Errorf("fenced: %+v", f)
	}
	if p.Fences["A"] != 1 || p.Fences["B"] != 2 || p.ExitCodes["A"] != 0 || p.ExitCodes["B"] != 0 || p.Winner != "A" {
		c.Errorf("plain: %+v", p)
	}
	for _, o := range []*outcome{f, p} {
		at := map[string]int64{}
		for _, m := range o.Timeline {
			at[m.Who+" "+m.What] = m.AtMS
		}
		if pause := at["demo resumed"] - at["demo paused"]; pause < demoTTL.Milliseconds()/2 || at["B acquired"] < at["demo paused"] {
			c.Errorf("%s: A was paused for %d ms: %+v", o.Lease, pause, o.Timeline)
		}
	}
	if r.took > 30*time.Second {
		c.Errorf("the demo took %v", r.took)
	}
	c.nothingWasMade()
	if left, err := os.ReadDir(c.env["TMPDIR"]); err != nil || len(left) > 0 {
		c.Errorf("the demo left %v in the temporary folder, %v", left, err)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	checkDemo(c, c.run("demo", "--json"), "sqlite")
	r := c.ok("demo")
	for _, line := range []string{
		`A     acquires "admin:reconciliation", fence 1`, "SIGSTOP to A", "B     takes over", "fence 2", "SIGCONT to A",
		"REFUSED, fence 1 was superseded by fence 2", "A     ends with exit code 76", "With the fence the database refused the stale write",
		"A's old result replaced B's",
	} {
		if !strings.Contains(r.stdout, line) {
			t.Errorf("the timeline does not say %q:\n%s", line, r.stdout)
		}
	}
	if r.stderr != "" || strings.Contains(r.stdout, "\x1b") {
		t.Errorf("stderr %q, colour without a terminal: %q", r.stderr, r.stdout)
	}
}

func TestDemoOnAServerLeavesNothingThere(t *testing.T) {
	t.Parallel()
	onEveryServer(t, func(c *cli, s *testenv.Server, database string) {
		objects := func() string {
			if s.Kind == testenv.KindPostgres {
				return textOn(c.T, s.URLFor(database), `SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE 'fencepost\_demo%') || ' ' ||
					(SELECT count(*) FROM pg_proc WHERE proname LIKE 'fencepost\_demo%')`)
			}
			return textOn(c.T, s.URLFor(database), `SELECT concat((SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'fencepost\_demo%'), ' ',
				(SELECT count(*) FROM information_schema.triggers WHERE trigger_name LIKE 'fencepost\_demo%'))`)
		}
		kind := map[testenv.Kind]string{testenv.KindPostgres: "postgres", testenv.KindMySQL: "mysql", testenv.KindMariaDB: "mysql"}[s.Kind]
		checkDemo(c, c.run("demo", "--json"), kind)
		if got := objects(); got != "0 0" {
			c.Errorf("left in the database: %s", got)
		}
		p := c.start("demo")
		p.said("SIGSTOP to A")
		p.signal(syscall.SIGINT)
		p.wait().exits(130)
		if got := objects(); got != "0 0" {
			c.Errorf("left in the database after an interruption: %s", got)
		}
	})
}

var pidOfA = regexp.MustCompile(`SIGSTOP to A \(pid (\d+)\)`)

func TestAnInterruptedDemoLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		c := newCLI(t)
		p := c.start("demo")
		p.said("SIGSTOP to A")
		match := pidOfA.FindStringSubmatch(p.stdout.String())
		if match == nil {
			t.Fatalf("no pid in %q", p.stdout.String())
		}
		if _, err := os.Stat("/proc/" + match[1]); err != nil {
			t.Fatalf("A is not there: %v", err)
		}
		p.signal(signal)
		code := 128 + int(signal)
		if signal == syscall.SIGKILL {
			code = -int(signal)
		}
		p.wait().exits(code)
		c.until(fmt.Sprintf("A (pid %s) to be gone after %v", match[1], signal), func() bool {
			_, err := os.Stat("/proc/" + match[1])
			return os.IsNotExist(err)
		})
		if left, _ := os.ReadDir(c.env["TMPDIR"]); len(left) > 0 && signal != syscall.SIGKILL {
			t.Errorf("%v left %v", signal, left)
		}
	}
}

// The check of the demo must notice a database that does not do what it promises.
func TestTheDemoComplainsWhenTheFenceDidNotHold(t *testing.T) {
	t.Parallel()
	good := &outcome{Fences: map[string]int64{"A": 1, "B": 2}, ExitCodes: map[string]int{"A": exitStale, "B": 0}, Reason: "superseded", Current: 2, Winner: "B"}
	if got := good.complaints(true); len(got) > 0 {
		t.Errorf("complaints about a good outcome: %q", got)
	}
	for name, spoil := range map[string]func(*outcome){
		"A's write was not refused": func(o *outcome) { o.ExitCodes = map[string]int{"A": 0, "B": 0}; o.Winner = "A"; o.Reason = "" },
		"fences repeat":             func(o *outcome) { o.Fences = map[string]int64{"A": 1, "B": 1} },
		"another reason":            func(o *outcome) { o.Reason = "expired" },
		"B failed":                  func(o *outcome) { o.ExitCodes = map[string]int{"A": exitStale, "B": 1} },
	} {
		bad := *good
		spoil(&bad)
		if len(bad.complaints(true)) == 0 {
			t.Errorf("no complaint although %s", name)
		}
	}
	if len(good.complaints(false)) == 0 {
		t.Error("no complaint although the plain lease refused the stale write")
	}
}
