package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// seesMembers: the watchdog can stay in the group until the end.
const seesMembers = true

// tree finds what descends from the command. This process is made the one to which the kernel hands orphans, so a
// daemon that forked twice and left session and group is still below it.
type tree struct {
	before map[identity]bool // children that this process had already: not the command's
}

func newTree() (*tree, error) {
	self := os.Getpid()
	all, err := allProcesses()
	if err != nil {
		return nil, err
	}
	if link, err := os.Readlink("/proc/self"); err != nil || link != fmt.Sprint(self) {
		return nil, errors.New("/proc is not the one of this process's namespace")
	}
	t := &tree{before: map[identity]bool{}}
	for _, p := range all {
		if p.parent == self {
			t.before[p.identity()] = true
		}
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("adopt orphans: %w", err)
	}
	return t, nil
}

// close lets orphans go on to the next adopter: nobody here would reap them any more.
func (t *tree) close() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }

// look lists the command's living processes, the leader among them while it lives, and reaps those dead ones that were
// handed to this process. The leader and the watchdog are left to those who wait for them. When something was reaped,
// look again before you believe that nothing is alive: what it was the parent of may have come after the reading.
func (t *tree) look(pgid, watchdog int) (alive []process, reaped bool, err error) {
	all, err := allProcesses()
	if err != nil {
		return nil, false, err
	}
	self := os.Getpid()
	below := map[int]bool{self: true}
	for pid := range all {
		t.descends(pid, all, below)
	}
	for pid, p := range all {
		switch {
		case pid == self || pid == watchdog:
		case !below[pid] && p.group != pgid:
		case !p.dead:
			alive = append(alive, p)
		case p.parent == self && pid != pgid:
			got, _ := unix.Wait4(pid, nil, unix.WNOHANG, nil)
			reaped = reaped || got == pid
		}
	}
	return alive, reaped, nil
}

// descends fills below, which holds this process to begin with, for pid and all its ancestors.
func (t *tree) descends(pid int, all map[int]process, below map[int]bool) bool {
	if is, known := below[pid]; known {
		return is
	}
	p, listed := all[pid]
	below[pid] = false // ends a walk through books that were not read at one moment
	below[pid] = listed && !t.before[p.identity()] && t.descends(p.parent, all, below)
	return below[pid]
}

// signal reaches this very process or none: a process id that was found a moment ago may belong to another by now.
func (t *tree) signal(p process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if errors.Is(err, unix.ESRCH) {
		return err
	}
	now, gone := readProcess(p.pid)
	if gone != nil || now.identity() != p.identity() {
		return unix.ESRCH
	}
	if err != nil { // before Linux 5.3, or in a container that forbids it: a moment remains
		return unix.Kill(p.pid, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// sharesGroup says whether the process group of this process has members that are not its ancestors: the other programs
// of a pipeline, which need the terminal themselves.
func sharesGroup() bool {
	all, err := allProcesses()
	if err != nil {
		return false
	}
	self := os.Getpid()
	own := all[self].group
	ancestors := map[int]bool{0: true}
	for pid := self; !ancestors[pid]; pid = all[pid].parent {
		ancestors[pid] = true
	}
	for pid, p := range all {
		if p.group == own && !p.dead && !ancestors[pid] {
			return true
		}
	}
	return false
}
