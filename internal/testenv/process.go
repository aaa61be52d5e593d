package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one server process, known to the watchdog from before its first instruction until it was reaped.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process was reaped
}

// begin starts a server program as the unprivileged account, with its output in dir/log. The program waits in a shell
// until the watchdog knows its process id: if this process is killed in between, the shell reads end-of-file and leaves.
func begin(dir string, signal syscall.Signal, argv []string, env ...string) (*process, error) {
	guard, err := watchdog()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := unprivileged(dir, append([]string{"/bin/sh", "-c", `read -r go && exec "$@" </dev/null`, "sh"}, argv...))
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr.Setpgid = true
	cmd.Stdout, cmd.Stderr = log, log
	gate, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("testenv: start %s: %w", argv[0], err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	guard.tell("watch %d %d", cmd.Process.Pid, int(signal))
	_, err = gate.Write([]byte("go\n"))
	gate.Close()
	go func() {
		_ = cmd.Wait()
		guard.tell("gone %d", cmd.Process.Pid)
		close(p.done)
	}()
	return p, err
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(sig syscall.Signal) error {
	if p.exited() {
		return errors.New("testenv: the server does not run")
	}
	return p.cmd.Process.Signal(sig)
}

// stop sends sig, waits for the end, and turns to SIGKILL when the patience is over. A frozen server is thawed first:
// it could not act on the signal.
func (p *process) stop(sig syscall.Signal, patience time.Duration) error {
	if p.exited() {
		return nil
	}
	_ = p.signal(sig)
	_ = p.signalAll(syscall.SIGCONT)
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
	}
	_ = p.signalAll(syscall.SIGKILL)
	<-p.done
	return fmt.Errorf("testenv: the server did not stop within %v after %v and was killed", patience, sig)
}

// signalAll signals the process and all its descendants, parents first so that no new child escapes.
func (p *process) signalAll(sig syscall.Signal) error {
	if err := p.signal(sig); err != nil {
		return err
	}
	children, err := descendants(p.cmd.Process.Pid)
	for _, pid := range children {
		// A process that ended meanwhile needs no signal.
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return err
}

// descendants lists the processes below pid, nearest first.
func descendants(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		children[parentOf(id)] = append(children[parentOf(id)], id)
	}
	all := children[pid]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

func parentOf(pid int) int {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // ended meanwhile
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "PPid:"); ok {
			parent, _ := strconv.Atoi(strings.TrimSpace(text))
			return parent
		}
	}
	return 0
}
