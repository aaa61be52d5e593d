package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

// kept is a lease that its token still holds.
type kept struct {
	Lease       string     `json:"lease"`
	Fence       int64      `json:"fence_token"`
	LeasedUntil *time.Time `json:"leased_until"`
	RemainingMS int64      `json:"remaining_ms"`
	Holder      string     `json:"holder"`
}

func (a *app) renewCommand() *cobra.Command {
	var t tokenFlags
	cmd := &cobra.Command{
		Use:   "renew [NAME]",
		Short: "Extend a lease by the TTL it was acquired with",
		Long: long(`Extends the lease from now by the TTL that it was acquired with. A lease that has expired or was released is not revived, even if
nobody else took it: acquire it again.

`+tokenHelp, 0, exitUsage, exitUnavailable, exitUnknown, exitHeld, exitStale),
		Example: `  eval "$(fencepost acquire report --ttl 1m)"
  fencepost renew && next_step`,
		Args: argsBetween(0, 1, "at most one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, named := optionalName(args)
			token, err := t.token(cmd, name, named)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			return a.withStore(ctx, func(store database, client *fencepost.Client) error {
				renewal, err := renew(ctx, client, token)
				if err != nil {
					return err
				}
				k := kept{Lease: token.Name, Fence: token.Fence, LeasedUntil: instant(renewal.LeasedUntil)}
				if info, found, err := client.Inspect(ctx, token.Name); err == nil && token.Refusal(info, found) == nil {
					k.LeasedUntil, k.RemainingMS, k.Holder = instant(info.LeasedUntil), info.Remaining.Milliseconds(), info.Holder
				}
				return a.out.kept(k, "renewed")
			})
		},
	}
	t.flags(cmd.Flags())
	return cmd
}

// busyTime is how long a row that another transaction has locked is asked for again.
const busyTime = 3 * time.Second

// renew asks again while the row is being written, which is neither renewed nor lost.
func renew(ctx context.Context, client *fencepost.Client, token fencepost.Token) (fencepost.Renewal, error) {
	ctx, cancel := context.WithTimeout(ctx, busyTime)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		renewal, err := client.RenewToken(context.WithoutCancel(ctx), token)
		if !errors.Is(err, fencepost.ErrBusy) {
			return renewal, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return renewal, err
		}
	}
}

func (o *output) kept(k kept, word string) error {
	return o.print(k, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s, fence %d, until %s (%v)\n", word, harmless(k.Lease), k.Fence,
			showTime(deref(k.LeasedUntil)), time.Duration(k.RemainingMS)*time.Millisecond)
	})
}

func deref(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
