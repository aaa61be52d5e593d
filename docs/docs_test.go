// Package docs holds the pages for readers. Its tests run what the pages show.
package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/sqlite"
)

// block is one fenced code block of a page.
type block struct{ language, text string }

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

func blocks(t *testing.T, page string) []block {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []block
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		found = append(found, block{m[1], m[2]})
	}
	if len(found) == 0 {
		t.Fatalf("%s shows nothing to run", page)
	}
	return found
}

// newFencepost builds the command line and returns the folder it is in.
func newFencepost(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, "../cmd/fencepost")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

func TestTheReadmesLibraryExampleIsTheProgramThatRuns(t *testing.T) {
	program, err := os.ReadFile("../examples/quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	indented := func(s string) string { return "\t" + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n\t") }
	shown := 0
	for _, b := range blocks(t, "../README.md") {
		if b.language != "go" {
			continue
		}
		shown++
		if want := strings.ReplaceAll(indented(b.text), "\t\n", "\n"); !strings.Contains(string(program), want) {
			t.Errorf("the README shows other code than examples/quickstart:\n%s", want)
		}
	}
	if shown == 0 {
		t.Fatal("the README shows no library example")
	}
	run := exec.Command("go", "run", ".")
	run.Dir = "../examples/quickstart"
	run.Env = append(os.Environ(), "QUICKSTART_DIR="+t.TempDir())
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "total 3 under fence 1") {
		t.Errorf("examples/quickstart: %v\n%s", err, out)
	}
}

func TestTheReadmesTwoCommands(t *testing.T) {
	var commands []string
	for _, b := range blocks(t, "../README.md") {
		if b.language == "sh" && strings.Count(b.text, "\n") == 1 {
			commands = append(commands, strings.TrimSpace(b.text))
		}
	}
	if len(commands) != 2 || commands[1] != "make test" {
		t.Fatalf("the README's one-line commands are %q", commands)
	}
	demo := exec.Command("sh", "-c", commands[0]) // the other one is running this
	demo.Dir = ".."
	out, err := demo.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", commands[0], err, out)
	}
	if !strings.Contains(string(out), "superseded") {
		t.Errorf("the demo does not say why the write was refused:\n%s", out)
	}
}

func TestTheReadmesCommandLineExample(t *testing.T) {
	bin := newFencepost(t)
	ran := 0
	for _, b := range blocks(t, "../README.md") {
		if b.language != "sh" || strings.Count(b.text, "\n") == 1 {
			continue
		}
		ran++
		dir := t.TempDir()
		tableOfReports(t, filepath.Join(dir, "jobs.db"))
		script := exec.Command("bash", "-euxo", "pipefail", "-c", b.text)
		script.Dir = dir
		script.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
		out, err := script.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{"backing up under fence 1", "nightly-backup", "released"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the output lacks %q:\n%s", want, out)
			}
		}
	}
	if ran == 0 {
		t.Fatal("the README shows no command line example")
	}
}

// tableOfReports makes the table that a reader of the README has.
func tableOfReports(t *testing.T, path string) {
	t.Helper()
	db, err := sqlite.OpenPool(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE reports (id INTEGER PRIMARY KEY, total INTEGER); INSERT INTO reports VALUES (1, 0)"); err != nil {
		t.Fatal(err)
	}
}
