//go:build linux

package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestExitCode(t *testing.T) {
	for _, code := range []string{"0", "1", "2", "5", "255"} {
		result := begin(t, shell("exit $1", code)).over()
		if want := map[string]int{"0": 0, "1": 1, "2": 2, "5": 5, "255": 255}[code]; result.ExitCode != want || result.Signal != 0 {
			t.Errorf("exit %s: %+v", code, result)
		}
	}
	for name, want := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "SEGV": syscall.SIGSEGV} {
		result := begin(t, shell("kill -s $1 $$", name)).over()
		if result.ExitCode != 128+int(want) || result.Signal != want {
			t.Errorf("SIG%s: %+v", name, result)
		}
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "#!/bin/sh\n", 0o644)
	garbage := write("garbage", "\x00\x01\x02\x03", 0o755)
	orphaned := write("orphaned", "#!/no/such/interpreter\n", 0o755)
	write("script", "#!/bin/sh\nexit 3\n", 0o755)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	for _, c := range []struct {
		name string
		args []string
		dir  string
		want error
		code int
	}{
		{"name that is nowhere", []string{"no-such-command"}, "", ErrNotFound, 127},
		{"path that does not exist", []string{"/no/such/command"}, "", ErrNotFound, 127},
		{"path below a file", []string{plain + "/x"}, "", ErrNotFound, 127},
		{"relative to the directory", []string{"./nothing"}, dir, ErrNotFound, 127},
		{"empty name", []string{""}, "", ErrNotFound, 127},
		{"file without permission", []string{plain}, "", ErrNotExecutable, 126},
		{"file without permission in PATH", []string{"plain"}, "", ErrNotExecutable, 126},
		{"directory", []string{dir}, "", ErrNotExecutable, 126},
		{"no program", []string{garbage}, "", ErrNotExecutable, 126},
		{"missing interpreter", []string{orphaned}, "", ErrNotExecutable, 126},
		{"missing working directory", []string{"/bin/true"}, filepath.Join(dir, "gone"), fs.ErrNotExist, -1},
		{"working directory that is a file", []string{"/bin/true"}, plain, syscall.ENOTDIR, -1},
		{"no command", nil, "", nil, -1},
	} {
		result, err := (&Command{Args: c.args, Dir: c.dir}).Run(t.Context(), nil)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || result.ExitCode != c.code {
			t.Errorf("%s: exit code %d, %v; want %d, %v", c.name, result.ExitCode, err, c.code, c.want)
		}
		if c.code == -1 && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotExecutable)) {
			t.Errorf("%s looks like a bad command: %v", c.name, err)
		}
		if result.PID != 0 {
			t.Errorf("%s: it has a process id: %+v", c.name, result)
		}
	}
	if result, err := (&Command{Args: []string{"./script"}, Dir: dir}).Run(t.Context(), nil); err != nil || result.ExitCode != 3 {
		t.Errorf("a program relative to its working directory: %+v, %v", result, err)
	}
	// A lack of processes is not the command's fault.
	if err := startError("/bin/true", "", &os.PathError{Op: "fork/exec", Path: "/bin/true", Err: syscall.EAGAIN}); exitCodeOf(err) != -1 {
		t.Errorf("no process to be had: %v", err)
	}
}

func TestOneAtATime(t *testing.T) {
	r := begin(t, shell("echo up; read x"))
	r.line()
	if _, err := shell("true").Run(t.Context(), nil); !errors.Is(err, ErrBusy) {
		t.Errorf("a second command was run: %v", err)
	}
	r.input.Close()
	r.over()
}
