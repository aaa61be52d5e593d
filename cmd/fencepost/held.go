package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

func (a *app) heldCommand() *cobra.Command {
	var t tokenFlags
	cmd := &cobra.Command{
		Use:   "held [NAME]",
		Short: "Ask whether a token still holds its lease",
		Long: long(`Asks the database whether the token is the newest of its name and its lease live. The answer is old the moment it arrives: it
is good for stopping early, and never replaces a fenced write (see sql).

`+tokenHelp, 0, exitUsage, exitUnavailable, exitStale),
		Example: `  fencepost held || exit
  fencepost held report --owner "$o" --fence "$f" --json`,
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
				info, found, err := client.Inspect(ctx, token.Name)
				if err != nil {
					return err
				}
				if err := token.Refusal(info, found); err != nil {
					return err
				}
				return a.out.kept(kept{info.Name, info.Fence, instant(info.LeasedUntil), info.Remaining.Milliseconds(), info.Holder}, "held")
			})
		},
	}
	t.flags(cmd.Flags())
	return cmd
}
