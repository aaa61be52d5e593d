// Package supervise runs one command and makes sure that nothing of it is left when the run is over: the command is the
// leader of a process group of its own, signals go to the whole group, and the end of a context stops all of it by a
// hard time. It knows nothing of leases.
//
// What it guarantees depends on the system. Linux: everything that descends from the command is found, also after a
// double fork or setsid; when the supervisor itself is killed with SIGKILL, the command dies by the kernel's hand, and
// its process group by a watchdog's; a descendant that had left the group survives in that one case. macOS: the process
// group only. Elsewhere Run answers that it is not supported.
package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// Policy says what happens to processes that are still there when the command has ended by itself. When the context
// ends the run, they are all stopped whatever the policy is.
type Policy int

const (
	// Kill stops them: SIGTERM, and SIGKILL after Command.KillAfter.
	Kill Policy = iota
	// Wait waits until they have ended; signals that the supervisor is sent go to them meanwhile.
	Wait
	// Warn leaves them running and says so in the log and in Result.Orphans.
	Warn
)

// String returns the policy's name in lower case.
func (p Policy) String() string {
	switch p {
	case Kill:
		return "kill"
	case Wait:
		return "wait"
	case Warn:
		return "warn"
	}
	return fmt.Sprintf("policy(%d)", int(p))
}

// ParsePolicy is the inverse of String.
func ParsePolicy(name string) (Policy, error) {
	for _, p := range []Policy{Kill, Wait, Warn} {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("unknown policy for processes that outlive the command %q: use kill, wait or warn", name)
}

// Command is what to run, and how to end it. It may be run more than once, one run after the other.
type Command struct {
	// Args is the command line; Args[0] is looked up in PATH unless it contains a slash.
	Args []string
	// Env is the whole environment of the command; nil means that of this process.
	Env []string
	// Dir is the working directory; empty means that of this process.
	Dir string
	// Stdin, Stdout and Stderr are the only descriptors that the command gets; nil means the null device.
	Stdin, Stdout, Stderr *os.File

	// KillAfter is the time between SIGTERM and SIGKILL when the run is stopped. With zero there is no SIGTERM.
	KillAfter time.Duration
	// KillBy, if set, is asked once when the run is stopped, for the moment at which everything must be dead. SIGKILL
	// is sent then if that is earlier than KillAfter allows: a process that was itself paused learns too late that it
	// has to stop, and the patience it promised is used up already. Use a time that carries the monotonic clock.
	KillBy func() time.Time
	// Orphans is what to do with processes that outlive the command.
	Orphans Policy

	// OnStop is called when the command was suspended at the terminal (Ctrl-Z) and this process is about to suspend
	// itself with it, so that the shell gets control: nothing in this process runs until somebody continues it.
	OnStop func()
	// OnContinue is called when this process was continued, before the command is. The time in between is unknown, and
	// timers of this process may not have fired yet: what was valid before must be asked anew, and if it is gone, the
	// context be cancelled before OnContinue returns; the command is then stopped instead of continued.
	OnContinue func()

	// Logger gets what a person should know and no return value says; nil means nobody.
	Logger *slog.Logger

	hooks hooks // what tests watch
}

// Result is how a run ended.
type Result struct {
	// PID is the process id that the command had; it may be in use by another process now. 0: it never ran.
	PID int
	// ExitCode is what a shell would report: the command's own code, 128+n when signal n ended it, 127 when there is no
	// such command, 126 when it cannot be executed, -1 when it could not be started for another reason.
	ExitCode int
	// Signal ended the command; 0 when it exited.
	Signal syscall.Signal
	// Stopped says that the context ended while the command ran, and that it was told to stop for that reason.
	Stopped bool
	// Cause is the context's cause when the context ended before the run did.
	Cause error
	// Killed says that SIGKILL was needed for something.
	Killed bool
	// Orphans are the processes that outlived the command. They are gone when Run returns, except with the policy Warn
	// and except those that this user may not signal.
	Orphans []Orphan
}

// Orphan is a process that outlived the command that it came from.
type Orphan struct {
	// PID is its process id, 0 where the system does not tell.
	PID int
	// Name is the short name of its program.
	Name string
}

var (
	// ErrNotFound says that there is no such command; Result.ExitCode is 127.
	ErrNotFound = errors.New("command not found")
	// ErrNotExecutable says that the command exists and cannot be executed; Result.ExitCode is 126.
	ErrNotExecutable = errors.New("command cannot be executed")
	// ErrNotStarted says that the context had ended before the command was started; it comes with the context's cause.
	ErrNotStarted = errors.New("command not started")
	// ErrBusy says that this process supervises another command already. What a command leaves behind becomes a child
	// of this process, and nothing tells which command it came from.
	ErrBusy = errors.New("this process supervises another command already: run one at a time")
)

// hooks let a test see what is otherwise between this process and the kernel.
type hooks struct {
	signalling func(pid int, sig syscall.Signal) // before every signal; a negative pid is a group
	reaped     func(pid int)                     // after the command's process id was given back to the system
	forbidden  func(pid int) bool                // processes to treat as those of another user
}
