package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

// recentEvents is how many events show prints.
const recentEvents = 10

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show one lease and what happened to it last",
		Long: long(`Shows who holds a lease, since when, which fence, for how long yet, and its last events. A name that was never acquired here is an
error of usage (exit code 64, reason unknown_name): it is mostly a mistyped name or another database.`, 0, exitUsage, exitUnavailable),
		Example: `  fencepost show nightly-backup`,
		Args:    argsBetween(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fencepost.ValidateName(args[0]); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			return a.withStore(ctx, func(store database, client *fencepost.Client) error {
				info, found, err := client.Inspect(ctx, args[0])
				if err != nil {
					return err
				}
				if !found {
					return unknownName(args[0])
				}
				events, err := client.Events(ctx, fencepost.EventQuery{Lease: args[0], Limit: recentEvents, Last: true})
				if err != nil {
					return err
				}
				return a.out.print(struct {
					row
					Events []happening `json:"events"`
				}{rowOf(info), happenings(events)}, func(w io.Writer) { showLease(w, info, events) })
			})
		},
	}
}

func unknownName(name string) error {
	return usageError{fmt.Errorf("no lease %q was ever acquired here; check the name and the database", name), string(fencepost.ReasonUnknownName)}
}

func showLease(w io.Writer, i fencepost.LeaseInfo, events []fencepost.Event) {
	fmt.Fprintf(w, "lease\t%s\n", harmless(i.Name))
	fmt.Fprintf(w, "state\t%s\n", i.State())
	fmt.Fprintf(w, "fence\t%d\n", i.Fence)
	fmt.Fprintf(w, "holder\t%s\n", orDash(i.Holder))
	fmt.Fprintf(w, "leased until\t%s\n", showTime(i.LeasedUntil))
	fmt.Fprintf(w, "remaining\t%v\n", i.Remaining.Round(time.Millisecond))
	fmt.Fprintf(w, "ttl\t%v\n", i.TTL)
	fmt.Fprintf(w, "acquired\t%s\n", showTime(i.AcquiredAt))
	fmt.Fprintf(w, "renewed\t%s\n", showTime(i.RenewedAt))
	fmt.Fprintf(w, "waited for\t%t\n", i.Wanted)
	if len(events) > 0 {
		fmt.Fprintln(w, "\nlast events")
		for _, e := range events {
			eventLine(w, e)
		}
	}
}
