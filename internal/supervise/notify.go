//go:build linux || darwin

package supervise

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// Notify subscribes to the signals that belong to the command: TERM, INT, HUP, QUIT, USR1 and USR2. Give the channel to
// Run; what arrived before the start reaches the command right after it. Those that this process was started with
// ignored stay ignored, for the command too: otherwise nohup would have no effect. stop ends the subscription.
func Notify() (signals <-chan os.Signal, stop func()) {
	ch := make(chan os.Signal, 64)
	wanted := slices.DeleteFunc(slices.Clone(forwarded), signal.Ignored)
	if len(wanted) > 0 { // without an argument it would subscribe to everything
		signal.Notify(ch, wanted...)
	}
	return ch, func() { signal.Stop(ch) }
}

// jobControl subscribes to what only Run can answer: a stop asked for at the terminal, and the word to go on.
func jobControl() (signals chan os.Signal, stop func()) {
	ch := make(chan os.Signal, 16)
	signal.Notify(ch, syscall.SIGCONT)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(ch, syscall.SIGTSTP)
	}
	return ch, func() { signal.Stop(ch) }
}

// unstoppable starts a process that no stop of its group can reach. Without it, Ctrl-Z in the moment between fork and exec stops the
// copy of this program that is about to become the other, and this process waits in the fork until somebody continues it: with its
// timers, and so with whatever keeps the work legitimate.
func unstoppable(jobControl chan os.Signal, start func() error) error {
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Ignore(syscall.SIGTSTP)                   // is inherited
		defer signal.Notify(jobControl, syscall.SIGTSTP) // Ignore ended the subscription
	}
	return start()
}
