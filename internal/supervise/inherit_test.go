//go:build linux

package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestOnlyThreeDescriptorsAreInherited(t *testing.T) {
	// What this process got from its own parent is not marked, unlike what Go opens.
	leak, err := syscall.Dup(1)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	for name, withhold := range map[string]func() error{
		"by range": withholdDescriptors,
		"by list":  func() error { return withholdListed("/proc/self/fd") },
	} {
		if _, err := fcntl(leak, syscall.F_SETFD, 0); err != nil {
			t.Fatal(err)
		}
		if err := withhold(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if flags, err := fcntl(leak, syscall.F_GETFD, 0); err != nil || flags&syscall.FD_CLOEXEC == 0 {
			t.Errorf("%s: descriptor %d would be inherited: %d, %v", name, leak, flags, err)
		}
	}
	if _, err := fcntl(leak, syscall.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	r := begin(t, shell("echo $$; read x"))
	pid := r.pids(1)[0]
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, e := range entries {
		open = append(open, e.Name())
	}
	if !slices.Equal(open, []string{"0", "1", "2"}) {
		t.Errorf("the command has the descriptors %v", open)
	}
	r.endCommand()
	r.over()
}

func fcntl(fd, command, value int) (int, error) {
	result, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), uintptr(command), uintptr(value))
	if errno != 0 {
		return 0, errno
	}
	return int(result), nil
}

// supervised starts a program of its own that supervises the command; its output ends when all of it is dead.
func supervised(t *testing.T, args ...string) (supervisor *exec.Cmd, lines <-chan string) {
	t.Helper()
	cmd := exec.Command(self(), args...)
	cmd.Env = append(os.Environ(), roleVariable+"=supervisor", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	output, w := pipe(t)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines = linesOf(output)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for range lines {
		}
	})
	return cmd, lines
}

func TestTheSupervisorIsKilled(t *testing.T) {
	// The sleepers ignore what can be ignored, so that only a kill ends them.
	supervisor, lines := supervised(t, "--", "/bin/sh", "-c", `trap '' HUP TERM INT; sleep 1000 & (sleep 1000; true) & echo up; wait`)
	nextLine(t, lines)
	eventually(t, "the watchdog is on guard", func() bool { return watchdogOf(t, supervisor.Process.Pid) != 0 })
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if line, open := <-lines; open {
		t.Errorf("output after the end: %q", line)
	}
}

func TestTheSupervisorIsKilledAfterTheWatchdog(t *testing.T) {
	supervisor, lines := supervised(t, "--", "/bin/sh", "-c", `echo up; exec sleep 1000`)
	nextLine(t, lines)
	var dog int
	eventually(t, "the watchdog is on guard", func() bool {
		dog = watchdogOf(t, supervisor.Process.Pid)
		return dog != 0
	})
	if err := syscall.Kill(dog, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the watchdog is dead", func() bool { return stateOf(dog) != "S" })
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if line, open := <-lines; open {
		t.Errorf("output after the end: %q", line)
	}
}

// watchdogOf returns the watchdog once it waits: it ignores TERM by then.
func watchdogOf(t *testing.T, supervisor int) int {
	t.Helper()
	all, err := allProcesses()
	if err != nil {
		t.Fatal(err)
	}
	for pid, p := range all {
		if p.parent != supervisor {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, ignored, _ := strings.Cut(string(status), "SigIgn:\t")
		if strings.Contains(string(line), "fencepost-watchdog") && !strings.HasPrefix(ignored, "0000000000000000") {
			return pid
		}
	}
	return 0
}

func TestTheSupervisorGetsTheSignals(t *testing.T) {
	supervisor, lines := supervised(t, "role", "--", "record", "leader", "exits")
	nextLine(t, lines)
	nextLine(t, lines)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM} {
		if err := supervisor.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{nextLine(t, lines): true, nextLine(t, lines): true}
		if !got["leader "+sig.String()] || !got["member "+sig.String()] {
			t.Errorf("%v: %v", sig, got)
		}
	}
	for line := range lines {
		t.Errorf("output after the end: %q", line)
	}
	if err := supervisor.Wait(); supervisor.ProcessState.ExitCode() != 7 {
		t.Errorf("the command's code was 7: %v", err)
	}
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `trap '' HUP; exec "$@"`, "sh", self(), "--", "/bin/sh", "-c", `kill -s HUP $PPID; kill -s HUP $$; echo alive`)
	cmd.Env = append(os.Environ(), roleVariable+"=supervisor", "GORACE=atexit_sleep_ms=0")
	if out, err := cmd.Output(); err != nil || string(out) != "alive\n" {
		t.Errorf("under nohup: %q, %v", out, err)
	}
}

// The kernel ties "die with the parent" to the thread that forked, and Go ends threads when it likes.
func TestTheCommandOutlivesThreads(t *testing.T) {
	r := begin(t, part("record", "alone", "exits"))
	r.line()
	for range 20 {
		var locked, free = make(chan struct{}), make(chan struct{})
		const threads = 16
		for range threads {
			go func() {
				runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
				locked <- struct{}{}
				<-free
			}()
		}
		for range threads {
			<-locked
		}
		close(free)
	}
	r.signals <- syscall.SIGTERM
	if result := r.over(); result.ExitCode != 7 {
		t.Errorf("the command was killed by the end of a thread: %+v", result)
	}
}

// A program that was started while terminal signals were ignored reads nothing in the background instead of waiting.
func TestNoSignalIsIgnoredByALaterCommand(t *testing.T) {
	for range 2 {
		r := begin(t, shell("grep SigIgn: /proc/self/status"))
		mask, err := strconv.ParseUint(strings.Fields(r.line())[1], 16, 64)
		if terminal := uint64(1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1)); err != nil || mask&terminal != 0 {
			t.Errorf("the command ignores the terminal's signals: %x, %v", mask, err)
		}
		r.over()
	}
}
