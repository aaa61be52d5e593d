package sqlite_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

func init() { roles["open"] = openFiles }

// openFiles opens every file that it is told, with the schema, and closes it.
func openFiles(_ []string, in *bufio.Scanner) error {
	fmt.Println("ready")
	for in.Scan() {
		store, err := sqlite.Open(context.Background(), "sqlite:"+in.Text())
		if err != nil {
			return err
		}
		fmt.Println("opened")
		if err := store.Close(); err != nil {
			return err
		}
	}
	return in.Err()
}

// Replicas that start together on an empty file must all come up, with one schema.
func TestProcessesCreateTheSchemaTogether(t *testing.T) {
	const starting, rounds = 16, 5
	processes := make([]*process, starting)
	for i := range processes {
		processes[i] = startProcess(t, "open")
	}
	for _, p := range processes {
		p.hear()
	}
	for round := range rounds {
		path := newFile(t)
		if round%2 == 1 { // an empty file that is there already
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		for _, p := range processes {
			p.say(path)
		}
		for _, p := range processes {
			p.hear()
		}
		t.Logf("round %d: %v", round, time.Since(began).Round(time.Millisecond))
		pool := applicationPool(t, path, "deferred", "busy_timeout(30000)")
		if n := number(t, pool, "SELECT count(*) - max(version_id) FROM fencepost_schema_version WHERE version_id > 0"); n != 0 {
			t.Errorf("round %d: %d versions were applied more than once", round, n)
		}
		if has, knows, err := sqlite.SchemaVersion(t.Context(), pool); err != nil || has != knows {
			t.Errorf("round %d: version %d of %d, %v", round, has, knows, err)
		}
	}
	for _, p := range processes {
		p.end()
	}
}

func TestOpeningAnExistingSchemaWritesNothing(t *testing.T) {
	path := newFile(t)
	openStore(t, path)
	other, err := applicationPool(t, path, "deferred", "busy_timeout(30000)").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	before := number(t, other, "PRAGMA data_version")
	for range 3 {
		store := openStore(t, path)
		if _, err := sqlite.New(t.Context(), store.DB()); err != nil {
			t.Fatal(err)
		}
		if applied, err := sqlite.Migrate(t.Context(), store.DB()); err != nil || len(applied) != 0 {
			t.Errorf("applied %v, %v", applied, err)
		}
	}
	if after := number(t, other, "PRAGMA data_version"); after != before {
		t.Error("opening wrote")
	}
}

// A path is taken as it stands, whatever is in it.
func TestURLsNameFiles(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	for url, file := range map[string]string{
		"sqlite:relative.db":                      "relative.db",
		"sqlite:./dot.db":                         "dot.db",
		"sqlite://slashes.db":                     "slashes.db",
		"sqlite:" + folder + "/absolute.db":       "absolute.db",
		"sqlite://" + folder + "/absolute two.db": "absolute two.db",
		"sqlite:with space.db":                    "with space.db",
		"sqlite:what?.db":                         "what?.db",
		"sqlite:query?mode=ro&x=1":                "query?mode=ro&x=1",
		"sqlite:hash#1.db":                        "hash#1.db",
		"sqlite:50%.db":                           "50%.db",
		"sqlite:%41.db":                           "%41.db",
		"sqlite:größe.db":                         "größe.db",
		"sqlite:a:b@c.db":                         "a:b@c.db",
		"sqlite:plus+and&amp;.db":                 "plus+and&amp;.db",
	} {
		store, err := sqlite.Open(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		acquire(t, store, "job", "A", time.Hour)
		if err := store.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if start, err := os.ReadFile(filepath.Join(folder, file)); err != nil || !bytes.HasPrefix(start, []byte("SQLite format 3\x00")) {
			t.Errorf("%s: no database at %q: %v", url, file, err)
		}
		os.Remove(filepath.Join(folder, file))
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("files that nobody asked for: %v, %v", left, err)
	}
}

func TestURLsThatNameNoFileAreInvalid(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{
		"", "jobs.db", "sqlite", "sqlite:", "sqlite://", "sqlite::memory:", "sqlite://:memory:", "sqlite:file:jobs.db?mode=memory",
		"sqlite:nul\x00.db", "SQLITE:jobs.db", "sqlite3:jobs.db",
		"postgres://user:s3cret@host/db", "mysql://user:s3cret@host/db", "user:s3cret@host",
	} {
		store, err := sqlite.Open(t.Context(), url)
		if err == nil {
			store.Close()
		}
		if !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("%q: %v; want ErrInvalid", url, err)
		} else if !strings.Contains(err.Error(), "sqlite:PATH") && !strings.Contains(err.Error(), "file") && !strings.Contains(err.Error(), "NUL") {
			t.Errorf("%q: %v; says not what to do", url, err)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the password is in the error: %v", url, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) != 0 {
		t.Errorf("files were made: %v, %v", left, err)
	}
}

// What is not a database is left byte for byte.
func TestFilesThatAreNoDatabaseAreLeftAsTheyAre(t *testing.T) {
	for name, content := range map[string]string{
		"one byte":         "x",
		"511 bytes":        strings.Repeat("x", 511),
		"512 bytes":        strings.Repeat("x", 512),
		"half a header":    "SQLite f",
		"a text":           strings.Repeat("dear diary\n", 500),
		"only the header":  "SQLite format 3\x00",
		"header, nonsense": "SQLite format 3\x00" + strings.Repeat("nonsense", 2000),
		"zeros":            string(make([]byte, 8192)),
	} {
		path := newFile(t)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		store, err := sqlite.Open(t.Context(), "sqlite:"+path)
		if err == nil {
			store.Close()
		}
		if !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want ErrUnavailable with the path", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != content {
			t.Errorf("%s: the file was changed (%d bytes, before %d), %v", name, len(now), len(content), err)
		}
		if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
			t.Errorf("%s: files were left beside it: %v, %v", name, left, err)
		}
	}
}

func TestFilesThatCannotBeOpenedAreUnavailable(t *testing.T) {
	folder := t.TempDir()
	newer := filepath.Join(folder, "newer.db")
	store := openStore(t, newer)
	mustExec(t, store.DB(), "INSERT INTO fencepost_schema_version (version_id, is_applied) VALUES (99, 1)")
	for path, says := range map[string]string{
		folder:                                   "folder",
		filepath.Join(folder, "missing", "x.db"): "missing",
		filepath.Join(newer, "x.db"):             "newer.db",
		newer:                                    "99",
		os.DevNull:                               "no regular file",
	} {
		store, err := sqlite.Open(t.Context(), "sqlite:"+path)
		if err == nil {
			store.Close()
		}
		if !errors.Is(err, fencepost.ErrUnavailable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want ErrUnavailable that says %q", path, err, says)
		}
	}
}

func TestTwoPrefixesInOneFileKeepSeparateLeases(t *testing.T) {
	path := newFile(t)
	one, two := openStore(t, path), openStore(t, path, sqlite.WithPrefix("other_"))
	mustExec(t, one.DB(), "CREATE TABLE results (what TEXT)")
	a, b := acquire(t, one, "job", "A", time.Hour), acquire(t, two, "job", "B", time.Hour)
	if a.Token.Fence != 1 || b.Token.Fence != 1 {
		t.Errorf("%v, %v", a, b)
	}
	if _, err := two.Exec(t.Context(), a.Token, "INSERT INTO results VALUES ('foreign')"); !errors.Is(err, fencepost.ErrStale) {
		t.Errorf("a token of the other prefix: %v", err)
	}
	if _, err := two.Exec(t.Context(), b.Token, "INSERT INTO results VALUES ('own')"); err != nil {
		t.Error(err)
	}
	events, err := two.Events(t.Context(), fencepost.EventQuery{})
	if err != nil || len(events) != 2 { // acquired, stale_refused
		t.Errorf("%+v, %v", events, err)
	}
	if _, err := two.Release(t.Context(), b.Token); err != nil {
		t.Error(err)
	}
	if err := one.Check(t.Context(), a.Token); err != nil {
		t.Error(err)
	}
	for _, prefix := range []string{"", "Upper_", "a b", `a"b`, "1st_"} {
		if _, err := sqlite.Open(t.Context(), "sqlite:"+path, sqlite.WithPrefix(prefix)); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

func TestCloseLeavesTheCallersPoolOpen(t *testing.T) {
	pool := applicationPool(t, newFile(t), "deferred", "busy_timeout(30000)")
	store, err := sqlite.New(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	number(t, pool, "SELECT count(*) FROM fencepost_leases")

	owning, err := sqlite.Open(t.Context(), "sqlite:"+newFile(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := owning.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := owning.Inspect(t.Context(), "job"); !errors.Is(err, fencepost.ErrUnavailable) {
		t.Errorf("after Close: %v; want ErrUnavailable", err)
	}
}

// The package must build without a C compiler, with everything that it needs.
func TestNothingHereNeedsC(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, out)
	}
	if needing := strings.Fields(string(out)); len(needing) > 0 {
		t.Errorf("C is needed by %s", strconv.Quote(strings.Join(needing, " ")))
	}
}
