package supervise

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is the C structure, of which the library has no copy for this system.
type siginfo struct {
	Signo, Errno, Code, pid, uid, state int32
	_                                   [104]byte
}

func (s *siginfo) status() int32 { return s.state }

func waitid(pid int, info *siginfo, options int) error {
	const onePID = 1 // P_PID
	_, _, errno := unix.Syscall6(unix.SYS_WAITID, onePID, uintptr(pid), uintptr(unsafe.Pointer(info)), uintptr(options), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// attributes: this system has no signal for the death of the parent. The watchdog stands in.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func foregroundGroup(fd int) (int, error) {
	return unix.IoctlGetInt(fd, unix.TIOCGPGRP)
}

func withholdDescriptors() error { return withholdListed("/dev/fd") }

// parentOf knows only the parent of this process.
func parentOf(pid int) int {
	if pid == os.Getpid() {
		return os.Getppid()
	}
	return 0
}

// sharesGroup is not known on this system.
func sharesGroup() bool { return false }

// seesMembers: the members of a group cannot be told apart, so the watchdog's presence would make it look alive.
const seesMembers = false

// tree knows only whether the command's group has members.
type tree struct{}

type process struct {
	pid   int
	name  string
	group int
}

type identity int

func (p process) identity() identity { return identity(p.pid) }

func newTree() (*tree, error) { return &tree{}, nil }

func (t *tree) close() {}

// look takes a group in which only ended processes are left for gone: the system refuses to signal it. One process
// stands for all of the group.
func (t *tree) look(pgid int, _ int) (alive []process, reaped bool, err error) {
	if unix.Kill(-pgid, 0) != nil {
		return nil, false, nil
	}
	return []process{{pid: -pgid, name: "process group", group: pgid}}, false, nil
}

// signal takes EPERM for the answer of a group in which all have ended: that is what this system says then.
func (t *tree) signal(p process, sig syscall.Signal) error {
	err := unix.Kill(p.pid, sig)
	if err == unix.EPERM {
		return unix.ESRCH
	}
	return err
}
