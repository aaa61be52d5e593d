package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

// happening is an event as programs get it.
type happening struct {
	ID     int64      `json:"id"`
	At     *time.Time `json:"at"`
	Lease  string     `json:"lease"`
	Kind   string     `json:"kind"`
	Fence  int64      `json:"fence_token"`
	Holder string     `json:"holder"`
	Actor  string     `json:"actor,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

func happeningOf(e fencepost.Event) happening {
	return happening{e.ID, instant(e.At), e.Lease, string(e.Kind), e.Fence, e.Holder, e.Actor, e.Reason}
}

func happenings(events []fencepost.Event) []happening {
	all := make([]happening, len(events))
	for i, e := range events {
		all[i] = happeningOf(e)
	}
	return all
}

func eventLine(w io.Writer, e fencepost.Event) {
	why := harmless(e.Reason)
	if e.Actor != "" {
		why = fmt.Sprintf("by %s: %s", harmless(e.Actor), why)
	}
	fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%s\t%s\n", e.ID, showTime(e.At), harmless(e.Lease), harmless(string(e.Kind)), e.Fence, orDash(e.Holder), why)
}

func (a *app) eventsCommand() *cobra.Command {
	var (
		q      fencepost.EventQuery
		follow bool
	)
	cmd := &cobra.Command{
		Use:   "events [NAME]",
		Short: "Show what happened to the leases",
		Long: long(`Shows what happened, to one lease or to all: acquired, taken_over, released, preempted, lost, stale_refused, each with the fence that
it is about and the time of the database. Without --after these are the newest --limit events, with it the first ones after that id.

--follow goes on with every new event until it is interrupted. With --json it prints one JSON value per line, one event each; without
--follow --json is one value as everywhere.`, 0, exitUsage, exitUnavailable),
		Example: `  fencepost events nightly-backup
  fencepost events --follow --json`,
		Args: argsBetween(0, 1, "at most one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name, named := optionalName(args); named {
				if err := fencepost.ValidateName(name); err != nil {
					return err
				}
				q.Lease = name
			}
			if q.Limit < 1 || q.After < 0 {
				return usagef("--limit must be at least 1 and --after at least 0")
			}
			q.Last = !cmd.Flags().Changed("after")
			return a.withStore(cmd.Context(), func(store database, client *fencepost.Client) error {
				if follow {
					return a.followEvents(cmd.Context(), client, q)
				}
				ctx, cancel := context.WithTimeout(cmd.Context(), patience)
				defer cancel()
				events, err := client.Events(ctx, q)
				if err != nil {
					return err
				}
				return a.out.print(struct {
					Events []happening `json:"events"`
				}{happenings(events)}, func(w io.Writer) {
					fmt.Fprintln(w, "ID\tAT\tLEASE\tEVENT\tFENCE\tHOLDER\tWHY")
					for _, e := range events {
						eventLine(w, e)
					}
				})
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with every new event")
	cmd.Flags().Int64Var(&q.After, "after", 0, "only events after this `id`")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "at most this `many`; with --follow, to begin with")
	return cmd
}
