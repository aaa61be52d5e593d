package sqlite_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// roles are what this test binary can be when a test starts it again as a process of its own.
var roles = map[string]func(args []string, in *bufio.Scanner) error{}

const roleVariable = "FENCEPOST_SQLITE_TEST_ROLE"

func TestMain(m *testing.M) {
	if name := os.Getenv(roleVariable); name != "" {
		role, ok := roles[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "no role %q\n", name)
			os.Exit(2)
		}
		if err := role(os.Args[1:], bufio.NewScanner(os.Stdin)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("TMPDIR") == "" {
		// No test here cuts the power, and most of their time would go into waiting for a disk. The settings stay as shipped.
		if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
			os.Setenv("TMPDIR", "/dev/shm")
		}
	}
	os.Exit(m.Run())
}

// process is this test binary in another role.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr strings.Builder
	ended  bool
}

// startProcess ends the process with the test, if it is still there.
func startProcess(t *testing.T, role string, args ...string) *process {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(binary, args...)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !p.ended {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
	})
	return p
}

// say writes a line that the process waits for.
func (p *process) say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// hear waits for the process's next line.
func (p *process) hear() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.ended = true
		p.t.Fatalf("%v ended: %v: %s", p.cmd.Args, p.cmd.Wait(), p.stderr.String())
	}
	return p.out.Text()
}

// end waits for the process's end and returns what it still printed.
func (p *process) end() (lines []string) {
	p.t.Helper()
	p.in.Close()
	for p.out.Scan() {
		lines = append(lines, p.out.Text())
	}
	p.ended = true
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%v: %v: %s", p.cmd.Args, err, p.stderr.String())
	}
	return lines
}
