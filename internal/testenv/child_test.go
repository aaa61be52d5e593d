package testenv_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/testenv"
)

// childEnvVar makes this binary do something else than run its tests.
const childEnvVar = "FENCEPOST_TESTENV_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnvVar) != "start" {
		os.Exit(m.Run())
	}
	var all sync.WaitGroup
	for kind := range strings.FieldsSeq(os.Getenv("FENCEPOST_TESTENV_KINDS")) {
		all.Go(func() {
			s, err := testenv.Start(testenv.Kind(kind))
			if err != nil {
				fmt.Println("error:", err)
				os.Exit(1)
			}
			cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", s.PID()))
			fmt.Printf("started %d %s\n", s.PID(), cwd)
		})
	}
	all.Wait()
	fmt.Println("ready")
	switch os.Getenv("FENCEPOST_TESTENV_END") {
	case "panic":
		go panic("in a goroutine of its own")
		select {}
	case "return":
	default:
		select {}
	}
}

// child prepares a run of this binary, with no server given from outside.
func child(t *testing.T, purpose string, args []string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FENCEPOST_") && !strings.HasPrefix(e, "CI=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(append(cmd.Env, childEnvVar+"="+purpose), env...)
	return cmd
}

func TestNoServerOutlivesTheProcessThatStartedIt(t *testing.T) {
	ends := []struct{ name, kinds string }{
		{"return", "postgres mariadb"},
		{"panic", "postgres mariadb"},
		{"kill", "postgres mariadb mysql"},
	}
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			cmd := child(t, "start", nil, "FENCEPOST_TESTENV_END="+end.name, "FENCEPOST_TESTENV_KINDS="+end.kinds)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var pids []int
			var dirs []string
			for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
				var pid int
				var dir string
				if n, _ := fmt.Sscanf(lines.Text(), "started %d %s", &pid, &dir); n != 2 {
					t.Fatalf("the child says %q", lines.Text())
				}
				pids, dirs = append(pids, pid), append(dirs, dir)
			}
			if end.name == "kill" {
				for _, pid := range pids {
					if err := syscall.Kill(pid, 0); err != nil {
						t.Errorf("server %d does not run: %v", pid, err)
					}
				}
				_ = cmd.Process.Kill()
			}
			_ = cmd.Wait()
			if len(pids) != len(strings.Fields(end.kinds)) {
				t.Fatalf("%d servers were started, want %s", len(pids), end.kinds)
			}
			for i := range pids {
				eventually(t, fmt.Sprintf("server %d still runs", pids[i]), func() bool {
					return errors.Is(syscall.Kill(pids[i], 0), syscall.ESRCH)
				})
				eventually(t, dirs[i]+" still exists", func() bool {
					_, err := os.Stat(dirs[i])
					return errors.Is(err, fs.ErrNotExist)
				})
			}
		})
	}
}

func eventually(t *testing.T, complaint string, reached func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for patience := time.After(time.Minute); !reached(); {
		select {
		case <-patience:
			t.Fatal(complaint + " after a minute")
		case <-tick.C:
		}
	}
}

func TestMissingServerFailsInCIAndSkipsElsewhere(t *testing.T) {
	args := []string{"-test.v", "-test.run=^TestSharedServerIsOneServer"}
	nothing := testenv.SearchEnvVar + "=" + t.TempDir()
	for _, kind := range testenv.Kinds() {
		args[1] = "-test.run=^TestSharedServerIsOneServer/^" + string(kind) + "$"
		out, err := child(t, "test", args, nothing, "CI=true").CombinedOutput()
		text := string(out)
		if err == nil || !strings.Contains(text, "--- FAIL") || !strings.Contains(text, "make deps") || !strings.Contains(text, string(kind)+" is not installed") {
			t.Errorf("%s in CI: error %v and\n%s", kind, err, text)
		}
		out, err = child(t, "test", args, nothing).CombinedOutput()
		text = string(out)
		if err != nil || !strings.Contains(text, "--- SKIP") || !strings.Contains(text, "make deps") {
			t.Errorf("%s elsewhere: error %v and\n%s", kind, err, text)
		}
	}
}

func TestGivenServerIsUsedInsteadOfStartingOne(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		s := engines[kind].shared(t)
		args := []string{"-test.v", "-test.run=^TestSharedServerIsOneServer/^" + string(kind) + "$"}
		// With no program to start, a pass proves that the given server was used.
		nothing := testenv.SearchEnvVar + "=" + t.TempDir()
		out, err := child(t, "test", args, nothing, "CI=true", kind.EnvVar()+"="+s.URL).CombinedOutput()
		if err != nil {
			t.Errorf("with a given server: %v\n%s", err, out)
		}
		for _, bad := range []string{"nonsense with s3cret", "postgres://u:s3cret@127.0.0.1", "postgres://u:s3cret@127.0.0.1:1/d"} {
			out, err = child(t, "test", args, kind.EnvVar()+"="+bad).CombinedOutput()
			if err == nil || !strings.Contains(string(out), kind.EnvVar()) || strings.Contains(string(out), "s3cret") {
				t.Errorf("with a bad address: error %v and\n%s", err, out)
			}
		}
	})
}
