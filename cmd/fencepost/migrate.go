package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

func (a *app) migrateCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "migrate",
		Short: "Create, update or print the schema; adopt an existing table of leases",
		Long:  "The schema of SQLite is created on first use. On the other databases one command prepares it: fencepost migrate up.",
	}, a.migrateUpCommand(), a.migrateStatusCommand(), a.migrateSQLCommand(), a.migrateAdoptCommand())
}

func (a *app) migrateUpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Create the schema, or bring it up to date",
		Long: long("Creates the schema or applies what is missing. Any number of replicas may run it at once. The database itself must exist.",
			0, exitFailed, exitUsage, exitUnavailable),
		Example: `  FENCEPOST_DB=postgres://app@db.example/app fencepost migrate up`,
		Args:    argsBetween(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := a.place.engine()
			if err != nil {
				return err
			}
			applied, warnings, err := e.migrate(cmd.Context())
			for _, warning := range warnings {
				fmt.Fprintf(a.stderr, "fencepost: %s\n", harmless(warning))
			}
			if err != nil {
				return err
			}
			return a.out.print(struct {
				Applied  []int64  `json:"applied"`
				Warnings []string `json:"warnings"`
			}{append([]int64{}, applied...), append([]string{}, warnings...)}, func(w io.Writer) {
				if len(applied) == 0 {
					fmt.Fprintln(w, "the schema is up to date")
					return
				}
				fmt.Fprintf(w, "applied %s\n", strings.Trim(fmt.Sprint(applied), "[]"))
			})
		},
	}
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say which version of the schema is there, and which is needed",
		Long: long("Says which version of the schema the database has, and which one this program needs. A schema that is missing or too old is an error.",
			0, exitUsage, exitUnavailable),
		Example: `  fencepost migrate status || fencepost migrate up`,
		Args:    argsBetween(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := a.place.engine()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), openTimeout)
			defer cancel()
			has, needs, err := e.schemaVersion(ctx)
			if err != nil {
				return cannotOpen(ctx, err)
			}
			if has < needs {
				return fmt.Errorf("%w: the schema has version %d and %d is needed; run fencepost migrate up", fencepost.ErrUnavailable, has, needs)
			}
			return a.out.print(struct {
				Has   int64 `json:"has"`
				Needs int64 `json:"needs"`
			}{has, needs}, func(w io.Writer) { fmt.Fprintf(w, "version %d, needed %d: up to date\n", has, needs) })
		},
	}
}

func (a *app) migrateSQLCommand() *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the schema, for Flyway, Atlas, goose or a reviewer",
		Long: long(`Prints the whole schema as SQL. Its comments are annotations for goose; other tools ignore them. No database is needed, only its
kind: from --engine, else from the URL.`, 0, exitUsage),
		Example: `  fencepost migrate sql --engine postgres --schema jobs > V1__fencepost.sql`,
		Args:    argsBetween(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			if kind != "" {
				if _, ok := engines[kind]; !ok {
					return usagef("--engine %q is none of sqlite, postgres, mysql, mariadb", kind)
				}
				a.place.url, a.place.given = kind+":", true
			}
			e, err := a.place.engine()
			if err != nil {
				return err
			}
			var b strings.Builder
			if err := e.migrationSQL(&b); err != nil {
				return err
			}
			if a.out.json {
				return a.out.value(map[string]string{"sql": b.String()})
			}
			_, err = io.WriteString(a.out.stdout, b.String())
			return err
		},
	}
	cmd.Flags().StringVar(&kind, "engine", "", "sqlite, postgres, mysql or mariadb")
	return cmd
}

func (a *app) migrateAdoptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "adopt TABLE",
		Short: "Take over the leases of an existing table",
		Long: long(`Takes over a table of your own that has the columns lease_name, owner_token, fence_token and leased_until: every row becomes a free
lease here with its owner and fence, so that the next holder's fence is greater than any before. A fence that is already greater here
stays. The table is not changed. Nothing is adopted while one of its rows is live, or may be: stop the old system first.`,
			0, exitFailed, exitUsage, exitUnavailable),
		Example: `  fencepost migrate adopt app_leases`,
		Args:    argsBetween(1, 1, "one TABLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.place.engine()
			if err != nil {
				return err
			}
			adopted, err := e.adopt(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.out.print(struct {
				Table   string `json:"table"`
				Adopted int    `json:"adopted"`
			}{args[0], adopted}, func(w io.Writer) { fmt.Fprintf(w, "adopted %d leases of %s\n", adopted, harmless(args[0])) })
		},
	}
}
