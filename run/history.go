// Package run keeps the books of executions: who ran a job under which fence, how far it came and how it ended.
//
//	history := run.New(store, run.Options{})
//	r, err := history.Start(ctx, lease.Token(), run.Spec{})
//	err = r.Progress(ctx, page)
//	_, err = r.Finish(ctx, totals)
//
// Start, Progress and Finish are fenced writes of one round trip: an executor that lost its lease is refused by the database. A
// completion that was refused is kept whole as a dead letter, outside of the refused transaction. All times are the database's.
package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost"
)

// DefaultMaxPayload is the longest progress or result, in bytes of JSON, unless [Options] says otherwise.
const DefaultMaxPayload = 1 << 20

// Options configure a [History]. The zero value works.
type Options struct {
	// MaxPayload is the longest progress or result in bytes of JSON. Default [DefaultMaxPayload].
	MaxPayload int
	// Holder is the label of runs whose [Spec] has none.
	Holder string
	// Logger gets what no return value says. Default: slog.Default.
	Logger *slog.Logger
	// Observer is told of everything that happens to runs through this History. It must not block.
	Observer func(context.Context, Event)
}

// History starts runs and reads the books. Its methods are safe for concurrent use.
type History struct {
	store fencepost.RunStore
	o     Options
}

// New returns a History on a store.
func New(store fencepost.RunStore, o Options) *History {
	if o.MaxPayload <= 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &History{store, o}
}

// Spec says what run to start.
type Spec struct {
	// ID names the run. Default: random. Give the ID of a start whose outcome stayed unknown to find out whether it was applied.
	ID     string
	Holder string // a label for people; default that of [Options]
	// Slot is the schedule's time that the run is for, in whole milliseconds. One run per slot: see Attempts. Zero: none.
	Slot     time.Time
	Attempts int // how often a slot may be tried when attempts are abandoned or stall; 0 means 1
	Missed   int // slots before this one that nobody ran
}

// tries bounds how often an operation whose outcome is unknown is asked for again. Each is idempotent, so that asking again says whether the one
// before was applied.
const tries = 3

// resolve repeats an idempotent operation while its outcome is unknown and ctx lasts.
func resolve(ctx context.Context, op func() error) error {
	err := op()
	for n := 1; n < tries && errors.Is(err, fencepost.ErrUnknown) && ctx.Err() == nil; n++ {
		err = op()
	}
	return err
}

// Start puts a run on the books, under a token whose lease must be live by the database's clock. The open run of an older token becomes
// abandoned: no attempt is missing.
//
// A stale token is a *[fencepost.StaleError]. A *[fencepost.RunError] says that another run of the token is open, or that the slot is
// taken or not due by the database's clock. A lost reply is resolved by asking again with the same ID; where that fails too, the error
// matches [fencepost.ErrUnknown], and a Start with the same ID later tells.
func (h *History) Start(ctx context.Context, t fencepost.Token, s Spec) (*Run, error) {
	start, err := h.spec(t, s)
	if err != nil {
		return nil, err
	}
	return h.start(ctx, start)
}

// Skip records a slot that is passed over. It is a fenced write as Start is, and the slot is taken afterwards.
func (h *History) Skip(ctx context.Context, t fencepost.Token, slot time.Time, missed int, reason string) (fencepost.Run, error) {
	start, err := h.spec(t, Spec{Slot: slot, Missed: missed})
	if err != nil {
		return fencepost.Run{}, err
	}
	if slot.IsZero() {
		return fencepost.Run{}, invalidf("a skipped run needs a slot")
	}
	start.Skip, start.Reason = true, text(reason)
	r, err := h.start(ctx, start)
	if err != nil {
		return fencepost.Run{}, err
	}
	return r.info, nil
}

func (h *History) spec(t fencepost.Token, s Spec) (fencepost.RunStart, error) {
	if s.ID == "" {
		s.ID = rand.Text()
	}
	if s.Holder == "" {
		s.Holder = h.o.Holder
	}
	switch {
	case !s.Slot.IsZero() && !s.Slot.Equal(s.Slot.Truncate(time.Millisecond)):
		return fencepost.RunStart{}, invalidf("the slot %s is not in whole milliseconds", s.Slot.UTC().Format(time.RFC3339Nano))
	case s.Attempts < 0 || s.Missed < 0:
		return fencepost.RunStart{}, invalidf("attempts (%d) and missed slots (%d) cannot be negative", s.Attempts, s.Missed)
	}
	if err := errors.Join(t.Validate(), fencepost.ValidateRunID(s.ID)); err != nil {
		return fencepost.RunStart{}, err
	}
	slot := s.Slot
	if !slot.IsZero() {
		slot = slot.UTC()
	}
	return fencepost.RunStart{Token: t, ID: s.ID, Holder: fencepost.HolderLabel(s.Holder), Slot: slot, Attempts: max(s.Attempts, 1), Missed: s.Missed}, nil
}

func (h *History) start(ctx context.Context, start fencepost.RunStart) (*Run, error) {
	began := time.Now()
	var info fencepost.Run
	err := resolve(ctx, func() (err error) {
		info, err = h.store.StartRun(ctx, start)
		return err
	})
	kind := Started
	if start.Skip {
		kind = Skipped
	}
	if err != nil {
		h.refused(ctx, fencepost.Run{ID: start.ID, Lease: start.Token.Name, Fence: start.Token.Fence, Slot: start.Slot}, err, began)
		return nil, err
	}
	h.observe(ctx, Event{Kind: kind, Run: info, Took: time.Since(began)})
	return &Run{history: h, token: start.Token, id: start.ID, info: info}, nil
}

// Attach returns a run that was started elsewhere, such as by the parent process. It asks no database: Info has no more than the token and the
// ID, and a wrong one is found out at the first write.
func (h *History) Attach(t fencepost.Token, id string) (*Run, error) {
	if err := errors.Join(t.Validate(), fencepost.ValidateRunID(id)); err != nil {
		return nil, err
	}
	return &Run{history: h, token: t, id: id, info: fencepost.Run{ID: id, Lease: t.Name, Owner: t.Owner, Fence: t.Fence}}, nil
}

// Get returns a run, payloads included. An unknown ID is a *[fencepost.RunError].
func (h *History) Get(ctx context.Context, id string) (fencepost.Run, error) {
	if err := fencepost.ValidateRunID(id); err != nil {
		return fencepost.Run{}, err
	}
	r, found, err := h.store.FindRun(ctx, id)
	if err == nil && !found {
		err = &fencepost.RunError{Reason: fencepost.RunUnknown, Run: id}
	}
	return r, err
}

// List returns runs, the newest first.
func (h *History) List(ctx context.Context, q fencepost.RunQuery) ([]fencepost.Run, error) {
	if q.Lease != "" {
		if err := fencepost.ValidateName(q.Lease); err != nil {
			return nil, err
		}
	}
	for _, s := range q.Status {
		if !s.Valid() {
			return nil, invalidf("%q is no status of a run", s)
		}
	}
	return h.store.ListRuns(ctx, q)
}

// LastSlot returns where a job's schedule stands, and the database's time.
func (h *History) LastSlot(ctx context.Context, lease string) (fencepost.LastSlot, error) {
	if err := fencepost.ValidateName(lease); err != nil {
		return fencepost.LastSlot{}, err
	}
	return h.store.LastSlot(ctx, lease)
}

func (h *History) refused(ctx context.Context, r fencepost.Run, err error, began time.Time) {
	if errors.Is(err, fencepost.ErrStale) {
		h.observe(ctx, Event{Kind: Refused, Run: r, Err: err, Took: time.Since(began)})
	}
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", fencepost.ErrInvalid, fmt.Sprintf(format, args...))
}
