//go:build linux

package supervise

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// leavesDaemons begins a command that has left two daemons, the second a child of the first, and that ends when its
// input says so. Closing a named pipe ends the daemons.
func leavesDaemons(t *testing.T, policy Policy) (r *running, daemons []int, endDaemons func()) {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "end")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	c := part("daemonise", fifo)
	c.Orphans = policy
	logged := make(logLines, 64)
	c.Logger = slog.New(slog.NewTextHandler(logged, nil))
	r = begin(t, c)
	r.logged = logged
	daemons = r.pids(2)
	slices.Sort(daemons)
	return r, daemons, func() { w.Close() }
}

type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// untilReported waits until Run has seen what outlived the command.
func (r *running) untilReported(processes int) {
	r.t.Helper()
	for processes > 0 {
		if strings.Contains(nextLine(r.t, r.logged), "outlived the command") {
			processes--
		}
	}
}

func (r *running) endCommand() {
	r.t.Helper()
	if _, err := r.input.Write([]byte("end\n")); err != nil {
		r.t.Fatal(err)
	}
}

func pidsOf(orphans []Orphan) (pids []int) {
	for _, o := range orphans {
		pids = append(pids, o.PID)
	}
	slices.Sort(pids)
	return pids
}

func TestOrphansAreKilled(t *testing.T) {
	r, daemons, _ := leavesDaemons(t, Kill)
	r.endCommand()
	result := r.over()
	mustBeGone(t, daemons...)
	if result.ExitCode != 0 || result.Stopped || result.Killed || !slices.Equal(pidsOf(result.Orphans), daemons) {
		t.Errorf("%+v, daemons %v", result, daemons)
	}
}

func TestStubbornOrphansAreKilled(t *testing.T) {
	c := shell(`(trap '' TERM; echo $$; sleep 1000) & (setsid sh -c 'trap "" TERM; echo $$; sleep 1000' &) ; read x; exit 4`)
	c.KillAfter = 200 * time.Millisecond
	r := begin(t, c)
	r.pids(2)
	r.endCommand()
	result := r.over()
	if result.ExitCode != 4 || !result.Killed || result.Stopped || len(result.Orphans) < 2 {
		t.Errorf("%+v", result)
	}
	mustBeGone(t, pidsOf(result.Orphans)...)
}

func TestOrphansAreWaitedFor(t *testing.T) {
	r, daemons, endDaemons := leavesDaemons(t, Wait)
	r.endCommand()
	r.untilReported(2)
	r.mustRun()
	endDaemons()
	for range daemons {
		if line := r.line(); line != "daemon ends" {
			t.Errorf("a daemon was to end by itself: %q", line)
		}
	}
	result := r.over()
	mustBeGone(t, daemons...)
	if result.Killed || !slices.Equal(pidsOf(result.Orphans), daemons) {
		t.Errorf("%+v, daemons %v", result, daemons)
	}
}

func TestWaitingForOrphansEndsWithASignal(t *testing.T) {
	r, daemons, _ := leavesDaemons(t, Wait)
	r.endCommand()
	r.untilReported(2)
	r.signals <- syscall.SIGTERM
	if result := r.over(); result.Stopped || result.ExitCode != 0 {
		t.Errorf("%+v", result)
	}
	mustBeGone(t, daemons...)
}

func TestWaitingForOrphansEndsWithTheContext(t *testing.T) {
	for _, policy := range []Policy{Wait, Kill} {
		c := shell(`setsid sh -c 'trap "" TERM; echo $$; sleep 1000' & read x; exit 4`)
		c.KillAfter = time.Hour
		c.Orphans = policy
		ends := make(chan struct{})
		c.KillBy = func() time.Time {
			select {
			case <-ends:
				return time.Now().Add(100 * time.Millisecond)
			default:
				return time.Now().Add(time.Hour)
			}
		}
		logged := make(logLines, 64)
		c.Logger = slog.New(slog.NewTextHandler(logged, nil))
		r := begin(t, c)
		r.logged = logged
		pids := r.pids(1)
		r.endCommand()
		r.untilReported(1)
		close(ends)
		r.stop(errLost)
		result := r.over()
		if result.ExitCode != 4 || result.Stopped || result.Cause != errLost || !result.Killed {
			t.Errorf("%v: %+v", policy, result)
		}
		mustBeGone(t, pids...)
	}
}

func TestOrphansAreReported(t *testing.T) {
	r, daemons, endDaemons := leavesDaemons(t, Warn)
	r.endCommand()
	result := r.over()
	if !slices.Equal(pidsOf(result.Orphans), daemons) || result.Killed {
		t.Errorf("%+v, daemons %v", result, daemons)
	}
	for _, pid := range daemons {
		if s := stateOf(pid); s == "Z" || s == "" {
			t.Errorf("daemon %d was to go on: %q", pid, s)
		}
	}
	endDaemons()
	// The first daemon became a child of this process.
	if _, err := syscall.Wait4(result.Orphans[0].PID, nil, 0, nil); err != nil {
		t.Error(err)
	}
}

func TestTheDeadAreReapedMeanwhile(t *testing.T) {
	r := begin(t, shell(`for i in 1 2 3; do (setsid sh -c 'echo $$' &); done; read x`))
	pids := r.pids(3)
	eventually(t, "orphans that have ended are reaped while the command runs", func() bool {
		return !slices.ContainsFunc(pids, exists)
	})
	r.mustRun()
	r.endCommand()
	if result := r.over(); len(result.Orphans) != 0 {
		t.Errorf("%+v", result)
	}
}

func TestProcessesOfAnotherUserAreGivenUp(t *testing.T) {
	c := shell(`setsid sleep 1000 & echo $!; read x`)
	c.KillAfter = 50 * time.Millisecond
	var theirs atomic.Int64
	c.hooks.forbidden = func(pid int) bool { return int64(pid) == theirs.Load() }
	r := begin(t, c)
	pid := r.pids(1)[0]
	theirs.Store(int64(pid))
	r.endCommand()
	if result := r.over(); !slices.Equal(pidsOf(result.Orphans), []int{pid}) || !exists(pid) {
		t.Errorf("%+v", result)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	_, _ = syscall.Wait4(pid, nil, 0, nil)
}

func TestOwnChildrenAreNotTheCommands(t *testing.T) {
	other := exec.Command("/bin/sh", "-c", "sleep 1000 & wait")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	result := begin(t, shell("exit 0")).over()
	if len(result.Orphans) != 0 {
		t.Errorf("%+v", result)
	}
	if err := syscall.Kill(-other.Process.Pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = other.Wait()
}

func TestThreadsOutliveTheFirst(t *testing.T) {
	for text, want := range map[string]process{
		"12 (a) b (c) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 7 0 99 0 0": {pid: 12, name: "a) b (c", parent: 3, group: 4, start: 99},
		"12 (x) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0":       {pid: 12, name: "x", parent: 3, group: 4, start: 99, dead: true},
		"12 (x) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 99 0 0":       {pid: 12, name: "x", parent: 3, group: 4, start: 99},
	} {
		if got, err := parseStat([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "12", "12 (x", "12 (x) S 1", "x (x) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 7 0 99 0 0"} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
