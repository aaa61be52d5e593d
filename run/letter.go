package run

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/fencepost/fencepost"
)

// keepTimeout bounds the keeping of a dead letter when ctx has ended: losing a lease ends contexts, and the result must not be lost with it.
const keepTimeout = 5 * time.Second

// keep stores a completion that was refused, and returns the refusal with what became of it.
func (h *History) keep(ctx context.Context, info fencepost.Run, f fencepost.RunFinish, refusal error) error {
	letter := fencepost.DeadLetter{
		RunID: f.ID, Lease: f.Token.Name, Fence: f.Token.Fence, Holder: info.Holder, Slot: info.Slot,
		Status: f.Status, Result: f.Result, Error: f.Error,
	}
	var stale *fencepost.StaleError
	var other *fencepost.RunError
	switch {
	case errors.As(refusal, &stale):
		letter.Reason, letter.Current = stale.Reason, stale.Current
	case errors.As(refusal, &other) && other.Reason == fencepost.RunFinished && other.Status.Again():
		letter.Reason, letter.Current = fencepost.ReasonFinished, f.Token.Fence
	default:
		return refusal
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	if info.StartedAt.IsZero() {
		// Attached: the run itself knows its slot. A completion of a run that was never started is nobody's work.
		found, ok, err := h.store.FindRun(ctx, f.ID)
		switch {
		case err == nil && !ok:
			return &fencepost.RunError{Reason: fencepost.RunUnknown, Lease: f.Token.Name, Run: f.ID}
		case err == nil && !found.By(f.Token):
			return &fencepost.RunError{Reason: fencepost.RunNotYours, Lease: found.Lease, Run: f.ID, Status: found.Status}
		case err == nil:
			letter.Holder, letter.Slot = found.Holder, found.Slot
		}
	}
	refused := &RefusedError{Err: refusal}
	refused.KeepErr = resolve(ctx, func() (err error) {
		refused.Letter, err = h.store.KeepLetter(ctx, letter)
		return err
	})
	if refused.KeepErr != nil {
		refused.Letter = 0
		h.o.Logger.ErrorContext(ctx, "a refused result could not be kept", "lease", f.Token.Name, "fence", f.Token.Fence, "run", f.ID, "error", refused.KeepErr)
		return refused
	}
	h.o.Logger.WarnContext(ctx, "a result was refused and is kept as a dead letter", "lease", f.Token.Name, "fence", f.Token.Fence, "run", f.ID,
		"letter", refused.Letter, "reason", string(letter.Reason), "current_fence", letter.Current)
	h.observe(ctx, Event{Kind: Kept, Run: info, Err: refusal})
	return refused
}

// Letter returns a dead letter, payload included. An unknown ID is a *[fencepost.RunError].
func (h *History) Letter(ctx context.Context, id int64) (fencepost.DeadLetter, error) {
	d, found, err := h.store.FindLetter(ctx, id)
	if err == nil && !found {
		err = &fencepost.RunError{Reason: fencepost.DeadUnknown, Letter: id}
	}
	return d, err
}

// Letters returns dead letters, the newest first.
func (h *History) Letters(ctx context.Context, q fencepost.LetterQuery) ([]fencepost.DeadLetter, error) {
	if q.Lease != "" {
		if err := fencepost.ValidateName(q.Lease); err != nil {
			return nil, err
		}
	}
	return h.store.ListLetters(ctx, q)
}

// Adopt makes a run of a dead letter: an explicit act of the present holder of the letter's lease, fenced by its token and recorded with the
// actor. The new run has the letter's outcome and slot; the history before it stays as it was. A stale token is a *[fencepost.StaleError]; a
// letter that is unknown, of another lease or adopted before a *[fencepost.RunError].
func (h *History) Adopt(ctx context.Context, t fencepost.Token, letter int64, actor string) (fencepost.Run, error) {
	if err := t.Validate(); err != nil {
		return fencepost.Run{}, err
	}
	if actor == "" {
		return fencepost.Run{}, invalidf("say who adopts the dead letter: the actor is recorded")
	}
	a := fencepost.Adoption{Token: t, Letter: letter, RunID: rand.Text(), Holder: fencepost.HolderLabel(h.o.Holder), Actor: fencepost.HolderLabel(actor)}
	var out fencepost.Run
	began := time.Now()
	err := resolve(ctx, func() (err error) {
		out, err = h.store.AdoptLetter(ctx, a)
		return err
	})
	if err != nil {
		h.refused(ctx, fencepost.Run{ID: a.RunID, Lease: t.Name, Fence: t.Fence}, err, began)
		return fencepost.Run{}, err
	}
	h.observe(ctx, Event{Kind: Adopted, Run: out, Took: time.Since(began)})
	return out, nil
}

// Drop deletes a dead letter; the actor is recorded as an event.
func (h *History) Drop(ctx context.Context, letter int64, actor string) error {
	if actor == "" {
		return invalidf("say who drops the dead letter: the actor is recorded")
	}
	d, err := h.Letter(ctx, letter)
	if err != nil {
		return err
	}
	if err := h.store.DropLetter(ctx, letter, fencepost.HolderLabel(actor)); err != nil {
		return err
	}
	h.observe(ctx, Event{Kind: Dropped, Run: fencepost.Run{ID: d.RunID, Lease: d.Lease, Fence: d.Fence, Slot: d.Slot}})
	return nil
}
