package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestNamesThatCannotBeLeases(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, tc := range []struct{ name, says string }{
		{"", "empty"},
		{strings.Repeat("n", 201), "201 bytes; at most 200"},
		{strings.Repeat("n", 1000), "1000 bytes; at most 200"},
		{strings.Repeat("🔒", 51), "204 bytes; at most 200"},
		{"a\xffb", "not valid UTF-8"},
		{"a\nb", "control character"},
		{"a\tb", "control character"},
		{"a\x1b[31mb", "control character"},
		{"a\u0085b", "control character"},
	} {
		for _, args := range [][]string{
			{"acquire", tc.name}, {"run", tc.name, "--", "touch", "started"}, {"show", tc.name}, {"preempt", tc.name, "--fence", "1", "--reason", "r"},
			{"renew", tc.name, "--owner", "o", "--fence", "1"}, {"release", tc.name, "--owner", "o", "--fence", "1"},
			{"held", tc.name, "--owner", "o", "--fence", "1"}, {"sql", "--lease", tc.name, "--owner", "o", "--fence", "1", "SELECT 1"},
		} {
			f := c.run(append([]string{args[0], "--json"}, args[1:]...)...).exits(exitUsage).oneLine(tc.says).failure()
			if f.Error != "invalid" || !strings.Contains(f.Message, tc.says) {
				t.Errorf("%q: %+v", args, f)
			}
		}
	}
	c.nothingWasMade()
}

// nothingWasMade checks that the working directory is empty: no database, no trace of a child.
func (c *cli) nothingWasMade() {
	c.Helper()
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		c.Fatal(err)
	}
	for _, e := range entries {
		c.Errorf("%s was made", e.Name())
	}
}

func TestNamesThatLookOddAreLeasesOfTheirOwn(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		names := []string{
			"a/b", "a%2Fb", "a%252Fb", "..", "?", "#", "x y", "x y ", "X Y", "🔒", "e\u0301", "\u00e9", "\u200fabc", "null", "%", "'", `"`, `\`, "-n",
			strings.Repeat("n", 200), strings.Repeat("🔒", 50),
		}
		for _, name := range names {
			g := decode[granted](c.ok("acquire", "--json", "--ttl", "10m", "--holder", "of "+name, "--", name))
			if g.Lease != name || g.Fence != 1 {
				t := c.T
				t.Errorf("%q was granted as %+v", name, g)
			}
		}
		for _, name := range names {
			r := decode[row](c.ok("show", "--json", "--", name))
			if r.Lease != name || r.Fence != 1 || r.State != "held" || r.Holder != strings.ReplaceAll("of "+name, "\xff", "") {
				c.Errorf("show %q: %+v", name, r)
			}
		}
		type list struct{ Leases []row }
		if got := decode[list](c.ok("ls", "--json")); len(got.Leases) != len(names) {
			c.Errorf("%d leases are listed, %d were acquired", len(got.Leases), len(names))
		}
	})
}

func TestTTLsThatCannotBe(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, ttl := range []string{
		"0", "0s", "-1", "-1s", "10", "5.5", "1e3", "null", "", " 1s", "1s ", "999ms", "1.0005s", "24h1ms", "25h", "9223372036854775807", "9223372036854775807s",
		"9223372036854775807ns", "9223372036854775808ns", "1125899906842624", "4611686018427387904ms", "2540400h", "∞", "1d",
	} {
		for _, args := range [][]string{{"acquire", "job"}, {"run", "job"}, {"doctor"}} {
			args = append(args, "--ttl="+ttl, "--json")
			if args[0] == "run" {
				args = append(args, "--", "touch", "started")
			}
			if f := c.run(args...).exits(exitUsage).oneLine().failure(); f.Error != "invalid" {
				t.Errorf("%q: %+v", args, f)
			}
		}
	}
	c.nothingWasMade()
	for ttl, ms := range map[string]int64{"1s": 1000, "1500ms": 1500, "1m0.001s": 60001, "24h": 86_400_000} {
		c.acquire("job "+ttl, "--ttl", ttl)
		if r := decode[row](c.ok("show", "--json", "job "+ttl)); r.TTLMS != ms {
			t.Errorf("a TTL of %s was granted as %d ms", ttl, r.TTLMS)
		}
	}
}

func TestCallsThatCannotWork(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"acquire"}, "takes one NAME"},
		{[]string{"acquire", "a", "b"}, "takes one NAME"},
		{[]string{"acquire", "a", "--wait", "5s"}, "--wait=10s"},
		{[]string{"acquire", "a", "--wait=-1s"}, "negative"},
		{[]string{"acquire", "a", "--wait=5"}, "unit"},
		{[]string{"acquire", "a", "--bogus"}, "unknown flag: --bogus"},
		{[]string{"acquire", "a", "-x"}, "unknown shorthand"},
		{[]string{"acquire", "a", "--ttl"}, "needs an argument"},
		{[]string{"aquire", "a"}, "did you mean acquire"},
		{[]string{"nonsense"}, `unknown command "nonsense"`},
		{[]string{"help", "nonsense"}, `unknown command "nonsense"`},
		{[]string{"migrate"}, "needs a subcommand"},
		{[]string{"migrate", "down"}, `unknown command "down"`},
		{[]string{"migrate", "adopt"}, "one TABLE"},
		{[]string{"migrate", "sql", "--engine", "oracle"}, "oracle"},
		{[]string{"run", "a"}, "fencepost run NAME -- COMMAND"},
		{[]string{"run", "a", "touch", "started"}, "fencepost run NAME -- COMMAND"},
		{[]string{"run", "a", "--"}, "no command"},
		{[]string{"run", "--", "touch", "started"}, "fencepost run NAME -- COMMAND"},
		{[]string{"run", "a", "--wait", "1h", "--", "touch", "started"}, "--wait=1h"},
		{[]string{"run", "a", "--orphans=adopt", "--", "touch", "started"}, "kill, wait or warn"},
		{[]string{"run", "a", "--kill-after=-1s", "--", "touch", "started"}, "negative"},
		{[]string{"run", "a", "--ttl=3s", "--kill-after=1700ms", "--", "touch", "started"}, "two thirds of the TTL, 2s"},
		{[]string{"run", "a", "--kill-after=2540400h", "--", "touch", "started"}, "does not fit"},
		{[]string{"preempt", "a"}, "--fence N"},
		{[]string{"preempt", "a", "--fence", "1"}, "--reason"},
		{[]string{"preempt", "a", "--fence", "1", "--reason", " "}, "--reason"},
		{[]string{"preempt", "a", "--fence", "-1", "--reason", "r"}, "whole number"},
		{[]string{"ls", "a"}, "no argument"},
		{[]string{"ls", "--limit", "0"}, "--limit"},
		{[]string{"ls", "--limit", "many"}, "--limit"},
		{[]string{"ls", "--prefix", "Robert'); DROP TABLE x;--"}, "prefix"},
		{[]string{"ls", "--schema", "jobs"}, "PostgreSQL"},
		{[]string{"ls", "--db", ""}, "--db is empty"},
		{[]string{"events", "--after", "-1"}, "--after"},
		{[]string{"events", "--limit", "0"}, "--limit"},
		{[]string{"doctor", "now"}, "no argument"},
		{[]string{"demo", "now"}, "no argument"},
		{[]string{"version", "now"}, "no argument"},
	} {
		c.run(tc.args...).exits(exitUsage).oneLine(tc.says)
		command := append(append([]string{}, tc.args[:1]...), append([]string{"--json"}, tc.args[1:]...)...)
		if f := c.run(command...).exits(exitUsage).failure(); f.Error != "invalid" || f.Message == "" {
			t.Errorf("%q: %+v", command, f)
		}
	}
	c.nothingWasMade()
}

func TestDatabasesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	nobody := closedAddress(t)
	notSQLite := filepath.Join(c.dir, "notes.txt")
	if err := os.WriteFile(notSQLite, bytes.Repeat([]byte("no database\n"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	text := mustRead(t, notSQLite)
	commands := [][]string{
		{"acquire", "job"}, {"run", "job", "--", "touch", "started"}, {"ls"}, {"show", "job"}, {"events"},
		{"held", "job", "--owner", "o", "--fence", "1"}, {"preempt", "job", "--fence", "1", "--reason", "r"}, {"doctor"}, {"migrate", "status"}, {"demo"},
	}
	for _, tc := range []struct {
		db   string
		code int
		says string
	}{
		{"oracle://app:s3cret-canary@db/x", exitUsage, "must begin with"},
		{"app:s3cret-canary@tcp(db:3306)/x", exitUsage, "must begin with"},
		{"s3cret-canary", exitUsage, "must begin with"},
		{"mysql://app:s3cret-canary@" + nobody, exitUsage, "database"},
		{"mysql://app:s3cret-canary%zz@" + nobody + "/x", exitUsage, ""},
		{"postgres://app:s3cret-canary%zz@" + nobody + "/x", exitUsage, ""},
		{"postgres://app:s3cret-canary@" + nobody + "/x?bogus=%zz", exitUsage, ""},
		{"mysql://app:s3cret-canary@" + nobody + "/x", exitUnavailable, ""},
		{"mariadb://app:s3cret-canary@" + nobody + "/x", exitUnavailable, ""},
		{"postgres://app:s3cret-canary@" + nobody + "/x", exitUnavailable, ""},
		{"postgres://app:s3cret-canary@no-such-host.invalid/x", exitUnavailable, ""},
		{"mysql://app:s3cret-canary@no-such-host.invalid/x", exitUnavailable, ""},
		{"sqlite:", exitUsage, "no file"},
		{"sqlite::memory:", exitUsage, ""},
		{"sqlite:no/such/folder/x.db", exitUnavailable, "folder"},
		{"sqlite:" + c.dir, exitUnavailable, ""},
		{"sqlite:" + notSQLite, exitUnavailable, "not a SQLite database"},
	} {
		for _, command := range commands {
			r := c.with(envDB, tc.db).run(append([]string{command[0], "--json"}, command[1:]...)...).exits(tc.code).oneLine(tc.says)
			if f := r.failure(); f.Error != map[int]string{exitUsage: "invalid", exitUnavailable: "unavailable"}[tc.code] {
				t.Errorf("%s %q: %+v", tc.db, command, f)
			}
			if strings.Contains(r.stdout+r.stderr, "s3cret-canary") {
				t.Errorf("%q shows the password: %s%s", command, r.stdout, r.stderr)
			}
		}
	}
	if !bytes.Equal(mustRead(t, notSQLite), text) {
		t.Error("a file that is no database was changed")
	}
	os.Remove(notSQLite)
	c.nothingWasMade()
}

// closedAddress is an address at which nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestAReadOnlyFileIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.acquire("job", "--ttl", "1h")
	file := filepath.Join(c.dir, "read-only.db")
	if err := os.WriteFile(file, mustRead(t, filepath.Join(c.dir, "fencepost.db")), 0o444); err != nil {
		t.Fatal(err)
	}
	reader := c.with(envDB, "sqlite:"+file)
	if os.Geteuid() == 0 { // whom no file's rights stop
		reader.as = &syscall.Credential{Uid: 65534, Gid: 65534}
		for _, folder := range []string{filepath.Dir(c.dir), c.dir} {
			if err := os.Chmod(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	} else if err := os.Chmod(c.dir, 0o500); err != nil {
		t.Fatal(err)
	} else {
		defer os.Chmod(c.dir, 0o700)
	}
	before := mustRead(t, file)
	for _, command := range [][]string{{"acquire", "other"}, {"run", "other", "--", "true"}} {
		f := reader.run(append([]string{command[0], "--json"}, command[1:]...)...).exits(exitUnavailable).oneLine().failure()
		if f.Error != "unavailable" {
			t.Errorf("%q: %+v", command, f)
		}
		t.Log(f.Message)
	}
	if !bytes.Equal(mustRead(t, file), before) {
		t.Error("the file was changed")
	}
}

func TestAServerWithoutTheSchemaNamesTheCommand(t *testing.T) {
	t.Parallel()
	onEveryServer(t, func(c *cli, s *testenv.Server, _ string) {
		empty := createDatabase(c.T, s)
		c = c.with(envDB, s.URLFor(empty))
		for _, command := range [][]string{
			{"acquire", "job"}, {"run", "job", "--", "touch", "started"}, {"ls"}, {"show", "job"}, {"events"}, {"migrate", "status"},
			{"held", "job", "--owner", "o", "--fence", "1"}, {"preempt", "job", "--fence", "1", "--reason", "r"},
		} {
			c.run(command...).exits(exitUnavailable).oneLine("fencepost migrate up")
		}
		if d := c.run("doctor"); d.code != exitUnavailable || !strings.Contains(d.stdout, "migrate up") {
			c.Errorf("doctor: %d %s%s", d.code, d.stdout, d.stderr)
		}
		c.nothingWasMade()
	})
}

func TestAWrongPasswordIsSaidWithoutShowingIt(t *testing.T) {
	t.Parallel()
	onEveryServer(t, func(c *cli, s *testenv.Server, database string) {
		url := strings.Replace(s.URLFor(database), "://"+s.User+":"+s.Password+"@", "://nobody:s3cret-canary@", 1)
		if !strings.Contains(url, "s3cret-canary") {
			url = strings.Replace(s.URLFor(database), "://"+s.User+"@", "://nobody:s3cret-canary@", 1)
		}
		if !strings.Contains(url, "s3cret-canary") {
			c.Fatalf("no password in the URL of %s", s.Kind)
		}
		for _, command := range [][]string{{"ls"}, {"acquire", "job"}, {"doctor"}, {"migrate", "up"}, {"demo"}, {"run", "j", "--", "touch", "started"}} {
			r := c.with(envDB, url).run(command...).exits(exitUnavailable).oneLine()
			if strings.Contains(r.stdout+r.stderr, "s3cret-canary") {
				c.Errorf("%q shows the password: %s%s", command, r.stdout, r.stderr)
			}
		}
	})
}
