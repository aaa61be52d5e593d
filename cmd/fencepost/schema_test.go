package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestTheSchemaIsAppliedOnceByManyReplicas(t *testing.T) {
	t.Parallel()
	onEveryServer(t, func(c *cli, s *testenv.Server, _ string) {
		c = c.with(envDB, s.URLFor(createDatabase(c.T, s)))
		var replicas []*process
		for range 16 {
			replicas = append(replicas, c.start("migrate", "up", "--json"))
		}
		type done struct{ Applied []int64 }
		applied, twice := map[int64]int{}, 0
		for _, p := range replicas {
			for _, version := range decode[done](p.wait().exits(0)).Applied {
				if applied[version]++; applied[version] > 1 {
					twice++
				}
			}
		}
		if applied[1] != 1 || twice > 0 {
			c.Errorf("each migration must be applied once: %v", applied)
		}
		if got := c.ok("migrate", "status").stdout; !strings.Contains(got, "up to date") {
			c.Errorf("status: %s", got)
		}
		if got := c.ok("migrate", "up").stdout; got != "the schema is up to date\n" {
			c.Errorf("up again: %s", got)
		}
	})
}

func TestThePrintedSchemaNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, engine := range []string{"sqlite", "postgres", "mysql", "mariadb"} {
		text := c.ok("migrate", "sql", "--engine", engine, "--prefix", "app_").stdout
		if !strings.Contains(text, "CREATE TABLE") || !strings.Contains(text, "app_leases") || strings.Contains(text, "fencepost_leases") {
			t.Errorf("%s:\n%s", engine, text)
		}
		type printed struct{ SQL string }
		if got := decode[printed](c.ok("migrate", "sql", "--engine", engine, "--prefix", "app_", "--json")); got.SQL != text {
			t.Errorf("%s: the JSON differs from the text", engine)
		}
	}
	if text := c.ok("migrate", "sql", "--db", "postgres://app:secret@nowhere.invalid/x", "--schema", "My Jobs").stdout; !strings.Contains(text, `"My Jobs".fencepost_leases`) {
		t.Errorf("from the URL:\n%s", text)
	}
	c.nothingWasMade()
}

func TestAnOldTableOfLeasesIsAdopted(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		columns := "lease_name VARCHAR(100) PRIMARY KEY, owner_token VARCHAR(100), fence_token BIGINT, leased_until TIMESTAMP NULL"
		execOn(c.T, c.url(), "CREATE TABLE old_leases ("+columns+")")
		execOn(c.T, c.url(), "INSERT INTO old_leases VALUES ('job', 'old', 41, NULL), ('other', 'old', 7, '2020-01-01 00:00:00')")
		type adopted struct{ Adopted int }
		if got := decode[adopted](c.ok("migrate", "adopt", "old_leases", "--json")); got.Adopted != 2 {
			c.Errorf("adopted %d", got.Adopted)
		}
		if g := c.acquire("job"); g.Fence != 42 {
			c.Errorf("granted %+v", g)
		}
		c.run("held", "job", "--owner", "old", "--fence", "41").exits(exitStale)
		execOn(c.T, c.url(), "INSERT INTO old_leases VALUES ('live', 'old', 3, '2037-01-01 00:00:00')")
		if r := c.run("migrate", "adopt", "old_leases"); r.code == 0 || !strings.Contains(r.stderr, "live") {
			c.Errorf("a live row: %d %s", r.code, r.stderr)
		}
		c.run("show", "live").exits(exitUsage)
		if r := c.run("migrate", "adopt", "no_such_table"); r.code == 0 {
			c.Errorf("a missing table: %s", r.stdout)
		}
	})
}

func TestDoctorFindsAHealthyDatabaseSafe(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		type diagnosis struct {
			Safe     bool
			Findings []struct{ Check, Level, Detail, Advice string }
		}
		c.acquire("job") // a schema
		d := decode[diagnosis](c.ok("doctor", "--json", "--ttl", "1m"))
		if !d.Safe || len(d.Findings) < 5 {
			c.Errorf("%+v", d)
		}
		seen := map[string]bool{}
		for _, f := range d.Findings {
			seen[f.Check] = true
			if f.Level == "failure" || f.Detail == "" {
				c.Errorf("%+v", f)
			}
		}
		if !seen["ttl"] || !seen["clock"] {
			c.Errorf("checks: %v", seen)
		}
		if text := c.ok("doctor").stdout; !strings.Contains(text, "clock") || !strings.Contains(text, "renewal of a TTL of 30s") {
			c.Errorf("doctor:\n%s", text)
		}
	})
}

func TestTwoPrefixesAreTwoSetsOfLeases(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		c.acquire("job", "--ttl", "1h")
		other := c.with(envPrefix, "app_")
		other.ok("migrate", "up")
		if g := other.acquire("job", "--ttl", "1h"); g.Fence != 1 {
			c.Errorf("granted %+v", g)
		}
		// The command finds the same tables as the run itself.
		r := c.ok("run", "inner", "--prefix", "app_", "--", program, "held")
		if !strings.Contains(r.stdout, "held inner") {
			c.Errorf("stdout: %s", r.stdout)
		}
		c.run("show", "inner").exits(exitUsage)
		other.ok("show", "inner")
	})
}

func TestTwoSchemasAreTwoSetsOfLeases(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	c := newCLIOn(t, server.URLFor(createDatabase(t, server)))
	execOn(t, c.url(), `CREATE SCHEMA "My Jobs"`)
	c.ok("migrate", "up")
	c.acquire("job", "--ttl", "1h")
	other := c.with(envSchema, "My Jobs")
	other.run("acquire", "job").exits(exitUnavailable).oneLine("migrate up")
	other.ok("migrate", "up")
	if g := other.acquire("job", "--ttl", "1h"); g.Fence != 1 {
		t.Errorf("granted %+v", g)
	}
	if r := c.ok("run", "inner", "--schema", "My Jobs", "--", program, "held"); !strings.Contains(r.stdout, "held inner") {
		t.Errorf("stdout: %s", r.stdout)
	}
	checkDemo(other, other.run("demo", "--json"), "postgres")
}

func TestWhereTheDatabaseIsNamed(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("sqlite:from-file.db\nanother line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, named := range map[string]*cli{
		"fencepost.db": c,
		"from-env.db":  c.with(envDB, "sqlite:from-env.db", envDBFile, file),
		"from-file.db": c.with(envDBFile, file),
	} {
		named.ok("ls")
		if _, err := os.Stat(filepath.Join(c.dir, want)); err != nil {
			t.Errorf("%v", err)
		}
	}
	c.with(envDB, "sqlite:from-env.db").ok("ls", "--db", "sqlite:from-flag.db")
	if _, err := os.Stat(filepath.Join(c.dir, "from-flag.db")); err != nil {
		t.Errorf("%v", err)
	}
	c.with(envDBFile, file+"-missing").run("ls").exits(exitUsage).oneLine(envDBFile)
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.with(envDBFile, file).run("ls").exits(exitUsage).oneLine("first line")
	c.with(envDBFile, file+"-missing").ok("version")
}

func TestTheCommandFindsTheDatabaseFromElsewhere(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("sqlite:%s/x.db\n", c.dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, named := range []*cli{c.with(envDB, "sqlite:x.db"), c.with(envDB, "sqlite://x.db"), c.with(envDBFile, file)} {
		r := named.ok("run", "job", "--", "sh", "-c", fmt.Sprintf(`cd / && %s held && env`, program))
		if !strings.Contains(r.stdout, "held job") {
			t.Errorf("stdout: %s", r.stdout)
		}
		if _, byFile := named.env[envDBFile]; byFile == strings.Contains(r.stdout, envDB+"=") {
			t.Errorf("named by a file: %t, environment:\n%s", byFile, r.stdout)
		}
	}
}
