//go:build linux || darwin

package supervise

import (
	"io"
	"os"
	"os/exec"
	"syscall"
)

// watchdogScript waits for the end of a pipe that only the supervisor holds open, which comes whatever way the
// supervisor ends, and kills the group that it stands in itself. It is a shell because it must cost nothing beside the
// command, and because a member of the group keeps the group's id from being given to others: the signal can hit no
// stranger. Signals that the group gets are not for it.
const watchdogScript = `trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE TSTP TTIN TTOU; read -r _; kill -s KILL 0`

type watchdog struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// guard puts a watchdog into the group. It holds no descriptor of the command's.
func guard(pgid int, jobControl chan os.Signal) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "fencepost-watchdog")
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: pgid}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := unstoppable(jobControl, cmd.Start); err != nil {
		return nil, err
	}
	return &watchdog{cmd: cmd, pipe: pipe}, nil
}

func (w *watchdog) pid() int {
	if w == nil {
		return 0
	}
	return w.cmd.Process.Pid
}

// dismiss ends the watchdog before its pipe does.
func (w *watchdog) dismiss() {
	if w == nil {
		return
	}
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
	_ = w.pipe.Close()
}
