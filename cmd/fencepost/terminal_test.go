package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// terminal runs the program on a terminal of its own.
type terminal struct {
	*process
	tty *os.File
}

func (c *cli) onTerminal(args ...string) *terminal {
	c.Helper()
	p := &process{cli: c, args: args, done: make(chan struct{})}
	p.cmd = c.command(c.Context(), args...)
	p.cmd.Env = append(p.cmd.Env, "TERM=xterm")
	tty, err := pty.Start(p.cmd)
	if err != nil {
		c.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := tty.Read(buffer)
			p.stdout.Write(buffer[:n])
			if err != nil {
				return // the terminal is gone with its last process
			}
		}
	}()
	go func() {
		p.err = p.cmd.Wait()
		<-read
		close(p.done)
	}()
	c.Cleanup(func() {
		p.cmd.Process.Kill()
		tty.Close()
		<-p.done
	})
	return &terminal{p, tty}
}

func (t *terminal) types(text string) {
	t.Helper()
	if _, err := t.tty.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestTheCommandCanReadFromTheTerminal(t *testing.T) {
	c := newCLI(t)
	p := c.onTerminal("run", "job", "--", "sh", "-c", `echo ready; read x; echo "got <$x>"`)
	p.said("ready")
	p.types("hello\n")
	p.wait().exits(0)
	if !strings.Contains(p.stdout.String(), "got <hello>") {
		t.Errorf("the terminal shows %q", p.stdout.String())
	}
}

func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	c := newCLI(t)
	p := c.onTerminal("run", "job", "--", "sh", "-c", `trap 'n=$((n+1)); echo "int $n"' INT; echo ready; read x; read x; echo "all $n"; exit 3`)
	p.said("ready")
	p.types("\x03")
	p.said("int 1")
	p.types("\n\n")
	p.wait().exits(3)
	if out := p.stdout.String(); strings.Contains(out, "int 2") {
		t.Errorf("the terminal shows %q", out)
	}
	info := decode[row](c.ok("show", "job", "--json"))
	if info.State != "free" {
		t.Errorf("the lease is %s", info.State)
	}
}

func TestColourIsForTerminalsThatWantIt(t *testing.T) {
	c := newCLI(t)
	for _, tc := range []struct {
		env    []string
		colour bool
	}{{nil, true}, {[]string{"NO_COLOR", "1"}, false}} {
		p := c.with(tc.env...).onTerminal("demo")
		p.wait().exits(0)
		if got := strings.Contains(p.stdout.String(), "\x1b["); got != tc.colour {
			t.Errorf("environment %q: colour %t\n%s", tc.env, got, fmt.Sprintf("%q", p.stdout.String()))
		}
	}
}
