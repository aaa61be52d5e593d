package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is the program in the background.
type process struct {
	*cli
	args           []string
	cmd            *exec.Cmd
	began          time.Time
	stdout, stderr syncBuffer
	done           chan struct{}
	err            error
	took           time.Duration
}

func (c *cli) start(args ...string) *process {
	c.Helper()
	return c.startVia(nil, args...)
}

// startVia starts the program by another one.
func (c *cli) startVia(starter []string, args ...string) *process {
	c.Helper()
	p := &process{cli: c, args: args, done: make(chan struct{}), began: time.Now()}
	p.cmd = c.command(context.Background(), args...)
	if len(starter) > 0 {
		path, err := exec.LookPath(starter[0])
		if err != nil {
			c.Fatal(err)
		}
		p.cmd.Path, p.cmd.Args = path, append(append([]string{}, starter...), p.cmd.Args...)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = 5 * time.Second // a child that was left behind keeps the pipes open
	if err := p.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		p.took = time.Since(p.began)
		close(p.done)
	}()
	c.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) wait() result {
	p.Helper()
	patience := time.NewTimer(testPatience)
	defer patience.Stop()
	select {
	case <-p.done:
	case <-patience.C:
		p.Fatalf("fencepost %q does not end\n%s%s", p.args, p.stdout.String(), p.stderr.String())
	}
	if _, exited := errors.AsType[*exec.ExitError](p.err); p.err != nil && !exited {
		p.Fatalf("fencepost %q: %v", p.args, p.err)
	}
	code := p.cmd.ProcessState.ExitCode()
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		code = -int(status.Signal())
	}
	return result{p.T, p.args, p.stdout.String(), p.stderr.String(), code, p.took}
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatalf("%v to fencepost %q: %v", s, p.args, err)
	}
}

// said waits until the process has written a text.
func (p *process) said(text string) {
	p.Helper()
	p.until(fmt.Sprintf("fencepost %q to say %q", p.args, text), func() bool {
		if strings.Contains(p.stdout.String()+p.stderr.String(), text) {
			return true
		}
		if !p.running() {
			p.Fatalf("fencepost %q ended without saying %q:\n%s%s", p.args, text, p.stdout.String(), p.stderr.String())
		}
		return false
	})
}

// syncBuffer can be read while a process writes to it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
