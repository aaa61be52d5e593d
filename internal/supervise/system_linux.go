package supervise

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

type siginfo struct{ unix.Siginfo }

// status is the exit code or the signal. The library names only the first three fields of the structure.
func (s *siginfo) status() int32 {
	type child struct {
		_      [3]int32
		fields struct {
			_      [0]uintptr // the kernel's union is aligned as a pointer
			pid    int32
			uid    uint32
			status int32
		}
	}
	return (*child)(unsafe.Pointer(&s.Siginfo)).fields.status
}

func waitid(pid int, info *siginfo, options int) error {
	return unix.Waitid(unix.P_PID, pid, &info.Siginfo, options, nil)
}

// attributes makes the process die with the thread that forks it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func foregroundGroup(fd int) (int, error) {
	// A 32-bit value also where an int is longer: a read into an int would be wrong on a big-endian machine.
	pgid, err := unix.IoctlGetUint32(fd, unix.TIOCGPGRP)
	return int(pgid), err
}

// withholdDescriptors marks every descriptor above 2 as not to be inherited. Go marks its own; those that this process
// got from its parent unmarked would reach the command and be kept open by whatever it leaves behind.
func withholdDescriptors() error {
	if err := unix.CloseRange(3, uint(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	return withholdListed("/proc/self/fd") // before Linux 5.11
}

// parentOf returns 0 when it cannot be known.
func parentOf(pid int) int {
	p, err := readProcess(pid)
	if err != nil {
		return 0
	}
	return p.parent
}
