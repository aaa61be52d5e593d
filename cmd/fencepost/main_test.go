package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

// program is the real binary, which all tests run as a process.
var program string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "fencepost-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o755); err != nil { // tests run it as another user too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = filepath.Join(folder, "fencepost")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	// They mostly wait, for leases to run out and for servers that do not answer.
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// testPatience is the patience of a test with everything that must happen; never a measure of speed.
const testPatience = 60 * time.Second

// cli runs the program in a folder of its own, with an environment of its own.
type cli struct {
	*testing.T
	dir string
	env map[string]string
	as  *syscall.Credential // another user; nil is the test's own
}

// newCLI uses SQLite in a new folder.
func newCLI(t *testing.T) *cli {
	t.Helper()
	return newCLIOn(t, "")
}

// newCLIOn uses a database that is there already; empty is SQLite in the working directory, as by default.
func newCLIOn(t *testing.T, url string) *cli {
	t.Helper()
	c := &cli{T: t, dir: t.TempDir(), env: map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "TMPDIR": t.TempDir(), "TZ": "America/Sao_Paulo",
	}}
	if url != "" {
		c.env[envDB] = url
	}
	return c
}

// with returns a copy with other variables.
func (c *cli) with(pairs ...string) *cli {
	other := *c
	other.env = map[string]string{}
	for name, value := range c.env {
		other.env[name] = value
	}
	for i := 0; i < len(pairs); i += 2 {
		other.env[pairs[i]] = pairs[i+1]
	}
	return &other
}

// holding returns a copy with a token in the environment.
func (c *cli) holding(g granted) *cli {
	return c.with(envLease, g.Lease, envOwner, g.Owner, envFence, fmt.Sprint(g.Fence))
}

func (c *cli) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = c.dir
	if c.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	}
	for name, value := range c.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// result is how a process ended.
type result struct {
	t              *testing.T
	args           []string
	stdout, stderr string
	code           int
	took           time.Duration
}

// run waits for the end of the program.
func (c *cli) run(args ...string) result {
	c.Helper()
	return c.start(args...).wait()
}

// ok runs the program, which must succeed.
func (c *cli) ok(args ...string) result {
	c.Helper()
	r := c.run(args...)
	if r.code != 0 {
		c.Fatalf("fencepost %q: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
	}
	return r
}

// exits checks the exit code, and that a failure is one line on stderr.
func (r result) exits(code int) result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("fencepost %q: exit code %d, want %d\nstdout: %s\nstderr: %s", r.args, r.code, code, r.stdout, r.stderr)
	}
	return r
}

func (r result) oneLine(contains ...string) result {
	r.t.Helper()
	if !strings.HasPrefix(r.stderr, "fencepost: ") || strings.Count(r.stderr, "\n") != 1 || !strings.HasSuffix(r.stderr, "\n") {
		r.t.Errorf("fencepost %q: stderr is not one line: %q", r.args, r.stderr)
	}
	for _, text := range contains {
		if !strings.Contains(r.stderr, text) {
			r.t.Errorf("fencepost %q: stderr does not say %q: %s", r.args, text, r.stderr)
		}
	}
	return r
}

// decode reads the one JSON value that is all of stdout.
func decode[T any](r result) T {
	r.t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		r.t.Fatalf("fencepost %q: stdout is not JSON: %v\n%s%s", r.args, err, r.stdout, r.stderr)
	}
	if d.More() {
		r.t.Fatalf("fencepost %q: more than one JSON value on stdout:\n%s", r.args, r.stdout)
	}
	return v
}

func (r result) failure() failure { r.t.Helper(); return decode[failure](r) }

// acquire must be granted.
func (c *cli) acquire(name string, args ...string) granted {
	c.Helper()
	return decode[granted](c.ok(append([]string{"acquire", name, "--json"}, args...)...))
}

// url names the database absolutely.
func (c *cli) url() string {
	if url := c.env[envDB]; url != "" {
		return url
	}
	return "sqlite:" + filepath.Join(c.dir, "fencepost.db")
}

// store opens the same leases from the test itself.
func (c *cli) store() database {
	c.Helper()
	p := place{url: c.url(), given: true, prefix: c.env[envPrefix], schema: c.env[envSchema]}
	s, err := p.open(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { s.Close() })
	return s
}

func (c *cli) inspect(s database, name string) fencepost.LeaseInfo {
	c.Helper()
	info, _, err := s.Inspect(c.Context(), name)
	if err != nil {
		c.Fatal(err)
	}
	return info
}

func (c *cli) awaitState(s database, name, state string) fencepost.LeaseInfo {
	c.Helper()
	var info fencepost.LeaseInfo
	c.until(fmt.Sprintf("lease %q to be %s", name, state), func() bool {
		info = c.inspect(s, name)
		return info.State() == state && info.Fence > 0
	})
	return info
}

// until waits for what cannot announce itself, by asking again and again.
func (c *cli) until(what string, happened func() bool) {
	c.Helper()
	deadline := time.NewTimer(testPatience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline.C:
			c.Fatalf("waited %v in vain for %s", testPatience, what)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b)
}
