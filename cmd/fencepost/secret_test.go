package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/testenv"
)

// A password is in no output of any command, whether it works or not.
func TestNoCommandShowsThePassword(t *testing.T) {
	t.Parallel()
	const canary = "c4nary%25%40%2Fpass" // with characters that a URL has to escape
	onEveryServer(t, func(c *cli, s *testenv.Server, database string) {
		create := fmt.Sprintf("CREATE USER canary_%s IDENTIFIED BY 'c4nary%%@/pass'", database[len(database)-10:])
		grant := fmt.Sprintf("GRANT ALL ON %s.* TO canary_%s", database, database[len(database)-10:])
		user := "canary_" + database[len(database)-10:]
		if s.Kind == testenv.KindPostgres {
			create = fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD 'c4nary%%@/pass'", user)
			grant = "SELECT 1"
		}
		execOn(c.T, s.URL, create)
		execOn(c.T, s.URL, grant)
		good := strings.Replace(s.URLFor(database), "://"+s.User+":"+s.Password+"@", "://"+user+":"+canary+"@", 1)
		bad := strings.Replace(good, canary, canary+"-wrong", 1)
		unreachable := strings.Replace(good, s.Addr(), closedAddress(c.T), 1)
		if good == s.URLFor(database) || unreachable == good {
			c.Fatal("the URL was not changed")
		}
		commands := [][]string{
			{"acquire", "job"}, {"acquire", "job"}, {"run", "job2", "--", "true"}, {"run", "job2", "--", "no-such-command"}, {"ls"}, {"show", "job"}, {"show", "none"},
			{"events"}, {"held", "job", "--owner", "o", "--fence", "1"}, {"renew", "job", "--owner", "o", "--fence", "1"},
			{"release", "job", "--owner", "o", "--fence", "1"}, {"sql", "--lease", "job", "--owner", "o", "--fence", "1", "DELETE FROM t"},
			{"preempt", "job", "--fence", "9", "--reason", "r"}, {"migrate", "up"}, {"migrate", "status"}, {"migrate", "sql"}, {"migrate", "adopt", "no_such_table"},
			{"doctor"}, {"version"}, {"help"}, {"nonsense"}, {"ls", "--bogus"},
		}
		for _, url := range []string{good, bad, unreachable, "bogus" + good} {
			for _, command := range commands {
				for _, given := range []*cli{c.with(envDB, url), c.with(envDB, "")} {
					args := append([]string{}, command...)
					if given.env[envDB] == "" {
						args = append([]string{"--db", url}, args...)
					}
					for _, format := range []string{"", "--json"} {
						if format != "" {
							args = append([]string{format}, args...)
						}
						r := given.run(args...)
						if strings.Contains(r.stdout+r.stderr, "c4nary") {
							c.Errorf("%q (exit code %d) shows the password:\n%s%s", command, r.code, r.stdout, r.stderr)
						}
					}
				}
			}
		}
		// As an argument in the wrong place.
		for _, args := range [][]string{{good}, {"acquire", "job", good}, {"migrate", good}, {"help", good}, {"migrate", "sql", "--engine", good}, {"acquire", "job", "--ttl", good}} {
			if r := c.run(args...).exits(exitUsage).oneLine(); strings.Contains(r.stdout+r.stderr, "c4nary") {
				c.Errorf("%q: %s%s", args[:len(args)-1], r.stdout, r.stderr)
			}
		}
		// Processes of a run and of the demo: neither their arguments nor, when the URL came from a file, their environment.
		file := filepath.Join(c.T.TempDir(), "url")
		if err := os.WriteFile(file, []byte(good+"\n"), 0o600); err != nil {
			c.Fatal(err)
		}
		byFile := c.with(envDB, "", envDBFile, file)
		for _, args := range [][]string{{"run", "job3", "--", "sh", "-c", "env; cat /proc/$$/cmdline /proc/$PPID/cmdline; :"}} {
			if r := byFile.ok(args...); strings.Contains(r.stdout+r.stderr, "c4nary") {
				c.Errorf("%q shows the password", args)
			}
		}
		p := byFile.start("demo", "--json")
		shown := false
		for p.running() {
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, line := range lines {
				text, _ := os.ReadFile(line)
				// Other processes of this test have it in their arguments on purpose.
				shown = shown || strings.Contains(string(text), demoWorkerName) && strings.Contains(string(text), "c4nary")
			}
		}
		if r := p.wait().exits(0); shown || strings.Contains(r.stdout+r.stderr, "c4nary") {
			c.Errorf("the demo shows the password, in arguments: %t", shown)
		}
	})
}
