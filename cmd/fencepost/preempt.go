package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

func (a *app) preemptCommand() *cobra.Command {
	var fence, reason, actor string
	cmd := &cobra.Command{
		Use:   "preempt NAME --fence N --reason TEXT",
		Short: "Take a live lease away from its holder",
		Long: long(`Raises the fence and leaves the lease free for whoever comes next. The old holder's fenced writes are refused from then on; one that
is in progress is waited for. The old holder learns of it at its next renewal, or at its next write.

--fence must be the newest fence of the lease, as ls shows it: a decision about one holder never hits another. The events keep who
did it, and why.`, 0, exitUsage, exitUnavailable, exitUnknown, exitStale),
		Example: `  fencepost preempt nightly-backup --fence 7 --reason 'host replaced'`,
		Args:    argsBetween(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fencepost.ValidateName(args[0]); err != nil {
				return err
			}
			if fence == "" || strings.TrimSpace(reason) == "" {
				return usagef("preempt needs --fence N, the newest fence as ls shows it, and --reason TEXT")
			}
			number, err := parseFence(fence)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			return a.withStore(ctx, func(store database, client *fencepost.Client) error {
				grant, err := client.PreemptFree(ctx, args[0], number, reason, fencepost.WithActor(actor), fencepost.WithHolder(actor))
				if err != nil {
					return err
				}
				return a.out.print(struct {
					Lease    string `json:"lease"`
					Fence    int64  `json:"fence_token"`
					Previous int64  `json:"previous_fence"`
					State    string `json:"state"`
					Actor    string `json:"actor"`
					Reason   string `json:"reason"`
				}{args[0], grant.Token.Fence, number, fencepost.StateFree, actor, reason}, func(w io.Writer) {
					fmt.Fprintf(w, "preempted %s: fence %d is stale, the lease is free with fence %d\n", harmless(args[0]), number, grant.Token.Fence)
				})
			})
		},
	}
	cmd.Flags().StringVar(&fence, "fence", "", "the newest fence `number` of the lease")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the events")
	cmd.Flags().StringVar(&actor, "actor", defaultActor(), "who decided, for the events")
	return cmd
}

// defaultActor is user@host, as far as the system knows them.
func defaultActor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
