package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

func (a *app) sqlCommand() *cobra.Command {
	var (
		t    tokenFlags
		name string
	)
	cmd := &cobra.Command{
		Use:   "sql STATEMENT [ARG ...]",
		Short: "Run one statement that commits only while the token is the newest",
		Long: long(`Runs one statement in the leases' database as a fenced write, and prints how many rows it affected. If the lease was lost, the
database refuses the statement and nothing is written.

ARGs fill the statement's placeholders, in the database's own way: ? on SQLite, MySQL and MariaDB, $1 $2 on PostgreSQL. They are
text; the database converts them, or the statement casts them. Write -- before a statement or ARG that begins with a dash.

`+tokenHelp+` The name is given by --lease here.`, 0, exitFailed, exitUsage, exitUnavailable, exitUnknown, exitHeld, exitStale),
		Example: `  eval "$(fencepost acquire report)"
  fencepost sql 'UPDATE reports SET total = ? WHERE id = ?' 42 7`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s needs a STATEMENT; see %s --help", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := t.token(cmd, name, cmd.Flags().Changed("lease"))
			if err != nil {
				return err
			}
			values := make([]any, len(args)-1)
			for i, arg := range args[1:] {
				values[i] = arg
			}
			return a.withStore(cmd.Context(), func(store database, client *fencepost.Client) error {
				rows, err := store.Exec(cmd.Context(), token, args[0], values...)
				if err != nil {
					return err
				}
				return a.out.print(struct {
					Lease string `json:"lease"`
					Fence int64  `json:"fence_token"`
					Rows  int64  `json:"rows_affected"`
				}{token.Name, token.Fence, rows}, func(w io.Writer) { fmt.Fprintln(w, rows) })
			})
		},
	}
	t.flags(cmd.Flags())
	cmd.Flags().StringVar(&name, "lease", "", "the lease's `name` (default $FENCEPOST_LEASE)")
	return cmd
}
