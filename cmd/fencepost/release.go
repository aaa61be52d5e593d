package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

func (a *app) releaseCommand() *cobra.Command {
	var t tokenFlags
	cmd := &cobra.Command{
		Use:   "release [NAME]",
		Short: "Give a lease back",
		Long: long(`Gives the lease back, so that the next holder gets it at once, and says whether that changed anything: releasing twice does no harm.
A token that was superseded or has expired is refused, and the successor's lease is never touched.

`+tokenHelp, 0, exitUsage, exitUnavailable, exitUnknown, exitHeld, exitStale),
		Example: `  eval "$(fencepost acquire report)"
  trap 'fencepost release' EXIT`,
		Args: argsBetween(0, 1, "at most one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, named := optionalName(args)
			token, err := t.token(cmd, name, named)
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(store database, client *fencepost.Client) error {
				ctx, cancel := context.WithTimeout(cmd.Context(), patience)
				defer cancel()
				changed, err := client.ReleaseToken(ctx, token)
				if err != nil {
					return err
				}
				return a.out.print(struct {
					Lease   string `json:"lease"`
					Fence   int64  `json:"fence_token"`
					Changed bool   `json:"changed"`
				}{token.Name, token.Fence, changed}, func(w io.Writer) {
					if changed {
						fmt.Fprintf(w, "released %s, fence %d\n", harmless(token.Name), token.Fence)
					} else {
						fmt.Fprintf(w, "nothing changed: %s, fence %d, was released before\n", harmless(token.Name), token.Fence)
					}
				})
			})
		},
	}
	t.flags(cmd.Flags())
	return cmd
}
