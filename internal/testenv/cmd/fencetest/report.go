package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of `go test -json`.
type event struct {
	Action, Package, Test, Output string
}

// skip is a test that did not run.
type skip struct{ pkg, test, reason string }

// report shows the lines that go test shows without -v and remembers what was skipped, which those lines hide.
type report struct {
	w       io.Writer
	output  map[[2]string][]string // of tests that have not ended, by package and name
	passed  int
	failed  int
	skipped []skip
}

func newReport(w io.Writer) *report { return &report{w: w, output: map[[2]string][]string{}} }

func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		io.WriteString(r.w, line)
		return
	}
	key := [2]string{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		io.WriteString(r.w, e.Output)
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" {
			io.WriteString(r.w, e.Output)
		}
	case e.Action == "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			r.output[key] = append(r.output[key], e.Output)
		}
	case e.Test == "":
		if e.Action == "fail" {
			r.unfinished(e.Package)
		}
	case e.Action == "pass":
		r.passed++
		delete(r.output, key)
	case e.Action == "skip":
		r.skipped = append(r.skipped, skip{e.Package, e.Test, reason(r.output[key])})
		delete(r.output, key)
	case e.Action == "fail":
		r.failed++
		r.show(key)
	}
}

// unfinished shows what tests had to say when their package ended before them, by a crash.
func (r *report) unfinished(pkg string) {
	for key := range r.output {
		if key[0] == pkg {
			r.show(key)
		}
	}
}

func (r *report) show(key [2]string) {
	for _, text := range r.output[key] {
		io.WriteString(r.w, text)
	}
	delete(r.output, key)
}

// reason is what a skipped test said.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--- SKIP") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

func (r *report) summary() {
	fmt.Fprintf(r.w, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skipped))
	for _, s := range r.skipped {
		fmt.Fprintf(r.w, "skipped: %s %s: %s\n", s.pkg, s.test, s.reason)
	}
}
