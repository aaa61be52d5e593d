package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/run"
)

// envRun is where scripts and children find the ID of their run.
const envRun = "FENCEPOST_RUN"

func (a *app) runsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "runs",
		Short: "The books of executions: start, progress, finish, ls, show",
		Long: `Every execution of a job is on the books: under which fence, how far it came, how it ended. start, progress and finish are fenced:
whoever lost the lease is refused, and a result that is refused is kept as a dead letter (see fencepost dead).`,
	}, a.runsStartCommand(), a.runsProgressCommand(), a.runsFinishCommand(), a.runsLsCommand(), a.runsShowCommand())
}

// withHistory opens the books of the database for one command.
func (a *app) withHistory(ctx context.Context, do func(ctx context.Context, h *run.History, client *fencepost.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return a.withStore(ctx, func(store database, client *fencepost.Client) error {
		books, ok := store.(fencepost.RunStore)
		if !ok {
			return fmt.Errorf("%w: the books of runs are kept on SQLite and PostgreSQL only so far", fencepost.ErrUnavailable)
		}
		// What the history would log, the command's own error says.
		return do(ctx, run.New(books, run.Options{Logger: a.log, Holder: defaultActor()}), client)
	})
}

// runFlags name a run of a token.
type runFlags struct {
	tokenFlags
	id string
}

func (r *runFlags) flags(f *pflag.FlagSet) {
	r.tokenFlags.flags(f)
	f.StringVar(&r.id, "run", os.Getenv(envRun), "the `ID` of the run (default $FENCEPOST_RUN)")
}

// attach finds the run that the flags name, without a question to the database.
func (r *runFlags) attach(cmd *cobra.Command, h *run.History, token fencepost.Token) (*run.Run, error) {
	if r.id == "" {
		return nil, usagef("no run is named: pass --run, or set %s; see %s --help", envRun, cmd.CommandPath())
	}
	return h.Attach(token, r.id)
}

// payload is JSON from an argument, or from standard input where that is "-".
func payload(text string) (any, error) {
	if text == "" {
		return nil, nil
	}
	raw := []byte(text)
	if text == "-" {
		var err error
		if raw, err = io.ReadAll(io.LimitReader(os.Stdin, run.DefaultMaxPayload+1)); err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
	}
	return json.RawMessage(raw), nil
}

func (a *app) runsStartCommand() *cobra.Command {
	var t tokenFlags
	var s run.Spec
	var slot string
	cmd := &cobra.Command{
		Use:   "start [NAME]",
		Short: "Put a run on the books",
		Long: long(`Puts a run on the books of the lease that the token holds, and prints its ID as FENCEPOST_RUN, for eval in a POSIX shell. The open run of
an earlier token becomes abandoned.

--slot is the time of a schedule that the run is for. A slot is run once: exit code 75 says that it was run or tried before, or is not due
yet by the database's clock.

`+tokenHelp, 0, exitUsage, exitUnavailable, exitUnknown, exitHeld, exitStale),
		Example: `  eval "$(fencepost acquire report --ttl 1m)"
  eval "$(fencepost runs start)"
  fencepost runs start --slot 2026-03-29T02:00:00Z`,
		Args: argsBetween(0, 1, "at most one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, named := optionalName(args)
			token, err := t.token(cmd, name, named)
			if err != nil {
				return err
			}
			if slot != "" {
				if s.Slot, err = time.Parse(time.RFC3339Nano, slot); err != nil {
					return usagef("--slot %q is no time such as 2026-03-29T02:00:00Z", slot)
				}
			}
			return a.withHistory(cmd.Context(), func(ctx context.Context, h *run.History, _ *fencepost.Client) error {
				r, err := h.Start(ctx, token, s)
				if err != nil {
					return err
				}
				return a.out.print(executionOf(r.Info()), func(w io.Writer) { fmt.Fprintf(w, "export %s=%s\n", envRun, shellQuote(r.ID())) })
			})
		},
	}
	t.flags(cmd.Flags())
	cmd.Flags().StringVar(&s.ID, "id", "", "the `ID` of the run, to start it again after an unknown outcome (default random)")
	cmd.Flags().StringVar(&slot, "slot", "", "the `time` of the schedule that the run is for, RFC 3339")
	cmd.Flags().IntVar(&s.Attempts, "attempts", 1, "how often the slot may be tried when a run of it is abandoned or stalls")
	return cmd
}

func (a *app) runsProgressCommand() *cobra.Command {
	var r runFlags
	cmd := &cobra.Command{
		Use:   "progress JSON",
		Short: "Say how far a run is",
		Long: long(`Replaces the progress of the run by JSON, or by standard input where that is "-": where the next run goes on if this one is
abandoned. At most 1 MiB. A lost lease is refused: stop the work then.

`+tokenHelp, 0, exitUsage, exitUnavailable, exitUnknown, exitStale),
		Example: `  fencepost runs progress '{"page": 17}'`,
		Args:    argsBetween(1, 1, "one JSON value"),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := r.token(cmd, "", false)
			if err != nil {
				return err
			}
			v, err := payload(args[0])
			if err != nil {
				return err
			}
			return a.withHistory(cmd.Context(), func(ctx context.Context, h *run.History, _ *fencepost.Client) error {
				one, err := r.attach(cmd, h, token)
				if err != nil {
					return err
				}
				if err := one.Progress(ctx, v); err != nil {
					return err
				}
				return a.out.print(struct {
					Run   string `json:"run"`
					Lease string `json:"lease"`
					Fence int64  `json:"fence_token"`
				}{one.ID(), token.Name, token.Fence}, func(w io.Writer) { fmt.Fprintf(w, "progress of run %s is kept\n", one.ID()) })
			})
		},
	}
	r.flags(cmd.Flags())
	return cmd
}

func (a *app) runsFinishCommand() *cobra.Command {
	var r runFlags
	var status, result, cause string
	cmd := &cobra.Command{
		Use:   "finish",
		Short: "End a run",
		Long: long(`Ends the run, once. Doing it again with the same outcome is answered by "finished before", also when the lease is lost by then, so that a
script can repeat it after an unknown outcome. Another outcome than the first is refused.

If the lease was lost before the run was finished, nothing is finished: exit code 76, and the result is kept as a dead letter.

`+tokenHelp, 0, exitUsage, exitUnavailable, exitUnknown, exitStale),
		Example: `  fencepost runs finish --result '{"rows": 42}'
  fencepost runs finish --status failed --error 'disk full'`,
		Args: argsBetween(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := r.token(cmd, "", false)
			if err != nil {
				return err
			}
			switch fencepost.RunStatus(status) {
			case fencepost.RunSucceeded, fencepost.RunPartial, fencepost.RunFailed:
			default:
				return usagef("--status is %q; use succeeded, partial or failed", status)
			}
			v, err := payload(result)
			if err != nil {
				return err
			}
			return a.withHistory(cmd.Context(), func(ctx context.Context, h *run.History, _ *fencepost.Client) error {
				one, err := r.attach(cmd, h, token)
				if err != nil {
					return err
				}
				out, err := one.End(ctx, fencepost.RunStatus(status), v, cause)
				if err != nil {
					return err
				}
				return a.out.print(struct {
					execution
					Already bool `json:"already"`
				}{executionOf(out.Run), out.Already}, func(w io.Writer) {
					if out.Already {
						fmt.Fprintf(w, "run %s was finished before, as %s\n", one.ID(), out.Run.Status)
					} else {
						fmt.Fprintf(w, "run %s has %s\n", one.ID(), map[fencepost.RunStatus]string{
							fencepost.RunSucceeded: "succeeded", fencepost.RunPartial: "ended in part", fencepost.RunFailed: "failed"}[out.Run.Status])
					}
				})
			})
		},
	}
	r.flags(cmd.Flags())
	cmd.Flags().StringVar(&status, "status", string(fencepost.RunSucceeded), "how it ended: succeeded, partial or failed")
	cmd.Flags().StringVar(&result, "result", "", "the result as `JSON`, or - for standard input; at most 1 MiB")
	cmd.Flags().StringVar(&cause, "error", "", "why it failed")
	return cmd
}
