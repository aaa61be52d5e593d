package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/fencepost/fencepost"
)

// The exit codes of every command.
const (
	exitFailed      = 1
	exitUsage       = 64
	exitUnavailable = 69
	exitUnknown     = 74
	exitHeld        = 75
	exitStale       = 76
	exitSignal      = 128 // plus the number of the signal
)

var exitMeanings = []struct {
	code int
	says string
}{
	{0, "done"},
	{exitFailed, "something else failed, such as the statement of `sql`"},
	{exitUsage, "usage: bad flag, name, TTL or token"},
	{exitUnavailable, "the database cannot be reached, or has no schema"},
	{exitUnknown, "the outcome is unknown: the link was lost while the server may have been applying"},
	{exitHeld, "held by another: try again later"},
	{exitStale, "stale: the lease was lost, the token is not the newest"},
}

func exitTable(codes ...int) string {
	var b strings.Builder
	for _, m := range exitMeanings {
		for _, code := range codes {
			if code == m.code {
				fmt.Fprintf(&b, "  %3d  %s\n", m.code, m.says)
			}
		}
		if len(codes) == 0 {
			fmt.Fprintf(&b, "  %3d  %s\n", m.code, m.says)
		}
	}
	return b.String()
}

// long is a command's help: what it does, and the exit codes that it can give.
func long(text string, codes ...int) string {
	return text + "\n\nExit codes:\n" + strings.TrimSuffix(exitTable(codes...), "\n")
}

// failure is what an error is to a program: the JSON value on stdout, and the exit code.
type failure struct {
	Error        string `json:"error"`
	Reason       string `json:"reason,omitempty"`
	Lease        string `json:"lease,omitempty"`
	Fence        *int64 `json:"fence_token,omitempty"`
	CurrentFence *int64 `json:"current_fence,omitempty"`
	Holder       string `json:"holder,omitempty"`
	RemainingMS  *int64 `json:"remaining_ms,omitempty"`
	Message      string `json:"message"`
	exit         int
}

// usageError says that the command was called in a way that cannot work, with a reason that a program can switch on. It is a
// fencepost.ErrInvalid.
type usageError struct {
	error
	reason string
}

func (e usageError) Unwrap() []error { return []error{fencepost.ErrInvalid, e.error} }

// signalError says that a signal ended the command before it had done anything that lasts.
type signalError struct {
	signal syscall.Signal
	doing  string
}

func (e signalError) Error() string {
	return fmt.Sprintf("%s ended %s", signalName(e.signal), e.doing)
}

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...), "usage"}
}

func asUsage(err error) error {
	if errors.Is(err, fencepost.ErrInvalid) {
		return err
	}
	return usagef("%w", err)
}

func describe(err error) failure {
	f := failure{Error: "failed", exit: exitFailed, Message: message(err)}
	if usage, ok := errors.AsType[usageError](err); ok {
		f.Reason = usage.reason
	}
	stale, isStale := errors.AsType[*fencepost.StaleError](err)
	held, isHeld := errors.AsType[*fencepost.HeldError](err)
	interrupted, isSignal := errors.AsType[signalError](err)
	unstarted, notStarted := errors.AsType[startFailure](err)
	ofRun, isRun := errors.AsType[*fencepost.RunError](err)
	switch {
	case isSignal:
		f.Error, f.Reason, f.exit = "interrupted", signalName(interrupted.signal), exitSignal+int(interrupted.signal)
	case notStarted:
		f.Reason, f.exit = unstarted.reason, unstarted.code
	case isStale:
		f.Error, f.Reason, f.exit = "stale", string(stale.Reason), exitStale
		f.Lease, f.Fence, f.Holder = stale.Lease, &stale.Presented, stale.Holder
		if stale.Current > 0 {
			f.CurrentFence = &stale.Current
		}
	case isRun && errors.Is(err, fencepost.ErrSlot):
		f.Error, f.Reason, f.exit, f.Lease = "held", string(ofRun.Reason), exitHeld, ofRun.Lease
		if ofRun.In > 0 {
			f.RemainingMS = new(ofRun.In.Milliseconds())
		}
	case isRun:
		f.Error, f.Reason, f.exit, f.Lease = "invalid", string(ofRun.Reason), exitUsage, ofRun.Lease
	case errors.Is(err, fencepost.ErrUnknown):
		f.Error, f.exit = "unknown", exitUnknown
	case isHeld:
		f.Error, f.exit = "held", exitHeld
		f.Lease, f.Holder, f.CurrentFence = held.Lease, held.Holder, &held.Fence
		f.RemainingMS = new(held.Remaining.Milliseconds())
		f.Reason = "held"
		if held.Busy {
			f.Reason = "busy"
		}
	case errors.Is(err, fencepost.ErrBusy):
		f.Error, f.Reason, f.exit = "held", "busy", exitHeld
	case errors.Is(err, fencepost.ErrInvalid):
		f.Error, f.exit = "invalid", exitUsage
	case errors.Is(err, fencepost.ErrUnavailable):
		f.Error, f.exit = "unavailable", exitUnavailable
	}
	return f
}

// message is an error as one line.
func message(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return harmless(strings.Join(lines, "; "))
}

// finish reports an error, if there is one, and returns the exit code.
func (a *app) finish(err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[childCode](err); ok {
		return int(code)
	}
	f := describe(err)
	f.Message = a.place.redact(f.Message)
	fmt.Fprintf(a.stderr, "fencepost: %s\n", f.Message)
	if a.out.json && !a.out.written {
		if err := a.out.value(f); err != nil {
			fmt.Fprintf(a.stderr, "fencepost: stdout: %v\n", err)
		}
	}
	return f.exit
}

// childCode is the exit code of a command that ended by itself: ours too, without a word.
type childCode int

func (c childCode) Error() string { return fmt.Sprintf("the command exited with code %d", int(c)) }
