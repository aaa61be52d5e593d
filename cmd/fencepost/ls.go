package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

// row is a lease as everybody may see it: the owner token is left out, because who knows it can act as the holder.
type row struct {
	Lease       string     `json:"lease"`
	State       string     `json:"state"`
	Fence       int64      `json:"fence_token"`
	Holder      string     `json:"holder"`
	LeasedUntil *time.Time `json:"leased_until"`
	RemainingMS int64      `json:"remaining_ms"`
	TTLMS       int64      `json:"ttl_ms"`
	AcquiredAt  *time.Time `json:"acquired_at"`
	RenewedAt   *time.Time `json:"renewed_at"`
	Wanted      bool       `json:"wanted"`
}

func rowOf(i fencepost.LeaseInfo) row {
	return row{
		i.Name, i.State(), i.Fence, i.Holder, instant(i.LeasedUntil), i.Remaining.Milliseconds(), i.TTL.Milliseconds(),
		instant(i.AcquiredAt), instant(i.RenewedAt), i.Wanted,
	}
}

func (a *app) lsCommand() *cobra.Command {
	var q fencepost.ListQuery
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the leases",
		Long: long(`Lists leases in byte order of their names: who holds them, which fence, for how long yet by the database's clock. A lease is held,
free, or expired (not released, run out, and nobody took it over).`, 0, exitUsage, exitUnavailable),
		Example: `  fencepost ls
  fencepost ls --after 'nightly' --limit 50 --json`,
		Args: argsBetween(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.Limit < 1 {
				return usagef("--limit is %d; it must be at least 1", q.Limit)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			return a.withStore(ctx, func(store database, client *fencepost.Client) error {
				found, err := client.List(ctx, q)
				if err != nil {
					return err
				}
				rows := make([]row, len(found))
				for i, info := range found {
					rows[i] = rowOf(info)
				}
				if len(found) == q.Limit {
					a.log.Warn("there may be more leases, go on with --after", "last", found[len(found)-1].Name)
				}
				return a.out.print(struct {
					Leases []row `json:"leases"`
				}{rows}, func(w io.Writer) {
					fmt.Fprintln(w, "LEASE\tSTATE\tFENCE\tHOLDER\tREMAINING\tSINCE")
					for i, r := range rows {
						fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%v\t%s\n", harmless(r.Lease), r.State, r.Fence, orDash(r.Holder),
							found[i].Remaining.Round(time.Millisecond), showTime(found[i].AcquiredAt))
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&q.After, "after", "", "only `names` greater than this, byte for byte")
	cmd.Flags().IntVar(&q.Limit, "limit", 1000, "at most this `many`")
	return cmd
}
