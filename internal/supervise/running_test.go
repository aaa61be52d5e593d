//go:build linux

package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for an event that must come. It is no assertion about speed.
const patience = time.Minute

// running is a command under Run, with its output to wait for.
type running struct {
	t       *testing.T
	stop    context.CancelCauseFunc
	signals chan os.Signal
	input   io.WriteCloser
	lines   <-chan string
	logged  <-chan string // for tests that wait for a log line
	done    chan struct{}
	result  Result
	err     error
}

func begin(t *testing.T, c *Command) *running {
	t.Helper()
	r := &running{t: t, signals: make(chan os.Signal, 8), done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	r.stop = cancel
	var output *os.File
	output, c.Stdout = pipe(t)
	c.Stderr = os.Stderr
	var input *os.File
	c.Stdin, input = pipe(t)
	r.input = input
	r.lines = linesOf(output)
	go func() {
		defer close(r.done)
		r.result, r.err = c.Run(ctx, r.signals)
		c.Stdout.Close()
		c.Stdin.Close()
	}()
	t.Cleanup(func() {
		cancel(errors.New("the test is over"))
		r.wait()
		for range r.lines {
		}
	})
	return r
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func linesOf(r io.Reader) <-chan string {
	lines := make(chan string, 1024)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

// line waits for the next line of output.
func (r *running) line() string {
	r.t.Helper()
	return nextLine(r.t, r.lines)
}

func nextLine(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line, open := <-lines:
		if !open {
			t.Fatal("the output ended")
		}
		return line
	case <-time.After(patience):
		t.Fatal("no line of output came")
	}
	return ""
}

// pids reads n lines that end with a process id.
func (r *running) pids(n int) (pids []int) {
	r.t.Helper()
	for range n {
		line := r.line()
		fields := strings.Fields(line)
		pid, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			r.t.Fatalf("a process id was expected: %q", line)
		}
		pids = append(pids, pid)
	}
	return pids
}

func (r *running) wait() (Result, error) {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("Run did not return")
	}
	return r.result, r.err
}

// over is wait for a run that must have no error.
func (r *running) over() Result {
	r.t.Helper()
	result, err := r.wait()
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

func (r *running) mustRun() {
	r.t.Helper()
	select {
	case <-r.done:
		r.t.Fatalf("Run returned too early: %+v, %v", r.result, r.err)
	default:
	}
}

// exists says whether there is such a process, also one of which only the status is left.
func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

func mustBeGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if exists(pid) {
			p, err := readProcess(pid)
			t.Errorf("process %d is there after the run: %+v, %v", pid, p, err)
		}
	}
}

// eventually waits for something that no event announces.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it never came true that %s", what)
		}
	}
}

func stateOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return after[:1]
}
