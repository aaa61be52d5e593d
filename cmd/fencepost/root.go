package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

// app is one invocation of the program.
type app struct {
	place  place
	out    output
	stderr io.Writer
	log    *slog.Logger

	reached bool // a command has begun: an error from before is about how it was called
}

// The environment that scripts and the children of `run` see.
const (
	envDB     = "FENCEPOST_DB"
	envDBFile = "FENCEPOST_DB_FILE"
	envPrefix = "FENCEPOST_PREFIX"
	envSchema = "FENCEPOST_SCHEMA"
	envLease  = "FENCEPOST_LEASE"
	envOwner  = "FENCEPOST_OWNER"
	envFence  = "FENCEPOST_FENCE"
)

// execute runs the command line and returns the exit code.
func execute(args []string) int {
	a := &app{}
	a.stderr = &redacting{to: os.Stderr, place: &a.place}
	a.log = slog.New(&lineHandler{to: a.stderr})
	// Looked up here, not by the parser: it stops at the first flag that is wrong, and that error is to be JSON as well.
	a.out = output{stdout: os.Stdout, json: asksForJSON(args)}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	if err != nil && !a.reached {
		err = asUsage(err)
	}
	return a.finish(err)
}

func asksForJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "fencepost",
		Short: "Fenced leases on the database you already have",
		Long: `A lease decides who may start a singleton job. A fence decides who may still finish it.

The database is named by --db or the environment, in this order:
  --db URL
  FENCEPOST_DB        a URL
  FENCEPOST_DB_FILE   a file whose first line is a URL, to keep a password out of the environment
  otherwise           sqlite:fencepost.db in the working directory

  sqlite:PATH                               created on first use
  postgres://user:password@host:port/db     prepare it with: fencepost migrate up
  mysql://user:password@host:port/db        the same; also mariadb://

Arguments of other processes can be seen by everybody on the machine: give a URL with a password by the environment or a file.

Exit codes of all commands:
` + exitTable(),
		Example: `  fencepost demo
  fencepost run nightly-backup --ttl 30s -- ./backup.sh
  fencepost ls`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.reached = true
			a.place.given = cmd.Flags().Changed("db")
			return nil
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.SetHelpCommand(helpCommand(root))
	flags := root.PersistentFlags()
	flags.StringVar(&a.place.url, "db", "", "database `URL` (default $FENCEPOST_DB, $FENCEPOST_DB_FILE or "+defaultURL+")")
	flags.StringVar(&a.place.prefix, "prefix", "", "begin the names of the tables with `TEXT` (default $FENCEPOST_PREFIX or fencepost_)")
	flags.StringVar(&a.place.schema, "schema", "", "PostgreSQL `schema` of the tables (default $FENCEPOST_SCHEMA or public)")
	flags.Bool("json", false, "print exactly one JSON value on stdout")
	root.AddCommand(
		a.runCommand(), a.acquireCommand(), a.renewCommand(), a.releaseCommand(), a.heldCommand(), a.sqlCommand(), a.runsCommand(), a.deadCommand(),
		a.lsCommand(), a.showCommand(), a.eventsCommand(), a.preemptCommand(), a.migrateCommand(), a.doctorCommand(), a.demoCommand(), a.demoWorkerCommand(), a.versionCommand(),
	)
	return root
}

// helpCommand is the library's own, except that an unknown command is an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(root, strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag() // which --help itself would have added
			return cmd.Help()
		},
	}
}

// group is a command that only has subcommands.
func group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subcommands...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		names := make([]string, 0, len(subcommands))
		for _, sub := range subcommands {
			names = append(names, sub.Name())
		}
		return usagef("%s needs a subcommand: %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return usagef("unknown command %q for %s%s; see %s --help", name, cmd.CommandPath(), hint, cmd.CommandPath())
}

// argsBetween is for commands with so many arguments, named in form.
func argsBetween(low, high int, form string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			hint := ""
			if cmd.Flags().Changed("wait") {
				hint = " (the value of --wait needs an equals sign: --wait=10s)"
			}
			return usagef("%s takes %s, not %d arguments%s; see %s --help", cmd.CommandPath(), form, len(args), hint, cmd.CommandPath())
		}
		return nil
	}
}

// withStore opens the database for one command and closes it afterwards.
func (a *app) withStore(ctx context.Context, do func(store database, client *fencepost.Client) error) error {
	store, err := a.place.open(ctx)
	if err != nil {
		return err
	}
	defer closeSoon(store)
	return do(store, fencepost.New(store, fencepost.Options{Logger: a.log}))
}
