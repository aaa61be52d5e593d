package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// worker is a process of the demo.
type worker struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan said
	errors bytes.Buffer
	waited bool
}

// errSilent says that a worker will say nothing more.
var errSilent = errors.New("the process has said all that it had to say")

func (s *stage) start(ctx context.Context, name string) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{demoWorkerName, "--name", name, "--lease", s.lease}
	if s.fenced {
		args = append(args, "--fenced")
	}
	w := &worker{name: name, cmd: exec.CommandContext(ctx, self, args...), lines: make(chan said, 16)}
	w.cmd.Env = s.place.environ(nil)
	w.cmd.Stderr = &w.errors
	w.cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true}) // Ctrl-C is for the demo, which then ends its processes
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go w.read(stdout)
	return w, nil
}

func (w *worker) read(stdout io.Reader) {
	defer close(w.lines)
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		var l line
		if json.Unmarshal(scanner.Bytes(), &l) == nil {
			l.said.What = l.What
			w.lines <- l.said
		}
	}
}

// hear returns the next thing that a worker says.
func (w *worker) hear(ctx context.Context) (said, error) {
	select {
	case s, ok := <-w.lines:
		if !ok {
			return said{}, w.silent()
		}
		return s, nil
	case <-ctx.Done():
		return said{}, context.Cause(ctx)
	}
}

func (w *worker) silent() error {
	if text := strings.TrimSpace(w.complaint()); text != "" {
		return fmt.Errorf("%w: %s: %s", errSilent, w.name, text)
	}
	return fmt.Errorf("%w: %s", errSilent, w.name)
}

// complaint is what a worker wrote to stderr; it may be read once its process has ended.
func (w *worker) complaint() string {
	if _, err := w.wait(); err != nil {
		return err.Error()
	}
	return w.errors.String()
}

// goOn lets the worker end its scan.
func (w *worker) goOn() error {
	_, err := io.WriteString(w.stdin, "go on\n")
	return err
}

func (w *worker) pid() int { return w.cmd.Process.Pid }

func (w *worker) signal(s syscall.Signal) error {
	if err := w.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%s: %v: %w", w.name, s, err)
	}
	return nil
}

// wait returns the exit code.
func (w *worker) wait() (int, error) {
	if !w.waited {
		w.waited = true
		if err := w.cmd.Wait(); err != nil {
			if _, ended := errors.AsType[*exec.ExitError](err); !ended {
				return 0, err
			}
		}
	}
	return w.cmd.ProcessState.ExitCode(), nil
}

// kill ends the process, also a stopped one, and leaves nothing of it behind.
func (w *worker) kill() {
	if w.waited {
		return
	}
	w.cmd.Process.Kill()
	for range w.lines { // the pipe must be read to its end before waiting
	}
	w.wait()
}
