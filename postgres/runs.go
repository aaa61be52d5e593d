package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// runColumns are where the columns of a run go, as the statements read it; fill takes over what needs converting.
func runColumns(r *fencepost.Run) (columns []any, fill func()) {
	var slot, started, updated, finished *int64
	var progress, result *string
	columns = []any{&r.Seq, &r.ID, &r.Lease, &r.Owner, &r.Fence, &r.Holder, &r.Attempt, &slot, &r.Missed, &r.Status, &progress, &result, &r.Error,
		&started, &updated, &finished, &r.ReplacedBy, &r.AdoptedFrom, &r.Actor, &r.Lost}
	return columns, func() {
		r.Slot, r.StartedAt, r.UpdatedAt, r.FinishedAt = fromMillis(slot), fromMicros(started), fromMicros(updated), fromMicros(finished)
		r.Progress, r.Result = document(progress), document(result)
	}
}

func fromMillis(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}

// slotOf is a slot as a parameter: milliseconds, or null for none.
func slotOf(slot time.Time) *int64 {
	if slot.IsZero() {
		return nil
	}
	ms := slot.UnixMilli()
	return &ms
}

// document reads a column of JSON.
func document(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// column is JSON as a parameter: text as it is, or null for none.
func column(json []byte) *string {
	if len(json) == 0 {
		return nil
	}
	text := string(json)
	return &text
}

// scanRun reads the row of a write.
func scanRun(rows pgx.Rows) (fencepost.Run, error) {
	var r fencepost.Run
	columns, fill := runColumns(&r)
	err := rows.Scan(columns...)
	fill()
	return r, err
}

// scanKnownRun reads the row of a look, and refuses to believe a standby.
func scanKnownRun(rows pgx.Rows) (fencepost.Run, error) {
	var r fencepost.Run
	var standby bool
	columns, fill := runColumns(&r)
	err := rows.Scan(append([]any{&standby}, columns...)...)
	fill()
	return r, believe(standby, err)
}

// scanSlot reads the newest attempt of a slot, if there is one, and the time.
func scanSlot(rows pgx.Rows) (l fencepost.LastSlot, err error) {
	var r fencepost.Run
	var standby bool
	var now int64
	columns, fill := runColumns(&r)
	err = rows.Scan(append([]any{&standby, &now, &l.Found}, columns...)...)
	fill()
	l.Now = fromMicros(&now)
	if l.Found {
		l.Run = r
	}
	return l, believe(standby, err)
}

func believe(standby bool, err error) error {
	if err == nil && standby {
		return errStandby
	}
	return err
}

// longestError is how much of the text of an error is kept, in bytes.
const longestError = 64 << 10

// explanation is a text of an error as it is kept.
func explanation(text string) string {
	text = storable(text)
	for len(text) > longestError {
		text = strings.ToValidUTF8(text[:longestError], "")
	}
	return text
}

// validDocument guards the column, which is text: JSON has no other characters.
func validDocument(what string, json []byte) error {
	if !utf8.Valid(json) || strings.IndexByte(string(json), 0) >= 0 {
		return fmt.Errorf("%w: the %s is no JSON: it is not UTF-8, or contains a zero byte", fencepost.ErrInvalid, what)
	}
	return nil
}

// validSlot keeps a slot within what both sides can represent.
func validSlot(slot time.Time) error {
	if year := slot.Year(); !slot.IsZero() && (year < 1 || year > 9999) {
		return fmt.Errorf("%w: the slot %v is out of range: its year must be from 1 to 9999", fencepost.ErrInvalid, slot)
	}
	return nil
}

// crossings is how often a write whose refusal cannot be explained, because what was in its way has gone meanwhile, is tried again.
const crossings = 5

func crossed(what string) error {
	return fmt.Errorf("%w: %s was crossed by others again and again; try again in a moment", fencepost.ErrBusy, what)
}

// StartRun implements [fencepost.RunStore].
func (s *Store) StartRun(ctx context.Context, r fencepost.RunStart) (started fencepost.Run, err error) {
	ctx, done := fencepost.WriteBegins(ctx, "start_run", r.Token)
	defer func() { done(err) }()
	if err := errors.Join(r.Token.Validate(), fencepost.ValidateRunID(r.ID), validSlot(r.Slot)); err != nil {
		return fencepost.Run{}, err
	}
	if r.Skip && r.Slot.IsZero() {
		return fencepost.Run{}, fmt.Errorf("%w: only a slot can be skipped; say which", fencepost.ErrInvalid)
	}
	reason := ""
	if r.Skip {
		reason = explanation(r.Reason)
	}
	f := fenced{s.common, s.place}
	for range crossings {
		found, err := write(ctx, f, r.Token, scanRun,
			sentence{"run_abandon", []any{r.Token.Name, r.Token.Fence}},
			sentence{"run_start", []any{r.ID, r.Token.Name, r.Token.Owner, r.Token.Fence, storable(r.Holder), slotOf(r.Slot), int64(max(r.Attempts, 1)),
				int64(r.Missed), r.Skip, reason}})
		f.note(ctx, r.Token, err)
		if err != nil {
			return fencepost.Run{}, err
		}
		if len(found) > 0 {
			return found[0], nil
		}
		run, there, err := s.startRefused(ctx, r)
		if err != nil || there {
			return run, err
		}
	}
	return fencepost.Run{}, crossed("the start of a run")
}

// startRefused says why a run was not started, or finds the one that an earlier try has started. Neither means that what was in the way is gone.
func (s *Store) startRefused(ctx context.Context, r fencepost.RunStart) (run fencepost.Run, found bool, err error) {
	run, found, err = s.FindRun(ctx, r.ID)
	switch {
	case err != nil:
		return fencepost.Run{}, false, err
	case found && run.By(r.Token):
		return run, true, nil
	case found:
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.RunNotYours, Lease: run.Lease, Run: run.ID, Status: run.Status}
	}
	if !r.Skip {
		open, err := collect(ctx, s.common, s.place.text("run_open"), false, scanKnownRun, r.Token.Name)
		if err != nil {
			return fencepost.Run{}, false, err
		}
		if len(open) > 0 && open[0].By(r.Token) {
			return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.RunOpen, Lease: r.Token.Name, Run: open[0].ID, Status: open[0].Status}
		}
	}
	if r.Slot.IsZero() {
		return fencepost.Run{}, false, nil
	}
	tried, err := collect(ctx, s.common, s.place.text("slot_tried"), false, scanSlot, r.Token.Name, r.Slot.UnixMilli())
	if err != nil {
		return fencepost.Run{}, false, err
	}
	slot, last := time.UnixMilli(r.Slot.UnixMilli()).UTC(), tried[0]
	switch {
	case slot.After(last.Now):
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.RunNotDue, Lease: r.Token.Name, Slot: slot, In: slot.Sub(last.Now)}
	case last.Found && (!last.Run.Status.Again() || last.Run.Attempt >= max(r.Attempts, 1)):
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.RunSlotTaken, Lease: r.Token.Name, Run: last.Run.ID, Status: last.Run.Status, Slot: slot}
	}
	return fencepost.Run{}, false, nil
}

// ReportRun implements [fencepost.RunStore].
func (s *Store) ReportRun(ctx context.Context, r fencepost.RunReport) (err error) {
	ctx, done := fencepost.WriteBegins(ctx, "report_run", r.Token)
	defer func() { done(err) }()
	if err := errors.Join(r.Token.Validate(), fencepost.ValidateRunID(r.ID), validDocument("progress", r.Progress)); err != nil {
		return err
	}
	f := fenced{s.common, s.place}
	for range crossings {
		found, err := write(ctx, f, r.Token, value[bool],
			sentence{"run_report", []any{r.ID, r.Token.Name, r.Token.Owner, r.Token.Fence, column(r.Progress)}})
		f.note(ctx, r.Token, err)
		if err != nil || len(found) > 0 {
			return err
		}
		if _, err := s.ended(ctx, r.Token, r.ID); err != nil {
			return err
		}
	}
	return crossed("the progress of a run")
}

// ended finds a run that was not open when a write of the token came to it, and why. Neither an error nor an ended run means that
// it is open after all.
func (s *Store) ended(ctx context.Context, t fencepost.Token, id string) (run fencepost.Run, err error) {
	run, found, err := s.FindRun(ctx, id)
	switch {
	case err != nil:
		return run, err
	case !found:
		return run, &fencepost.RunError{Reason: fencepost.RunUnknown, Lease: t.Name, Run: id}
	case !run.By(t):
		return run, &fencepost.RunError{Reason: fencepost.RunNotYours, Lease: run.Lease, Run: id, Status: run.Status}
	case run.Status != fencepost.RunRunning:
		return run, &fencepost.RunError{Reason: fencepost.RunFinished, Lease: run.Lease, Run: id, Status: run.Status}
	}
	return run, nil
}

// FinishRun implements [fencepost.RunStore].
func (s *Store) FinishRun(ctx context.Context, r fencepost.RunFinish) (run fencepost.Run, already bool, err error) {
	ctx, done := fencepost.WriteBegins(ctx, "finish_run", r.Token)
	defer func() { done(err) }()
	if err := errors.Join(r.Token.Validate(), fencepost.ValidateRunID(r.ID), validEnd(r.Status), validDocument("result", r.Result)); err != nil {
		return fencepost.Run{}, false, err
	}
	r.Error = explanation(r.Error)
	f := fenced{s.common, s.place}
	for range crossings {
		found, err := write(ctx, f, r.Token, scanRun,
			sentence{"run_finish", []any{r.ID, r.Token.Name, r.Token.Owner, r.Token.Fence, string(r.Status), column(r.Result), r.Error}})
		if len(found) > 0 {
			found[0].Result = document(column(r.Result))
			return found[0], false, nil
		}
		stale, refused := errors.AsType[*fencepost.StaleError](err)
		if err != nil && !refused {
			return fencepost.Run{}, false, err
		}
		run, err := s.ended(ctx, r.Token, r.ID)
		finished, ok := errors.AsType[*fencepost.RunError](err)
		switch {
		case ok && finished.Reason == fencepost.RunFinished && run.Status == r.Status && string(run.Result) == string(r.Result) && run.Error == r.Error:
			return run, true, nil
		case refused:
			// Also when the run could not be looked at: the refusal is certain.
			f.note(ctx, r.Token, stale)
			return fencepost.Run{}, false, stale
		case err != nil:
			return fencepost.Run{}, false, err
		}
	}
	return fencepost.Run{}, false, crossed("the end of a run")
}

func validEnd(status fencepost.RunStatus) error {
	if !status.Valid() || status == fencepost.RunRunning || status == fencepost.RunSkipped {
		return fmt.Errorf("%w: a run cannot end as %q", fencepost.ErrInvalid, status)
	}
	return nil
}

// FindRun implements [fencepost.RunStore].
func (s *Store) FindRun(ctx context.Context, id string) (fencepost.Run, bool, error) {
	if err := fencepost.ValidateRunID(id); err != nil {
		return fencepost.Run{}, false, err
	}
	found, err := collect(ctx, s.common, s.place.text("run_find"), false, scanKnownRun, id)
	if err != nil || len(found) == 0 {
		return fencepost.Run{}, false, err
	}
	return found[0], true, nil
}

// ListRuns implements [fencepost.RunStore].
func (s *Store) ListRuns(ctx context.Context, q fencepost.RunQuery) ([]fencepost.Run, error) {
	var statuses []string
	for _, status := range q.Status {
		statuses = append(statuses, storable(string(status)))
	}
	statement, args := "runs", []any{before(q.Before), limitOf(q.Limit), statuses, q.Payloads}
	if q.Lease != "" {
		if err := fencepost.ValidateName(q.Lease); err != nil {
			return nil, err
		}
		statement, args = "runs_of", append(args, q.Lease)
	}
	return collect(ctx, s.common, s.place.text(statement), false, scanKnownRun, args...)
}

// before is where a page begins, the newest first.
func before(n int64) int64 {
	if n == 0 {
		return math.MaxInt64
	}
	return n
}

// LastSlot implements [fencepost.RunStore].
func (s *Store) LastSlot(ctx context.Context, lease string) (fencepost.LastSlot, error) {
	if err := fencepost.ValidateName(lease); err != nil {
		return fencepost.LastSlot{}, err
	}
	found, err := collect(ctx, s.common, s.place.text("last_slot"), false, scanSlot, lease)
	if err != nil {
		return fencepost.LastSlot{}, err
	}
	return found[0], nil
}
