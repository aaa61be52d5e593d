package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/fencepost/fencepost"
)

// terminal runs the program on a terminal of its own.
type terminal struct {
	*process
	tty *os.File
}

func (c *cli) onTerminal(args ...string) *terminal {
	c.Helper()
	return c.begin(c.command(c.Context(), args...), args)
}

// onShell runs a script with job control, as an interactive shell has it; "$0" is the program, and "$@" the arguments.
func (c *cli) onShell(script string, args ...string) *terminal {
	c.Helper()
	cmd := c.command(c.Context(), args...)
	bash, err := exec.LookPath("bash")
	if err != nil {
		c.Fatal(err)
	}
	cmd.Path, cmd.Args = bash, append([]string{"bash", "--norc", "--noprofile", "-m", "-c", script}, cmd.Args...)
	return c.begin(cmd, args)
}

func (c *cli) begin(cmd *exec.Cmd, args []string) *terminal {
	c.Helper()
	p := &process{cli: c, args: args, done: make(chan struct{}), cmd: cmd}
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
		killSession(p.cmd.Process.Pid)
		p.cmd.Process.Kill()
		tty.Close()
		<-p.done
	})
	return &terminal{p, tty}
}

// killSession kills whatever still runs on a terminal: one stopped process would keep the terminal open, and its reader waiting.
func killSession(leader int) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range processes {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if session, err := unix.Getsid(pid); err == nil && session == leader {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}

func (t *terminal) types(text string) {
	t.Helper()
	if _, err := t.tty.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestTheCommandCanReadFromTheTerminal(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

// suspending runs a command, hands the terminal back after Ctrl-Z, and continues it when a line is typed.
const suspending = `"$0" "$@"; echo "suspended $?"; read line; fg; exit $?`

func TestASuspendedCommandDoesNotGoOnWithoutTheLease(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	s := c.store()
	p := c.onShell(suspending, "run", "job", "--ttl", "2s", "--", "sh", "-c", `echo ready; while read x; do echo "went on <$x>"; done`)
	p.said("ready")
	p.types("\x1a")
	p.said("suspended 1")
	c.awaitState(s, "job", fencepost.StateExpired)
	c.acquire("job", "--ttl", "1h")
	p.types("fg\nafter\n")
	p.wait().exits(exitStale)
	if out := p.stdout.String(); strings.Contains(out, "went on") || !strings.Contains(out, "superseded by fence 2") {
		t.Errorf("the terminal shows %q", out)
	}
}

func TestASuspendedCommandGoesOnWhileTheLeaseStands(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	p := c.onShell(suspending, "run", "job", "--ttl", "1h", "--", "sh", "-c", `echo ready; read x; echo "went on <$x>"`)
	p.said("ready")
	p.types("\x1a")
	p.said("suspended 1")
	p.types("fg\nnow\n")
	p.wait().exits(0)
	if out := p.stdout.String(); !strings.Contains(out, "went on <now>") {
		t.Errorf("the terminal shows %q", out)
	}
}
