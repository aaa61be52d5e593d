//go:build linux || darwin

package supervise

import (
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal at the command's standard input. A process group in the background that reads
// from it is stopped, so the command's group has to be made the foreground group as a shell would do.
type terminal struct {
	fd    int
	own   int         // the process group of this process
	modes *term.State // as they were before the command
	held  bool        // the command's side has it
}

// controllingTerminal returns nil if the file is no terminal, or not the one that this process's session is bound to.
func controllingTerminal(stdin *os.File) *terminal {
	if stdin == nil {
		return nil
	}
	fd := int(stdin.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	t := &terminal{fd: fd, own: unix.Getpgrp()}
	if _, err := foregroundGroup(fd); err != nil {
		return nil
	}
	t.modes, _ = term.GetState(fd)
	return t
}

// ours says whether the group of this process has the terminal.
func (t *terminal) ours() bool {
	if t == nil {
		return false
	}
	group, err := foregroundGroup(t.fd)
	return err == nil && group == t.own
}

func (t *terminal) give(pgid int) error {
	if err := unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgid); err != nil {
		return err
	}
	t.held = true
	return nil
}

func (t *terminal) takeBack() {
	if t != nil && t.held {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.own)
		t.held = false
	}
}

// restore undoes what a command that was killed could not undo itself, such as raw mode.
func (t *terminal) restore() {
	if t != nil && t.modes != nil {
		_ = term.Restore(t.fd, t.modes)
	}
}

// standBackground makes this process live in the background of a terminal: taking the terminal back, or writing a log
// line to one that forbids it, would stop the whole process, and with it whatever keeps the work legitimate. Ignoring is
// the only disposition that helps (a handler makes the kernel retry for ever), and a command started after this would
// inherit it: its reads would fail instead of waiting for its turn. undo is for the next command.
func standBackground() (undo func()) {
	wanted := slices.DeleteFunc([]os.Signal{unix.SIGTTIN, unix.SIGTTOU}, signal.Ignored)
	if len(wanted) == 0 {
		return func() {}
	}
	signal.Ignore(wanted...)
	return func() {
		// signal.Reset leaves them ignored. A handler, even one that nobody listens to, becomes the default in a child.
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, wanted...)
		signal.Stop(ch)
	}
}
