package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/run"
)

// deadLetter is a completion that was refused, for programs.
type deadLetter struct {
	Letter       int64           `json:"letter"`
	Run          string          `json:"run"`
	Lease        string          `json:"lease"`
	Fence        int64           `json:"fence_token"`
	CurrentFence int64           `json:"current_fence"`
	Reason       string          `json:"reason"`
	Holder       string          `json:"holder"`
	Slot         *time.Time      `json:"slot"`
	Status       string          `json:"status"`
	Result       json.RawMessage `json:"result,omitempty"`
	Error        string          `json:"error,omitempty"`
	At           *time.Time      `json:"at"`
	AdoptedBy    string          `json:"adopted_by,omitempty"`
	AdoptedAs    string          `json:"adopted_as,omitempty"`
	AdoptedAt    *time.Time      `json:"adopted_at,omitempty"`
}

func deadLetterOf(d fencepost.DeadLetter) deadLetter {
	return deadLetter{d.ID, d.RunID, d.Lease, d.Fence, d.Current, string(d.Reason), d.Holder, instant(d.Slot), string(d.Status), d.Result, d.Error,
		instant(d.At), d.AdoptedBy, d.AdoptedAs, instant(d.AdoptedAt)}
}

func (a *app) deadCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "dead",
		Short: "Results that were refused: ls, show, adopt, drop",
		Long: `A result that comes after its lease was lost is refused by the database and kept whole here. Whoever holds the lease, or an operator, may
adopt it: it then is the outcome of a new run under the present fence. Nothing is adopted by itself.`,
	}, a.deadLsCommand(), a.deadShowCommand(), a.deadAdoptCommand(), a.deadDropCommand())
}

func parseLetter(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, usagef("%q is no number of a dead letter; see fencepost dead ls", text)
	}
	return id, nil
}

func (a *app) deadLsCommand() *cobra.Command {
	var q fencepost.LetterQuery
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List dead letters, the newest first",
		Long:  long(`Lists the results that were refused, of one lease or of all, the newest first.`, 0, exitUsage, exitUnavailable),
		Example: `  fencepost dead ls
  fencepost dead ls nightly-backup --adopted --json`,
		Args: argsBetween(0, 1, "at most one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Limit < 1 {
				return usagef("--limit is %d; it must be at least 1", q.Limit)
			}
			if name, named := optionalName(args); named {
				if err := fencepost.ValidateName(name); err != nil {
					return err
				}
				q.Lease = name
			}
			return a.withHistory(cmd.Context(), func(ctx context.Context, h *run.History, _ *fencepost.Client) error {
				found, err := h.Letters(ctx, q)
				if err != nil {
					return err
				}
				rows := make([]deadLetter, len(found))
				for i, d := range found {
					rows[i] = deadLetterOf(d)
				}
				return a.out.print(struct {
					Letters []deadLetter `json:"letters"`
				}{rows}, func(w io.Writer) {
					fmt.Fprintln(w, "LETTER\tLEASE\tFENCE\tREFUSED BY\tREASON\tSTATUS\tAT\tADOPTED BY")
					for _, d := range found {
						fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", d.ID, harmless(d.Lease), d.Fence, d.Current, d.Reason, d.Status, showTime(d.At), orDash(d.AdoptedBy))
					}
				})
			})
		},
	}
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "at most this `many`")
	cmd.Flags().BoolVar(&q.Adopted, "adopted", false, "also those that were adopted")
	return cmd
}

func (a *app) deadShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show LETTER",
		Short:   "Show one dead letter with its result",
		Long:    long(`Shows a result that was refused: whose, under which fence, which fence refused it, why, and the result itself.`, 0, exitUsage, exitUnavailable),
		Example: `  fencepost dead show 3`,
		Args:    argsBetween(1, 1, "one number of a letter"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseLetter(args[0])
			if err != nil {
				return err
			}
			return a.withHistory(cmd.Context(), func(ctx context.Context, h *run.History, _ *fencepost.Client) error {
				d, err := h.Letter(ctx, id)
				if err != nil {
					return err
				}
				return a.out.print(deadLetterOf(d), func(w io.Writer) {
					fmt.Fprintf(w, "letter\t%d\n", d.ID)
					fmt.Fprintf(w, "lease\t%s\n", harmless(d.Lease))
					fmt.Fprintf(w, "run\t%s\n", d.RunID)
					fmt.Fprintf(w, "fence\t%d\n", d.Fence)
					fmt.Fprintf(w, "refused\t%s (newest fence %d)\n", d.Reason, d.Current)
					fmt.Fprintf(w, "holder\t%s\n", orDash(d.Holder))
					fmt.Fprintf(w, "slot\t%s\n", showTime(d.Slot))
					fmt.Fprintf(w, "status\t%s\n", d.Status)
					fmt.Fprintf(w, "result\t%s\n", orDash(string(d.Result)))
					fmt.Fprintf(w, "error\t%s\n", orDash(d.Error))
					fmt.Fprintf(w, "at\t%s\n", showTime(d.At))
					if !d.AdoptedAt.IsZero() {
						fmt.Fprintf(w, "adopted\t%s, by %s, as run %s\n", showTime(d.AdoptedAt), harmless(d.AdoptedBy), d.AdoptedAs)
					}
				})
			})
		},
	}
}

func (a *app) deadAdoptCommand() *cobra.Command {
	var t tokenFlags
	var actor string
	cmd := &cobra.Command{
		Use:   "adopt LETTER",
		Short: "Make a refused result the outcome of a new run",
		Long: long(`Makes a new run of a dead letter, finished at once with the letter's outcome, under the present fence of its lease. The history before it stays.

With the token of the lease's holder it is the holder's act. Without one it is an operator's: the lease is acquired for it and released
again; if somebody holds it, nothing is done (exit code 75). The run and the events keep who did it.`,
			0, exitUsage, exitUnavailable, exitUnknown, exitHeld, exitStale),
		Example: `  fencepost dead adopt 3 --actor ann`,
		Args:    argsBetween(1, 1, "one number of a letter"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseLetter(args[0])
			if err != nil {
				return err
			}
			var token fencepost.Token
			asHolder := cmd.Flags().Changed("owner") || cmd.Flags().Changed("fence")
			return a.withHistory(cmd.Context(), func(ctx context.Context, h *run.History, client *fencepost.Client) error {
				d, err := h.Letter(ctx, id)
				if err != nil {
					return err
				}
				if asHolder {
					if token, err = t.token(cmd, d.Lease, true); err != nil {
						return err
					}
				} else {
					lease, err := client.TryAcquire(ctx, d.Lease, fencepost.WithHolder(actor))
					if err != nil {
						return err
					}
					defer lease.Release(ctx)
					token = lease.Token()
				}
				out, err := h.Adopt(ctx, token, id, actor)
				if err != nil {
					return err
				}
				return a.out.print(executionOf(out), func(w io.Writer) {
					fmt.Fprintf(w, "adopted letter %d as run %s of %s, fence %d\n", id, out.ID, harmless(out.Lease), out.Fence)
				})
			})
		},
	}
	t.flags(cmd.Flags())
	cmd.Flags().StringVar(&actor, "actor", defaultActor(), "who decided, for the run and the events")
	return cmd
}

func (a *app) deadDropCommand() *cobra.Command {
	var actor string
	cmd := &cobra.Command{
		Use:     "drop LETTER",
		Short:   "Throw a refused result away",
		Long:    long(`Deletes a dead letter. The events of the lease keep who did it.`, 0, exitUsage, exitUnavailable, exitUnknown),
		Example: `  fencepost dead drop 3 --actor ann`,
		Args:    argsBetween(1, 1, "one number of a letter"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseLetter(args[0])
			if err != nil {
				return err
			}
			return a.withHistory(cmd.Context(), func(ctx context.Context, h *run.History, _ *fencepost.Client) error {
				if err := h.Drop(ctx, id, actor); err != nil {
					return err
				}
				return a.out.print(struct {
					Letter  int64 `json:"letter"`
					Dropped bool  `json:"dropped"`
				}{id, true}, func(w io.Writer) { fmt.Fprintf(w, "dropped letter %d\n", id) })
			})
		},
	}
	cmd.Flags().StringVar(&actor, "actor", defaultActor(), "who decided, for the events")
	return cmd
}
