package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fencepost/fencepost"
)

// ErrPartial is for a job's function to return when it ended before all was done, such as at a budget: its run ends partial, and the
// next one goes on from its progress.
var ErrPartial = errors.New("partial")

// Run is a run that this process writes to. Its methods are safe for concurrent use.
type Run struct {
	history *History
	token   fencepost.Token
	id      string
	mu      sync.Mutex
	info    fencepost.Run
}

// ID names the run; scripts find it in FENCEPOST_RUN.
func (r *Run) ID() string { return r.id }

// Token is what the run's writes carry.
func (r *Run) Token() fencepost.Token { return r.token }

// Info returns the run as the database last answered. It is not asked again.
func (r *Run) Info() fencepost.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.info
}

// LogValue logs the lease, the fence and the run, never the owner token.
func (r *Run) LogValue() slog.Value {
	return slog.GroupValue(slog.String("lease", r.token.Name), slog.Int64("fence", r.token.Fence), slog.String("run", r.id))
}

// Progress replaces the run's progress by v as JSON; it is where a successor goes on: see [History.Resume]. A json.RawMessage is kept byte for byte.
// It is a fenced write: a lost lease is a *[fencepost.StaleError], and the work should stop. An [fencepost.ErrUnknown] may have been
// applied or not; reporting again is harmless.
func (r *Run) Progress(ctx context.Context, v any) error {
	payload, err := r.history.encode("progress", v)
	if err != nil {
		return err
	}
	began := time.Now()
	err = resolve(ctx, func() error {
		return r.history.store.ReportRun(ctx, fencepost.RunReport{Token: r.token, ID: r.id, Progress: payload})
	})
	if err != nil {
		r.history.refused(ctx, r.Info(), err, began)
		return err
	}
	r.mu.Lock()
	r.info.Progress = payload
	r.mu.Unlock()
	r.history.observe(ctx, Event{Kind: Progressed, Run: r.Info(), Took: time.Since(began)})
	return nil
}

// Outcome is how a run ended.
type Outcome struct {
	Run     fencepost.Run
	Already bool // an earlier completion of this very run, with the same outcome, had been applied
}

// RefusedError is the refusal of a completion: a stale token, or a run that had been ended otherwise. The completion, with its result, was kept as a
// dead letter, for the present holder or an operator to adopt.
type RefusedError struct {
	Err     error // *fencepost.StaleError or *fencepost.RunError
	Letter  int64 // the dead letter; 0 when it could not be kept
	KeepErr error // why not
}

func (e *RefusedError) Error() string {
	if e.Letter == 0 {
		return fmt.Sprintf("%v (the result could not be kept as a dead letter: %v)", e.Err, e.KeepErr)
	}
	return fmt.Sprintf("%v (the result is kept as dead letter %d)", e.Err, e.Letter)
}

// Unwrap makes errors.Is(err, fencepost.ErrStale) hold.
func (e *RefusedError) Unwrap() error { return e.Err }

// Finish ends the run as succeeded, with a result that is kept as JSON. See [Run.End].
func (r *Run) Finish(ctx context.Context, result any) (Outcome, error) {
	return r.End(ctx, fencepost.RunSucceeded, result, "")
}

// Partial ends the run before all is done. See [Run.End].
func (r *Run) Partial(ctx context.Context, result any) (Outcome, error) {
	return r.End(ctx, fencepost.RunPartial, result, "")
}

// Fail ends the run as failed. See [Run.End].
func (r *Run) Fail(ctx context.Context, cause error, result any) (Outcome, error) {
	if cause == nil {
		return Outcome{}, invalidf("a failed run needs a cause")
	}
	return r.End(ctx, fencepost.RunFailed, result, cause.Error())
}

// End ends the run, once. It is a fenced write: it is applied only while the run's token is the newest and its lease live by the
// database's clock. Ending it again with the same status, result and cause is answered by Already, also when the lease has
// been lost since; so after an [fencepost.ErrUnknown] the same call tells whether it had been applied.
//
// A lost lease, or a run that was ended otherwise, is a *[RefusedError]: the books are as they were, and the completion is a dead letter.
// A second completion that contradicts a first one of the same live token is a *[fencepost.RunError] and kept nowhere, unless the first one
// was not the executor's word but the watch over it, which marked the run stalled or abandoned.
func (r *Run) End(ctx context.Context, status fencepost.RunStatus, result any, cause string) (Outcome, error) {
	h := r.history
	if !status.Valid() || status == fencepost.RunRunning || status == fencepost.RunSkipped {
		return Outcome{}, invalidf("a run cannot end as %q; use succeeded, partial, failed, stalled or abandoned", status)
	}
	payload, err := h.encode("result", result)
	if err != nil {
		return Outcome{}, err
	}
	finish := fencepost.RunFinish{Token: r.token, ID: r.id, Status: status, Result: payload, Error: text(cause)}
	began := time.Now()
	var out Outcome
	err = resolve(ctx, func() (err error) {
		out.Run, out.Already, err = h.store.FinishRun(ctx, finish)
		return err
	})
	if err != nil {
		h.refused(ctx, r.Info(), err, began)
		return Outcome{}, h.keep(ctx, r.Info(), finish, err)
	}
	r.mu.Lock()
	r.info = out.Run
	r.mu.Unlock()
	h.observe(ctx, Event{Kind: Finished, Run: out.Run, Took: time.Since(began)})
	return out, nil
}
