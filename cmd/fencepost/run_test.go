package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fencepost/fencepost"
)

func TestRunReturnsTheCommandsOwnCode(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	if err := os.WriteFile(filepath.Join(c.dir, "plain"), []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		command []string
		code    int
	}{
		{[]string{"sh", "-c", "exit 0"}, 0},
		{[]string{"sh", "-c", "exit 1"}, 1},
		{[]string{"sh", "-c", "exit 2"}, 2},
		{[]string{"sh", "-c", "exit 5"}, 5},
		{[]string{"sh", "-c", "exit 76"}, 76},
		{[]string{"sh", "-c", "exit 255"}, 255},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143},
		{[]string{"no-such-command"}, 127},
		{[]string{"./no-such-command"}, 127},
		{[]string{"./plain"}, 126},
	} {
		r := c.run(append([]string{"run", "job", "--"}, tc.command...)...).exits(tc.code)
		if said := r.stderr != ""; said != (tc.code == 126 || tc.code == 127) {
			t.Errorf("%q: stderr is %q", tc.command, r.stderr)
		}
		if info := decode[row](c.ok("show", "job", "--json")); info.State != "free" {
			t.Errorf("%q left the lease %s", tc.command, info.State)
		}
	}
}

func TestRunGivesTheTokenToTheCommand(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		c.acquire("job") // so that the command's fence is not the first one
		s := c.store()
		info := c.inspect(s, "job")
		c.ok("preempt", "job", "--fence", fmt.Sprint(info.Fence), "--reason", "test")
		execOn(c.T, c.url(), "CREATE TABLE results (n INTEGER)")
		script := fmt.Sprintf(`%[1]s held >&2 && cd / && %[1]s sql 'INSERT INTO results VALUES (41)' >&2 &&
			%[1]s renew >&2 && echo "$FENCEPOST_LEASE $FENCEPOST_FENCE"`, program)
		r := c.ok("run", "job", "--", "sh", "-c", script)
		if r.stdout != "job 3\n" {
			c.Errorf("the command printed %q", r.stdout)
		}
	})
}

func TestRunPassesStdinAndOutput(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	p := c.startVia([]string{"sh", "-c", `echo hello | "$0" "$@"`}, "run", "job", "--", "sh", "-c", `read x; echo "got $x"; echo "oops" >&2`)
	if r := p.wait().exits(0); r.stdout != "got hello\n" || r.stderr != "oops\n" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	r := c.ok("run", "job", "--json", "--", "sh", "-c", "echo work")
	if v := decode[ran](r); v.Lease != "job" || v.Fence != 2 || v.ExitCode != 0 || !v.Released || r.stderr != "work\n" {
		t.Errorf("%+v, stderr %q", v, r.stderr)
	}
}

func TestRunForwardsSignalsAndReleasesAfterTheCommand(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	s := c.store()
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		name := strings.TrimPrefix(signalName(signal), "SIG")
		// After the signal the command goes on until it is allowed to end: the lease must not be released before.
		gate := filepath.Join(t.TempDir(), "gate")
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		script := fmt.Sprintf(`trap 'got=%[1]s' %[1]s; echo ready; while [ -z "$got" ]; do read x <&3 || true; done 3<>%[2]s.wait; echo "got $got"; read x <%[2]s; exit 9`, name, gate)
		if err := syscall.Mkfifo(gate+".wait", 0o600); err != nil {
			t.Fatal(err)
		}
		p := c.start("run", "job", "--ttl", "1m", "--", "sh", "-c", script)
		p.said("ready")
		p.signal(signal)
		p.said("got " + name)
		if info := c.inspect(s, "job"); info.State() != fencepost.StateHeld || !p.running() {
			t.Errorf("%s: the lease is %s while the command runs", name, info.State())
		}
		if err := os.WriteFile(gate, []byte("end\n"), 0); err != nil {
			t.Fatal(err)
		}
		r := p.wait().exits(9)
		if n := strings.Count(r.stdout, "got"); n != 1 {
			t.Errorf("%s arrived %d times", name, n)
		}
		if info := c.inspect(s, "job"); info.State() != fencepost.StateFree {
			t.Errorf("%s: the lease is %s after the command", name, info.State())
		}
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := c.start("run", "job", "--ttl", "1m", "--", "sh", "-c", "echo ready; exec sleep 1000")
		p.said("ready")
		p.signal(signal)
		p.wait().exits(128 + int(signal))
		if info := c.inspect(s, "job"); info.State() != fencepost.StateFree {
			t.Errorf("%v: the lease is %s", signal, info.State())
		}
	}
}

func TestTheCommandInheritsNoOtherDescriptor(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	r := c.ok("run", "job", "--", "sh", "-c", "ls /proc/$$/fd; :")
	if got := strings.Fields(r.stdout); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("the command has descriptors %q", got)
	}
}

func TestNothingOutlivesTheCommandUnlessItIsAllowedTo(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	s := c.store()
	daemon := `setsid sh -c 'echo $$ > daemon; exec sleep 1000' >/dev/null 2>&1 </dev/null & while [ ! -s daemon ]; do :; done; exit 4`
	pid := func() string { return strings.TrimSpace(string(mustRead(t, filepath.Join(c.dir, "daemon")))) }
	alive := func(pid string) bool { _, err := os.Stat("/proc/" + pid); return err == nil }

	r := c.run("run", "job", "--json", "--", "sh", "-c", daemon).exits(4)
	if v := decode[ran](r); len(v.Orphans) != 1 || fmt.Sprint(v.Orphans[0].PID) != pid() || !v.Released {
		t.Errorf("kill: %+v", v)
	}
	if alive(pid()) {
		t.Errorf("kill: the daemon %s lives", pid())
	}

	os.Remove(filepath.Join(c.dir, "daemon"))
	p := c.start("run", "job", "--orphans=wait", "--ttl", "1m", "--", "sh", "-c", daemon)
	p.until("the daemon to be there", func() bool { b, _ := os.ReadFile(filepath.Join(c.dir, "daemon")); return len(b) > 1 })
	p.until("only the daemon to be left", func() bool { return childrenOf(t, p.cmd.Process.Pid) == pid() })
	if info := c.inspect(s, "job"); info.State() != fencepost.StateHeld || !p.running() {
		t.Errorf("wait: the lease is %s while the daemon lives", info.State())
	}
	p.signal(syscall.SIGTERM)
	p.wait().exits(4)
	if info := c.inspect(s, "job"); info.State() != fencepost.StateFree || alive(pid()) {
		t.Errorf("wait: the lease is %s, the daemon lives: %t", info.State(), alive(pid()))
	}

	os.Remove(filepath.Join(c.dir, "daemon"))
	if r := c.run("run", "job", "--orphans=warn", "--", "sh", "-c", daemon).exits(4); !strings.Contains(r.stderr, pid()) {
		t.Errorf("warn: stderr is %q", r.stderr)
	}
	if !alive(pid()) {
		t.Error("warn: the daemon is dead")
	}
	if info := c.inspect(s, "job"); info.State() != fencepost.StateFree {
		t.Errorf("warn: the lease is %s", info.State())
	}
	var n int
	if _, err := fmt.Sscan(pid(), &n); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(n, syscall.SIGKILL)
}

// childrenOf lists the living processes below one, without the program's own.
func childrenOf(t *testing.T, pid int) string {
	t.Helper()
	var found []string
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if fields[1] != fmt.Sprint(pid) || fields[0] == "Z" {
			continue
		}
		if line, err := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline")); err == nil && strings.Contains(string(line), "fencepost-watchdog") {
			continue // the program's own
		}
		found = append(found, filepath.Base(filepath.Dir(stat)))
	}
	return strings.Join(found, " ")
}
