package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

// granted is a token as programs get it.
type granted struct {
	Lease       string     `json:"lease"`
	Owner       string     `json:"owner_token"`
	Fence       int64      `json:"fence_token"`
	LeasedUntil *time.Time `json:"leased_until"`
	RemainingMS int64      `json:"remaining_ms"`
	Holder      string     `json:"holder"`
}

func (a *app) acquireCommand() *cobra.Command {
	var w wish
	cmd := &cobra.Command{
		Use:   "acquire NAME",
		Short: "Take a lease and print its token, for scripts",
		Long: long(`Takes a lease and prints its token. Nothing renews the lease after that: the script calls renew in time, passes the token to
every write, and calls release at the end. To keep a lease while a command runs, use run.

The text form is for eval in a POSIX shell; the values are quoted.`, 0, exitUsage, exitUnavailable, exitUnknown, exitHeld),
		Example: `  eval "$(fencepost acquire report --ttl 1m)"
  fencepost acquire report --wait=10s --json`,
		Args: argsBetween(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.validate(args[0]); err != nil {
				return err
			}
			ctx, stop := a.untilSignal(cmd.Context(), "the waiting for the lease")
			defer stop()
			err := a.withStore(ctx, func(store database, client *fencepost.Client) error {
				lease, err := w.acquire(ctx, client, args[0])
				if err != nil {
					return err
				}
				g := standing(ctx, client, lease)
				if signalled(ctx) != nil {
					lease.Release(ctx)
					return nil
				}
				return a.out.grant(g)
			})
			if signal := signalled(ctx); signal != nil && !a.out.written {
				return signal // whatever it interrupted
			}
			return err
		},
	}
	w.flags(cmd.Flags())
	return cmd
}

// standing reads what the database says of a lease that was just granted. The token counts even if that cannot be read any more.
func standing(ctx context.Context, client *fencepost.Client, lease *fencepost.Lease) granted {
	token := lease.Token()
	g := granted{Lease: token.Name, Owner: token.Owner, Fence: token.Fence, RemainingMS: max(time.Until(lease.Deadline()).Milliseconds(), 0)}
	ctx, cancel := context.WithTimeout(ctx, lease.TTL()/3)
	defer cancel()
	if info, found, err := client.Inspect(ctx, token.Name); err == nil && found && info.Fence == token.Fence {
		g.LeasedUntil, g.RemainingMS, g.Holder = instant(info.LeasedUntil), info.Remaining.Milliseconds(), info.Holder
	}
	return g
}

func (o *output) grant(g granted) error {
	return o.print(g, func(w io.Writer) {
		for _, variable := range []struct{ name, value string }{
			{envLease, g.Lease}, {envOwner, g.Owner}, {envFence, fmt.Sprint(g.Fence)},
		} {
			fmt.Fprintf(w, "export %s=%s\n", variable.name, shellQuote(variable.value))
		}
	})
}
