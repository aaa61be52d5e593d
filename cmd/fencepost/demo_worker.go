package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

// said is what a worker tells the demo, one JSON value per line.
type said struct {
	What    string `json:"-"`
	Text    string `json:"text"`
	Fence   int64  `json:"fence_token,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Current int64  `json:"current_fence,omitempty"`
}

const (
	saidWaits    = "waits"
	saidAcquired = "acquired"
	saidScans    = "scans"
	saidWrote    = "wrote"
	saidRefused  = "refused"
)

const demoWorkerName = "demo-worker"

// demoWorkerCommand is one of the two processes of the demo.
func (a *app) demoWorkerCommand() *cobra.Command {
	var w workerRole
	cmd := &cobra.Command{
		Use:    demoWorkerName,
		Hidden: true,
		Args:   argsBetween(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(store database, _ *fencepost.Client) error {
				return a.work(cmd.Context(), store, w)
			})
		},
	}
	cmd.Flags().StringVar(&w.name, "name", "", "A or B")
	cmd.Flags().StringVar(&w.lease, "lease", "", "the lease")
	cmd.Flags().BoolVar(&w.fenced, "fenced", false, "write with the fence")
	return cmd
}

type workerRole struct {
	name, lease string
	fenced      bool
}

// work is the job: acquire, scan, write. It does not look at the lease's context on purpose: the scene is about a worker that does not
// know that it has lost, and a paused process cannot look.
func (a *app) work(ctx context.Context, store database, w workerRole) error {
	verb := "acquires"
	client := fencepost.New(store, fencepost.Options{TTL: demoTTL, Holder: w.name, Logger: a.log, Observer: func(_ context.Context, e fencepost.Event) {
		if e.Kind == fencepost.EventTakenOver {
			verb = "takes over, because the lease has run out:"
		}
	}})
	lease, err := client.TryAcquire(ctx, w.lease)
	if held, ok := errors.AsType[*fencepost.HeldError](err); ok {
		tell(saidWaits, said{Text: fmt.Sprintf("waits: %s holds the lease with fence %d", held.Holder, held.Fence), Current: held.Fence})
		lease, err = client.Acquire(ctx, w.lease)
	}
	if err != nil {
		return err
	}
	token := lease.Token()
	tell(saidAcquired, said{Text: fmt.Sprintf("%s %q, fence %d, TTL %v", verb, w.lease, token.Fence, demoTTL), Fence: token.Fence})
	tell(saidScans, said{Text: "scans"})
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("the demo went away: %w", err)
	}
	err = a.write(ctx, store, w, token)
	lease.Release(ctx) // of a lease that was lost it changes nothing
	if stale, ok := errors.AsType[*fencepost.StaleError](err); ok {
		tell(saidRefused, said{
			Text:  fmt.Sprintf("writes its result: REFUSED, fence %d was superseded by fence %d", stale.Presented, stale.Current),
			Fence: stale.Presented, Reason: string(stale.Reason), Current: stale.Current,
		})
	}
	if err == nil {
		tell(saidWrote, said{Text: "writes its result: committed", Fence: token.Fence})
	}
	return err
}

func (a *app) write(ctx context.Context, store database, w workerRole, token fencepost.Token) error {
	e, err := a.place.engine()
	if err != nil {
		return err
	}
	text := a.place.names(e).Render(statement("demo_write_" + strings.ToLower(w.name)))
	if w.fenced {
		_, err := store.Exec(ctx, token, text)
		return err
	}
	db, err := e.plain(ctx)
	if err != nil {
		return err
	}
	defer closeSoon(db)
	return db.exec(ctx, text)
}

// line is said on the way from the worker to the demo.
type line struct {
	What string `json:"what"`
	said
}

func tell(what string, s said) {
	if err := json.NewEncoder(os.Stdout).Encode(line{what, s}); err != nil {
		os.Exit(exitFailed) // nobody listens any more
	}
}
