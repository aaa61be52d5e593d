package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/run"
)

// execution is a run as everybody may see it: without the owner token.
type execution struct {
	Run         string          `json:"run"`
	Lease       string          `json:"lease"`
	Fence       int64           `json:"fence_token"`
	Holder      string          `json:"holder"`
	Attempt     int             `json:"attempt"`
	Slot        *time.Time      `json:"slot"`
	Missed      int             `json:"missed"`
	Status      string          `json:"status"`
	Lost        bool            `json:"lost"`
	Progress    json.RawMessage `json:"progress,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	Error       string          `json:"error,omitempty"`
	StartedAt   *time.Time      `json:"started_at"`
	UpdatedAt   *time.Time      `json:"updated_at"`
	FinishedAt  *time.Time      `json:"finished_at"`
	ReplacedBy  int64           `json:"replaced_by,omitempty"`
	AdoptedFrom int64           `json:"adopted_from,omitempty"`
	Actor       string          `json:"actor,omitempty"`
}

func executionOf(r fencepost.Run) execution {
	return execution{r.ID, r.Lease, r.Fence, r.Holder, r.Attempt, instant(r.Slot), r.Missed, string(r.Status), r.Lost, r.Progress, r.Result, r.Error,
		instant(r.StartedAt), instant(r.UpdatedAt), instant(r.FinishedAt), r.ReplacedBy, r.AdoptedFrom, r.Actor}
}

// standingOf is a run's status for people.
func standingOf(r fencepost.Run) string {
	if r.Lost {
		return "running (lease lost)"
	}
	return string(r.Status)
}

func (a *app) runsLsCommand() *cobra.Command {
	var status string
	var limit int
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List runs, the newest first",
		Long: long(`Lists the runs of one lease, or of all, the newest first. A run whose lease is lost while nobody has taken over yet is still running on the
books, and marked so.`, 0, exitUsage, exitUnavailable),
		Example: `  fencepost runs ls nightly-backup
  fencepost runs ls --status failed --limit 20 --json`,
		Args: argsBetween(0, 1, "at most one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := fencepost.RunQuery{Limit: limit}
			if limit < 1 {
				return usagef("--limit is %d; it must be at least 1", limit)
			}
			if name, named := optionalName(args); named {
				if err := fencepost.ValidateName(name); err != nil {
					return err
				}
				q.Lease = name
			}
			if status != "" {
				if !fencepost.RunStatus(status).Valid() {
					return usagef("--status %q is no status of a run: use running, succeeded, failed, partial, abandoned, stalled or skipped", status)
				}
				q.Status = []fencepost.RunStatus{fencepost.RunStatus(status)}
			}
			return a.withHistory(cmd.Context(), func(ctx context.Context, h *run.History, _ *fencepost.Client) error {
				found, err := h.List(ctx, q)
				if err != nil {
					return err
				}
				rows := make([]execution, len(found))
				for i, r := range found {
					rows[i] = executionOf(r)
				}
				return a.out.print(struct {
					Runs []execution `json:"runs"`
				}{rows}, func(w io.Writer) {
					fmt.Fprintln(w, "RUN\tLEASE\tFENCE\tATTEMPT\tSTATUS\tSTARTED\tFINISHED\tSLOT")
					for _, r := range found {
						fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", r.ID, harmless(r.Lease), r.Fence, r.Attempt, standingOf(r),
							showTime(r.StartedAt), showTime(r.FinishedAt), showTime(r.Slot))
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only runs with this `status`")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most this `many`")
	return cmd
}

func (a *app) runsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one run",
		Long:    long(`Shows all that is on the books of one run, its progress and result included.`, 0, exitUsage, exitUnavailable),
		Example: `  fencepost runs show "$FENCEPOST_RUN"`,
		Args:    argsBetween(1, 1, "one run ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withHistory(cmd.Context(), func(ctx context.Context, h *run.History, _ *fencepost.Client) error {
				r, err := h.Get(ctx, args[0])
				if err != nil {
					return err
				}
				return a.out.print(executionOf(r), func(w io.Writer) { showRun(w, r) })
			})
		},
	}
}

func showRun(w io.Writer, r fencepost.Run) {
	fmt.Fprintf(w, "run\t%s\n", r.ID)
	fmt.Fprintf(w, "lease\t%s\n", harmless(r.Lease))
	fmt.Fprintf(w, "fence\t%d\n", r.Fence)
	fmt.Fprintf(w, "holder\t%s\n", orDash(r.Holder))
	fmt.Fprintf(w, "attempt\t%d\n", r.Attempt)
	fmt.Fprintf(w, "slot\t%s\n", showTime(r.Slot))
	fmt.Fprintf(w, "missed before\t%d\n", r.Missed)
	fmt.Fprintf(w, "status\t%s\n", standingOf(r))
	fmt.Fprintf(w, "started\t%s\n", showTime(r.StartedAt))
	fmt.Fprintf(w, "updated\t%s\n", showTime(r.UpdatedAt))
	fmt.Fprintf(w, "finished\t%s\n", showTime(r.FinishedAt))
	if r.ReplacedBy > 0 {
		fmt.Fprintf(w, "replaced by fence\t%d\n", r.ReplacedBy)
	}
	if r.AdoptedFrom > 0 {
		fmt.Fprintf(w, "adopted from letter\t%d, by %s\n", r.AdoptedFrom, harmless(r.Actor))
	}
	fmt.Fprintf(w, "progress\t%s\n", orDash(string(r.Progress)))
	fmt.Fprintf(w, "result\t%s\n", orDash(string(r.Result)))
	fmt.Fprintf(w, "error\t%s\n", orDash(r.Error))
}
