package run

import (
	"context"
	"time"

	"github.com/fencepost/fencepost"
)

// EventKind names what happened to a run.
type EventKind string

// The kinds of events.
const (
	Started    EventKind = "started"
	Progressed EventKind = "progressed"
	Finished   EventKind = "finished" // with any status
	Skipped    EventKind = "skipped"  // a slot was passed over
	Refused    EventKind = "refused"  // a stale token was refused; Err says why
	Kept       EventKind = "kept"     // a refused completion was kept as a dead letter
	Adopted    EventKind = "adopted"
	Dropped    EventKind = "dropped"
)

// Event is told to the Observer of [Options].
type Event struct {
	Kind EventKind
	Run  fencepost.Run
	Err  error         // for Refused
	Took time.Duration // of the operation, by the monotonic clock
}

func (h *History) observe(ctx context.Context, e Event) {
	if h.o.Observer != nil {
		h.o.Observer(ctx, e)
	}
}
