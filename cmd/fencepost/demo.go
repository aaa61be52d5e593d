package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/sqlstore"
)

// demoTime is what the whole demo may take.
const demoTime = 25 * time.Second

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See a stale write refused, and the same write win under a plain lease",
		Long: long(`Runs one scene twice with two real processes. A acquires a lease, begins to work and is paused with SIGSTOP for longer than its lease
lasts. B takes over, works and writes its result. A is resumed and writes its old one. First with a fenced write, which the database
refuses; then with a plain lease, where the stale result wins.

It uses embedded SQLite in a temporary folder, unless --db names a database: then tables of its own, with a random prefix, that it
drops at the end.`, 0, exitFailed, exitUsage, exitUnavailable),
		Example: `  fencepost demo
  fencepost demo --db postgres://app@db.example/app --json`,
		Args: argsBetween(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The children are killed when the thread that started them ends: it must be one that stays.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ctx, stop := a.untilSignal(cmd.Context(), "the demo")
			defer stop()
			ctx, cancel := context.WithTimeoutCause(ctx, demoTime, fmt.Errorf("the demo took longer than %v", demoTime))
			defer cancel()
			d := &demo{place: a.place, show: newTimeline(a.out.stdout, a.out.json)}
			r, err := d.run(ctx)
			if signal := signalled(ctx); signal != nil {
				return signal
			}
			if err != nil {
				if ctx.Err() != nil {
					err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
				}
				return err
			}
			return a.demonstrated(r)
		},
	}
}

// report is both outcomes.
type report struct {
	OK       bool     `json:"ok"`
	Database string   `json:"database"`
	Fenced   *outcome `json:"fenced"`
	Plain    *outcome `json:"plain"`
}

func (a *app) demonstrated(r *report) error {
	complaints := append(r.Fenced.complaints(true), r.Plain.complaints(false)...)
	r.OK = len(complaints) == 0
	if a.out.json {
		if err := a.out.value(r); err != nil {
			return err
		}
	}
	if !r.OK {
		return errors.New("NOT as promised: " + strings.Join(complaints, "; "))
	}
	if !a.out.json {
		fmt.Fprintf(a.out.stdout, "\nWith the fence the database refused the stale write: the result is B's, and A ended with exit code %d.\n", r.Fenced.ExitCodes["A"])
		fmt.Fprintln(a.out.stdout, "With a plain lease nothing stopped it: A's old result replaced B's, and A ended with exit code 0.")
	}
	return nil
}

// demo is the stage: a database of its own, or tables of its own in one.
type demo struct {
	place place
	show  *timeline
	names sqlstore.Names
	kind  string
	db    plainDB
}

func (d *demo) run(ctx context.Context) (r *report, err error) {
	clean, err := d.build(ctx)
	defer func() { err = errors.Join(err, clean()) }()
	if err != nil {
		return nil, err
	}
	r = &report{Database: d.kind}
	d.show.title("With a fence: the database itself checks the token in the write")
	if r.Fenced, err = d.play(ctx, scene{lease: "admin:reconciliation", fenced: true}); err != nil {
		return nil, err
	}
	d.show.title("The same with a plain lease: who once acquired it, writes")
	if r.Plain, err = d.play(ctx, scene{lease: "admin:reconciliation (plain)"}); err != nil {
		return nil, err
	}
	return r, nil
}

// build prepares the tables. What it returns removes them, also after it has failed halfway.
func (d *demo) build(ctx context.Context) (clean func() error, err error) {
	remove, err := d.choosePlace()
	if err != nil {
		return remove, err
	}
	e, err := d.place.engine()
	if err != nil {
		return remove, err
	}
	d.kind, d.names = e.kind(), d.place.names(e)
	if d.db, err = e.plain(ctx); err != nil {
		return remove, cannotOpen(ctx, err)
	}
	clean = func() error {
		defer closeSoon(d.db)
		return remove()
	}
	if _, _, err := e.migrate(ctx); err != nil {
		return clean, cannotOpen(ctx, err)
	}
	for _, name := range []string{"demo_create", "demo_seed"} {
		if err := d.db.exec(ctx, d.statement(name)); err != nil {
			return clean, cannotOpen(ctx, err)
		}
	}
	return clean, nil
}

// choosePlace is a temporary folder, or tables with a prefix that nobody else has in the database that was named.
func (d *demo) choosePlace() (remove func() error, err error) {
	if d.place.named() {
		d.place.prefix = "fencepost_demo_" + strings.ToLower(rand.Text()[:8]) + "_"
		return d.drop, nil
	}
	folder, err := os.MkdirTemp("", "fencepost-demo-")
	if err != nil {
		return func() error { return nil }, err
	}
	d.place = place{url: "sqlite:" + filepath.Join(folder, "demo.db"), given: true}
	return func() error { return os.RemoveAll(folder) }, nil
}

func (d *demo) statement(name string) string { return d.names.Render(statement(name)) }

// dropTime bounds the clean-up, which also follows an interruption.
const dropTime = 5 * time.Second

// drop removes what migrate and the demo created under the demo's own prefix. What is not there, because it was never created, is no error.
func (d *demo) drop() error {
	if d.db == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropTime)
	defer cancel()
	var failed error
	for one := range strings.SplitSeq(d.statement("demo_drop_"+d.kind), ";") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if err := d.db.exec(ctx, one); err != nil {
			failed = errors.Join(failed, fmt.Errorf("the demo's tables could not all be dropped: %w", err))
		}
	}
	return failed
}
