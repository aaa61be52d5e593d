package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/supervise"
)

func (a *app) runCommand() *cobra.Command {
	var (
		r         runner
		killAfter duration
		orphans   string
	)
	cmd := &cobra.Command{
		Use:   "run NAME -- COMMAND [ARG ...]",
		Short: "Run a command while the lease is held",
		Long: long(`Acquires the lease, runs the command in a process group of its own, renews the lease meanwhile, and releases it when nothing of the
command is left. If the lease is lost, or the database does not answer in time, the whole group gets SIGTERM, and SIGKILL after
--kill-after, so early that it is dead before the lease can end by the database's clock. Signals (TERM, INT, HUP, QUIT, USR1, USR2) go to the
command. While it waits for the lease, they end run itself, and the command is never started.

The command finds the token in FENCEPOST_LEASE, FENCEPOST_OWNER and FENCEPOST_FENCE, so that it can use fencepost sql, held and
renew. It also gets FENCEPOST_DB, which holds the password if the URL has one; name the URL's file in FENCEPOST_DB_FILE instead, and the
command gets only that.

--orphans says what happens to processes that outlive the command: kill stops them, wait waits for them and keeps the lease meanwhile, warn
leaves them running without a lease.

With --json the command's stdout goes to stderr, and stdout gets one JSON value at the end.

The exit code is the command's own, 128+n if signal n ended it, 127 if it was not found, 126 if it cannot be executed.`,
			exitFailed, exitUsage, exitUnavailable, exitUnknown, exitHeld, exitStale),
		Example: `  fencepost run nightly-backup --ttl 30s -- ./backup.sh --all
  fencepost run report --wait=10m --kill-after 5s -- sh -c 'make_report && fencepost sql "UPDATE ..."'`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash == 2 && cmd.Flags().Changed("wait"):
				return usagef("the value of --wait needs an equals sign: --wait=%s", args[1])
			case dash != 1:
				return usagef("write one NAME, then --, then the command: fencepost run NAME -- COMMAND; see %s --help", cmd.CommandPath())
			case len(args) < 2:
				return usagef("no command is given after --; see %s --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r.app, r.name, r.args = a, args[0], args[1:]
			if err := r.wish.validate(r.name); err != nil {
				return err
			}
			policy, err := supervise.ParsePolicy(orphans)
			if err != nil {
				return usagef("--orphans: %w", err)
			}
			r.orphans = policy
			if r.stopping, err = stoppingIn(time.Duration(r.wish.ttl), time.Duration(killAfter), cmd.Flags().Changed("kill-after")); err != nil {
				return err
			}
			return r.run(cmd.Context())
		},
	}
	r.wish.flags(cmd.Flags())
	cmd.Flags().Var(&killAfter, "kill-after", "time between SIGTERM and SIGKILL when the lease is lost (default a fifth of the TTL, at most 10s)")
	cmd.Flags().StringVar(&orphans, "orphans", supervise.Kill.String(), "processes that outlive the command: kill, wait or warn")
	return cmd
}

// stopping is the time that ending the command takes, all of it before the lease ends.
type stopping struct {
	killAfter time.Duration
	slack     time.Duration // for the signals to arrive, the processes to die, and clocks that run at different speeds
}

const (
	longestKillAfter = 10 * time.Second // by default
	shortestSlack    = 200 * time.Millisecond
	longestSlack     = time.Minute
)

// stoppingIn fits the stopping into a TTL: what remains must leave room for a renewal, which is sent every third of the TTL.
func stoppingIn(ttl, killAfter time.Duration, given bool) (stopping, error) {
	if !given {
		killAfter = min(ttl/5, longestKillAfter)
	}
	s := stopping{killAfter: killAfter, slack: min(max(ttl/10, shortestSlack), longestSlack)}
	room := ttl * 2 / 3
	switch {
	case killAfter < 0:
		return s, usagef("--kill-after is %v; it cannot be negative", killAfter)
	case killAfter >= room || s.margin() >= room:
		return s, usagef("--kill-after %v does not fit --ttl %v: with %v for the processes to die, the command must be told to stop %v before the lease ends, "+
			"and less than two thirds of the TTL, %v, are there for that; use a shorter --kill-after or a longer --ttl", killAfter, ttl, s.slack, s.margin(), room)
	}
	return s, nil
}

// margin is how long before the end of the lease the stopping begins.
func (s stopping) margin() time.Duration { return s.killAfter + s.slack }

// runner is one `run`.
type runner struct {
	*app
	wish     wish
	name     string
	args     []string
	orphans  supervise.Policy
	stopping stopping
}

// ran is how a run ended, for programs.
type ran struct {
	Lease    string   `json:"lease"`
	Fence    int64    `json:"fence_token"`
	ExitCode int      `json:"exit_code"`
	Signal   string   `json:"signal,omitempty"`
	Killed   bool     `json:"killed"`
	Released bool     `json:"released"`
	Orphans  []orphan `json:"orphans"`
}

type orphan struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

func (r *runner) run(ctx context.Context) error {
	// Before the waiting begins, so that no moment is left in which a signal would have its default effect.
	signals, stopSignals := supervise.Notify()
	defer stopSignals()
	ctx, stopWaiting := r.untilSignal(ctx, "the waiting for the lease; the command was not started")
	defer stopWaiting()
	started := false
	err := r.withStore(ctx, func(_ database, client *fencepost.Client) error {
		lease, err := r.wish.acquire(ctx, client, r.name, fencepost.WithMargin(r.stopping.margin()))
		if err != nil {
			return err
		}
		if signalled(ctx) != nil {
			lease.Release(ctx)
			return nil
		}
		started = true // a signal from here on is the command's
		stopWaiting()
		result, err := r.supervise(lease, signals)
		return r.settle(lease, result, err)
	})
	if signal := signalled(ctx); signal != nil && !started {
		return signal // whatever it interrupted
	}
	return err
}

// supervise runs the command under a lease that is held.
func (r *runner) supervise(lease *fencepost.Lease, signals <-chan os.Signal) (supervise.Result, error) {
	ctx, cancel := context.WithCancelCause(lease.Context())
	defer cancel(nil)
	token := lease.Token()
	cmd := supervise.Command{
		Args:      r.args,
		Env:       r.place.environ(&token),
		Stdin:     os.Stdin,
		Stdout:    os.Stdout,
		Stderr:    os.Stderr,
		KillAfter: r.stopping.killAfter,
		KillBy:    func() time.Time { return lease.Deadline().Add(r.stopping.killAfter) },
		Orphans:   r.orphans,
		OnContinue: func() {
			if err := r.stillHeld(lease); err != nil {
				cancel(err)
			}
		},
		Logger: r.log,
	}
	if r.out.json {
		cmd.Stdout = os.Stderr
	}
	return cmd.Run(ctx, signals)
}

// stillHeld asks anew after this process was suspended: its timers may not have fired, and the lease may be another's.
func (r *runner) stillHeld(lease *fencepost.Lease) error {
	left := time.Until(lease.Deadline())
	if left <= 0 {
		return &fencepost.StaleError{Lease: r.name, Reason: fencepost.ReasonLocalDeadline, Presented: lease.Token().Fence}
	}
	ctx, cancel := context.WithTimeout(lease.Context(), left)
	defer cancel()
	if err := lease.Renew(ctx); errors.Is(err, fencepost.ErrStale) {
		return err
	}
	return nil // not heard: the keeper goes on trying until the local deadline
}

// settle releases the lease, now that nothing of the command is left, and says how the run ended.
func (r *runner) settle(lease *fencepost.Lease, result supervise.Result, runErr error) error {
	lost := lease.Err()
	if lost == nil && result.Stopped {
		lost = result.Cause
	}
	released, releaseErr := lease.Release(context.Background())
	if stale, ok := errors.AsType[*fencepost.StaleError](lost); ok && stale.Reason == fencepost.ReasonLocalDeadline && errors.Is(releaseErr, fencepost.ErrStale) {
		lost = releaseErr // the database was heard after all, and knows more
	}
	switch {
	case lost != nil && runErr == nil:
		return fmt.Errorf("%w (the command %s)", lost, ending(result))
	case lost != nil:
		return errors.Join(lost, runErr)
	case runErr != nil:
		return notRun(result, runErr)
	case errors.Is(releaseErr, fencepost.ErrStale):
		return fmt.Errorf("the lease was lost before the command ended by itself with exit code %d: %w", result.ExitCode, releaseErr)
	case releaseErr != nil:
		// The command ran under the lease to its end, so that its own code stands.
		r.log.Warn("the lease could not be released and ends by itself", "lease", r.name, "error", releaseErr)
	}
	if r.out.json {
		token := lease.Token()
		report := ran{token.Name, token.Fence, result.ExitCode, "", result.Killed, released, make([]orphan, len(result.Orphans))}
		for i, o := range result.Orphans {
			report.Orphans[i] = orphan(o)
		}
		if result.Signal != 0 {
			report.Signal = signalName(result.Signal)
		}
		if err := r.out.value(report); err != nil {
			return err
		}
	}
	return childCode(result.ExitCode)
}

func ending(result supervise.Result) string {
	switch {
	case result.Killed:
		return "was killed"
	case result.Stopped:
		return fmt.Sprintf("was stopped, exit code %d", result.ExitCode)
	}
	return fmt.Sprintf("had just ended, exit code %d", result.ExitCode)
}

// startFailure says that the command could not be run; it has an exit code of its own, as in a shell.
type startFailure struct {
	error
	code   int
	reason string
}

func (e startFailure) Unwrap() error { return e.error }

func notRun(result supervise.Result, err error) error {
	switch {
	case errors.Is(err, supervise.ErrNotFound):
		return startFailure{err, result.ExitCode, "not_found"}
	case errors.Is(err, supervise.ErrNotExecutable):
		return startFailure{err, result.ExitCode, "not_executable"}
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return startFailure{err, exitFailed, "no_resources"}
	}
	return err
}
