package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
)

// stubborn is a command that ignores every polite signal, as does its child, and says when each of them runs.
const stubborn = `trap '' TERM INT HUP QUIT; sh -c 'trap "" TERM; echo child $$; while :; do sleep 0.05; done' & echo leader $$; while :; do sleep 0.05; done`

// pids waits until both processes of stubborn have said who they are.
func (p *process) pids() []string {
	p.Helper()
	p.said("child ")
	p.said("leader ")
	var pids []string
	for line := range strings.Lines(p.stdout.String()) {
		fields := strings.Fields(line)
		pids = append(pids, fields[1])
	}
	return pids
}

func anyAlive(pids []string) bool {
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			return true
		}
	}
	return false
}

// A partition that the holder cannot see: its processes must be dead while the lease still stands, by the database's own clock.
func TestTheCommandIsDeadBeforeTheLeaseEndsWhenTheDatabaseFallsSilent(t *testing.T) {
	t.Parallel()
	onEveryServer(t, func(direct *cli, s *testenv.Server, database string) {
		proxy := testenv.NewProxy(direct.T, s.Addr())
		behind := direct.with(envDB, s.URLVia(proxy.Addr(), database))
		store := direct.store()
		for round := range 2 {
			name := fmt.Sprintf("job %d", round)
			p := behind.start("run", name, "--ttl", "6s", "--kill-after", "2s", "--", "sh", "-c", stubborn)
			pids := p.pids()
			next := direct.start("run", name, "--ttl", "1m", "--wait", "--", "sh", "-c", fmt.Sprintf(
				`for pid in %s; do if kill -0 $pid 2>/dev/null && ! grep -q ') Z ' /proc/$pid/stat; then echo OVERLAP; fi; done; echo alone`, strings.Join(pids, " ")))
			direct.until("somebody to wait", func() bool { return direct.inspect(store, name).Wanted })
			proxy.Blackhole()
			direct.until("the command to be dead", func() bool {
				if !anyAlive(pids) {
					return true
				}
				if info := direct.inspect(store, name); info.Fence != 1 || info.State() != fencepost.StateHeld {
					// Look again: it may have died between the two looks.
					if anyAlive(pids) {
						direct.Fatalf("the command lives, and its lease is %s with fence %d", info.State(), info.Fence)
					}
				}
				return false
			})
			r := p.wait().exits(exitStale)
			if !strings.Contains(r.stderr, "no renewal was confirmed in time") {
				direct.Errorf("stderr: %s", r.stderr)
			}
			if r := next.wait().exits(0); r.stdout != "alone\n" {
				direct.Errorf("the next holder says %q", r.stdout)
			}
			proxy.Restore()
		}
	})
}

func TestTheCommandIsStoppedWhenTheLeaseIsTakenAway(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		// A command that ends with 0 when it is told to stop has not succeeded.
		p := c.start("run", "job", "--ttl", "3s", "--", "sh", "-c", `trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
		p.said("ready")
		c.ok("preempt", "job", "--fence", "1", "--reason", "test", "--actor", "operator")
		p.wait().exits(exitStale)
		c.until("the loss to be recorded", func() bool {
			return strings.Contains(c.ok("events", "job").stdout, "lost")
		})
		for _, says := range []string{"superseded by fence 2", `"operator"`, "was stopped, exit code 0"} {
			if !strings.Contains(p.stderr.String(), says) {
				c.Errorf("stderr does not say %q: %s", says, p.stderr.String())
			}
		}
		q := c.start("run", "job", "--ttl", "3s", "--kill-after", "100ms", "--json", "--", "sh", "-c", stubborn)
		q.until("the command to run", func() bool { return strings.Count(q.stderr.String(), "\n") == 2 })
		c.ok("preempt", "job", "--fence", "3", "--reason", "test")
		r := q.wait().exits(exitStale)
		if f := r.failure(); f.Error != "stale" || f.Reason != "superseded" || *f.CurrentFence != 4 || !strings.Contains(f.Message, "was killed") {
			c.Errorf("%+v", f)
		}
	})
}

// The loss happens when it can no longer be noticed by a renewal: right before the command ends.
func TestALossAtTheVeryEndIsNotSuccess(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	p := c.start("run", "job", "--ttl", "1h", "--", "sh", "-c", fmt.Sprintf(`%s preempt job --fence 1 --reason now --db %q >/dev/null; exit 0`, program, c.url()))
	p.wait().exits(exitStale).oneLine("superseded by fence 2", "before the command ended by itself with exit code 0")
}

func TestTheLeaseIsFreeAsSoonAsTheCommandWasInterrupted(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		s := c.store()
		p := c.start("run", "job", "--ttl", "5m", "--", "sh", "-c", "echo ready; exec sleep 1000")
		p.said("ready")
		p.signal(syscall.SIGTERM)
		p.wait().exits(143)
		if info := c.inspect(s, "job"); info.State() != fencepost.StateFree || info.Fence != 1 {
			c.Errorf("the lease is %s, fence %d", info.State(), info.Fence)
		}
	})
}

// A renewal is on its way while the run ends: it must neither keep the release from happening nor bring the lease back.
func TestALateRenewalCannotTakeTheReleaseBack(t *testing.T) {
	t.Parallel()
	onEveryServer(t, func(direct *cli, s *testenv.Server, database string) {
		proxy := testenv.NewProxy(direct.T, s.Addr())
		store := direct.store()
		p := direct.with(envDB, s.URLVia(proxy.Addr(), database)).start("run", "job", "--ttl", "3s", "--", "sh", "-c", "echo ready; exec sleep 1000")
		p.said("ready")
		proxy.Hold(testenv.ToServer)
		proxy.AwaitHeld(direct.T, testenv.ToServer)
		p.signal(syscall.SIGTERM)
		direct.until("the command to be dead", func() bool { return childrenOf(direct.T, p.cmd.Process.Pid) == "" })
		proxy.Release(testenv.ToServer)
		p.wait().exits(143)
		// The process is gone, and with it the sender of every late renewal.
		direct.until("the lease to be free", func() bool { return direct.inspect(store, "job").State() == fencepost.StateFree })
		if info := direct.inspect(store, "job"); info.State() != fencepost.StateFree || info.Fence != 1 {
			direct.Errorf("the lease is %s, fence %d", info.State(), info.Fence)
		}
	})
}

func TestTheReleaseDoesNotWaitForADatabaseThatIsGone(t *testing.T) {
	t.Parallel()
	onEveryServer(t, func(direct *cli, s *testenv.Server, database string) {
		proxy := testenv.NewProxy(direct.T, s.Addr())
		p := direct.with(envDB, s.URLVia(proxy.Addr(), database)).start("run", "job", "--ttl", "5m", "--", "sh", "-c", "echo ready; read x </dev/null; exec sleep 1000")
		p.said("ready")
		proxy.Blackhole()
		began := time.Now()
		p.signal(syscall.SIGTERM)
		p.wait().exits(143).oneLine("could not be released")
		if took := time.Since(began); took > 10*time.Second {
			direct.Errorf("the end took %v", took)
		}
	})
}

// What SIGKILL leaves behind: no process, and a lease that ends by itself.
func TestAKilledHolderIsSucceededAfterItsTTL(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	p := c.start("run", "job", "--ttl", "2s", "--", "sh", "-c", stubborn)
	pids := p.pids()
	p.signal(syscall.SIGKILL)
	p.wait().exits(-int(syscall.SIGKILL))
	c.until("the command to be dead", func() bool { return !anyAlive(pids) })
	c.run("acquire", "job").exits(exitHeld)
	if g := c.acquire("job", "--wait"); g.Fence != 2 {
		t.Errorf("granted %+v", g)
	}
	if events := c.ok("events", "job").stdout; !strings.Contains(events, "taken_over") {
		t.Errorf("events:\n%s", events)
	}
}

func TestALongCommandKeepsItsLease(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		s := c.store()
		p := c.start("run", "job", "--ttl", "2s", "--", "sh", "-c", "echo ready; exec sleep 1000")
		p.said("ready")
		first := c.inspect(s, "job").AcquiredAt
		c.until("two TTLs to pass by the database's clock", func() bool {
			info := c.inspect(s, "job")
			if info.State() != fencepost.StateHeld || info.Fence != 1 {
				c.Fatalf("the lease is %s, fence %d", info.State(), info.Fence)
			}
			return info.RenewedAt.Sub(first) > 4*time.Second
		})
		p.signal(syscall.SIGTERM)
		p.wait().exits(143)
	})
}

func TestTheStoppingFitsTheTTL(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ttl, killAfter, margin time.Duration
		given, fits            bool
	}{
		{time.Second, 0, 400 * time.Millisecond, false, true},
		{10 * time.Second, 0, 3 * time.Second, false, true},
		{30 * time.Second, 0, 9 * time.Second, false, true},
		{24 * time.Hour, 0, 70 * time.Second, false, true},
		{30 * time.Second, 0, 3 * time.Second, true, true},
		{30 * time.Second, 16 * time.Second, 19 * time.Second, true, true},
		{30 * time.Second, 17 * time.Second, 20 * time.Second, true, false},
		{30 * time.Second, -time.Second, 0, true, false},
		{time.Second, time.Duration(1<<63 - 1), 0, true, false},
	} {
		got, err := stoppingIn(tc.ttl, tc.killAfter, tc.given)
		if (err == nil) != tc.fits || (tc.fits && got.margin() != tc.margin) {
			t.Errorf("%+v: %+v, %v", tc, got, err)
		}
	}
}

// A paused run cannot stop its command; it does so the moment it is resumed.
func TestAResumedRunStopsACommandThatLostItsLease(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	s := c.store()
	p := c.start("run", "job", "--ttl", "2s", "--", "sh", "-c", stubborn)
	pids := p.pids()
	p.signal(syscall.SIGSTOP)
	c.awaitState(s, "job", fencepost.StateExpired)
	c.acquire("job", "--ttl", "1h")
	p.signal(syscall.SIGCONT)
	p.wait().exits(exitStale)
	if anyAlive(pids) {
		t.Error("the command lives")
	}
	if info := c.inspect(s, "job"); info.State() != fencepost.StateHeld || info.Fence != 2 {
		t.Errorf("the successor's lease is %s, fence %d", info.State(), info.Fence)
	}
}
