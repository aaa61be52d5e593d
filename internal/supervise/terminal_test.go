//go:build linux

package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// session is a program that has a terminal of its own.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	tty    *os.File
	lines  <-chan string
	seen   []string
}

// atTerminal starts a program as the leader of a session at a new terminal that does not echo. In bash scripts $SUP is
// this program as a supervisor.
func atTerminal(t *testing.T, args ...string) *session {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close(); tty.Close() })
	modes, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	modes.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, modes); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"=supervisor", "GORACE=atexit_sleep_ms=0", "SUP="+self())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, cmd: cmd, master: master, tty: tty, lines: linesOf(master)}
	t.Cleanup(func() {
		all, _ := allProcesses()
		for pid := range all {
			if id, err := unix.Getsid(pid); err == nil && id == cmd.Process.Pid {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		_ = cmd.Wait()
		tty.Close()
		master.Close()
		for range s.lines {
		}
		if t.Failed() {
			t.Logf("the terminal showed:\n%s", strings.Join(s.seen, "\n"))
		}
	})
	return s
}

// bash runs a script with job control, as an interactive shell has it.
func bash(t *testing.T, script string) *session {
	t.Helper()
	return atTerminal(t, "/bin/bash", "--norc", "--noprofile", "-m", "-c", script)
}

func (s *session) typing(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// until reads lines up to one that contains text.
func (s *session) until(text string) string {
	s.t.Helper()
	for {
		line := nextLine(s.t, s.lines)
		s.seen = append(s.seen, line)
		if strings.Contains(line, text) {
			return line
		}
	}
}

// end reads what is left and waits for the program.
func (s *session) end() int {
	s.t.Helper()
	err := s.cmd.Wait()
	s.tty.Close()
	for line := range s.lines {
		s.seen = append(s.seen, line)
	}
	if s.cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *session) count(text string) (n int) {
	for _, line := range s.seen {
		n += strings.Count(line, text)
	}
	return n
}

func TestReadingFromTheTerminal(t *testing.T) {
	for name, script := range map[string]string{
		"alone":          `$SUP -- sh -c 'read x; echo got $x'; read y; echo again $y`,
		"from a script":  `bash -c "$SUP -- sh -c 'read x; echo got \$x'; true"; read y; echo again $y`,
		"in a pipeline":  `$SUP -- sh -c 'read x; echo got $x' | cat; read y; echo again $y`,
		"without exec":   `$SUP -- ` + notExecutable(t) + `; read x; echo got $x; read y; echo again $y`,
		"by a killed":    `$SUP -- sh -c 'read x; echo got $x; kill -s KILL $$'; read y; echo again $y`,
		"by a subshell":  `$SUP -- bash -m -c 'bash -c "read x; echo got \$x; kill -s KILL \$PPID"; true'; read y; echo again $y`,
		"after an error": `$SUP -- no-such-command; read x; echo got $x; read y; echo again $y`,
	} {
		for shell, args := range map[string][]string{
			"job control": {"/bin/bash", "--norc", "--noprofile", "-m", "-c", script},
			// This one never takes the terminal by itself: it has to be given back.
			"no job control": {"/bin/bash", "--norc", "--noprofile", "-c", script},
		} {
			t.Run(name+"/"+shell, func(t *testing.T) {
				s := atTerminal(t, args...)
				s.typing("hello\n")
				s.until("got hello")
				s.typing("and more\n")
				s.until("again and more")
				s.end()
			})
		}
	}
}

// A pager at the end of a pipeline reads from the terminal, too.
func TestThePipelineKeepsTheTerminal(t *testing.T) {
	s := bash(t, `$SUP -- sh -c 'echo up; exec sleep 1000' | bash -c 'read up; echo $up; read x </dev/tty; echo pager got $x'`)
	s.until("up")
	s.typing("next page\n")
	s.until("pager got next page")
	if err := syscall.Kill(s.supervisor(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end()
}

func notExecutable(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(path, []byte{0, 1, 2, 3}, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInterruptArrivesOnce(t *testing.T) {
	for name, script := range map[string]string{
		"with the terminal":    `$SUP role -- record leader exits`,
		"without the terminal": `sleep 0.01 | $SUP role -- record leader exits`,
		"in a pipeline":        `$SUP role -- record leader exits | (trap "" INT; cat)`,
	} {
		t.Run(name, func(t *testing.T) {
			s := bash(t, script)
			s.until("ready")
			s.until("ready")
			supervisor := s.supervisor()
			s.typing(ctrlC)
			s.until("interrupt")
			// Each of these would come after a second interrupt.
			for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM} {
				if err := syscall.Kill(supervisor, sig); err != nil {
					t.Fatal(err)
				}
				s.until(sig.String())
			}
			s.end()
			if leader, member := s.count("leader interrupt"), s.count("member interrupt"); leader != 1 || member != 1 {
				t.Errorf("one Ctrl-C became %d interrupts for the command and %d for its group", leader, member)
			}
		})
	}
}

func TestSuspendAndContinue(t *testing.T) {
	for name, script := range map[string]string{
		"alone":         `$SUP -- sh -c 'echo up; read x; echo got $x; exit 5'; echo "shell $?"; read y; fg; echo "end $?"`,
		"from a script": `bash -c "$SUP -- sh -c 'echo up; read x; echo got \$x; exit 5'; exit \$?"; echo "shell $?"; read y; fg; echo "end $?"`,
	} {
		t.Run(name, func(t *testing.T) {
			s := bash(t, script)
			s.until("up")
			s.typing(ctrlZ)
			s.until("SUPERVISOR stops")
			s.until("shell " + strconv.Itoa(128+int(syscall.SIGSTOP)))
			s.typing("go on\n")
			s.until("SUPERVISOR continues")
			s.typing("hello\n")
			s.until("got hello")
			s.until("end 5")
			s.end()
		})
	}
}

func TestSuspendTwiceAndGoOnInTheBackground(t *testing.T) {
	s := bash(t, `$SUP -- sh -c 'echo up; read x; echo got $x; read x; echo got $x; exit 5'; echo "shell $?"
		read y; bg; read y; fg; echo "end $?"`)
	s.until("up")
	s.typing(ctrlZ)
	s.until("shell")
	s.typing("to the background\n")
	s.until("SUPERVISOR continues")
	s.until("SUPERVISOR stops") // it read from the terminal, which belongs to the shell
	eventually(t, "the supervisor is suspended", func() bool { return stateOf(s.supervisor()) == "T" })
	s.typing("to the foreground\n")
	s.until("SUPERVISOR continues")
	s.typing("hello\n")
	s.until("got hello")
	s.typing("world\n")
	s.until("got world")
	s.until("end 5")
	s.end()
}

func TestExpiredWhileSuspended(t *testing.T) {
	s := bash(t, `$SUP role expire trace -- record alone exits; echo "shell $?"; read y; fg; echo "end $?"`)
	s.until("ready")
	s.typing(ctrlZ)
	s.until("shell")
	s.typing("go on\n")
	s.until("SUPERVISOR continues")
	if first := s.until("SUPERVISOR sends"); !strings.Contains(first, syscall.SIGTERM.String()) {
		t.Errorf("the command was continued first: %s", first)
	}
	s.until("alone terminated")
	s.until("end 7")
	s.end()
}

func TestSuspendWithoutTheTerminal(t *testing.T) {
	s := bash(t, `sleep 0.01 | $SUP role -- record alone exits; echo "shell $?"; read y; fg; echo "end $?"`)
	s.until("ready")
	s.typing(ctrlZ)
	s.until("SUPERVISOR stops")
	s.until("shell")
	s.typing("go on\n")
	s.until("SUPERVISOR continues")
	s.typing(ctrlC)
	s.until("alone interrupt")
	if err := syscall.Kill(s.supervisor(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until("end 7")
	s.end()
}

// supervisor finds the supervisor's process.
func (s *session) supervisor() int {
	s.t.Helper()
	all, err := allProcesses()
	if err != nil {
		s.t.Fatal(err)
	}
	for pid := range all {
		id, err := unix.Getsid(pid)
		if err != nil || id != s.cmd.Process.Pid {
			continue
		}
		if env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ"); !strings.Contains(string(env), roleVariable+"=supervisor") {
			continue
		}
		if exe, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); exe == self() {
			return pid
		}
	}
	s.t.Fatal("there is no supervisor")
	return 0
}

func TestSuspendWhereNobodyContinues(t *testing.T) {
	// No shell, as in a container: the supervisor leads the session.
	s := atTerminal(t, self(), "--", "/bin/sh", "-c", `echo up; read x; echo got $x`)
	s.until("up")
	s.typing(ctrlZ)
	s.typing("hello\n")
	s.until("got hello")
	if code := s.end(); code != 0 || slices.Contains(s.seen, "SUPERVISOR stops") {
		t.Errorf("exit code %d, %q", code, s.seen)
	}
}

func TestTerminalModesAreRestored(t *testing.T) {
	s := bash(t, `read go; $SUP -- sh -c 'stty raw; kill -s KILL $$'; echo "end $?"; read y`)
	before, err := term.GetState(int(s.tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	s.typing("go\n")
	s.until("end 137")
	after, err := term.GetState(int(s.tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if *before != *after {
		t.Errorf("the killed command left the terminal as %+v; it was %+v", after, before)
	}
	s.typing("\n")
	s.end()
}
