package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fencepost/fencepost"
)

var _ fencepost.RunStore = (*Store)(nil)

// scanRun reads a row of any of the statements about runs.
func scanRun(rows *sql.Rows) (r fencepost.Run, err error) {
	err = scanRunAfter(rows, &r)
	return r, err
}

// scanRunAfter reads a run from the columns that follow those of before.
func scanRunAfter(rows *sql.Rows, r *fencepost.Run, before ...any) error {
	var slot, started, updated, finished sql.NullInt64
	var progress, result sql.NullString
	err := rows.Scan(append(before, &r.Seq, &r.ID, &r.Lease, &r.Owner, &r.Fence, &r.Holder, &r.Attempt, &slot, &r.Missed, &r.Status, &progress, &result, &r.Error,
		&started, &updated, &finished, &r.ReplacedBy, &r.AdoptedFrom, &r.Actor, &r.Lost)...)
	r.Slot, r.StartedAt, r.UpdatedAt, r.FinishedAt = timeOf(slot), timeOf(started), timeOf(updated), timeOf(finished)
	r.Progress, r.Result = document(progress), document(result)
	return err
}

// document reads a column of JSON.
func document(text sql.NullString) []byte {
	if !text.Valid {
		return nil
	}
	return []byte(text.String)
}

// column is JSON as a parameter: text as it is, or NULL for none.
func column(json []byte) sql.NullString {
	return sql.NullString{String: string(json), Valid: len(json) > 0}
}

// slotOf is a slot as a parameter: milliseconds, or NULL for none.
func slotOf(slot time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: slot.UnixMilli(), Valid: !slot.IsZero()}
}

// longestError is how much of the text of an error is kept, in bytes.
const longestError = 64 << 10

// explanation is a text of an error as it is kept.
func explanation(text string) string {
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	return strings.ToValidUTF8(text[:min(len(text), longestError)], "")
}

// validDocument guards the column, which is text: JSON has no other characters.
func validDocument(what string, json []byte) error {
	if !utf8.Valid(json) || strings.IndexByte(string(json), 0) >= 0 {
		return fmt.Errorf("%w: the %s is no JSON: it is not UTF-8, or contains a zero byte", fencepost.ErrInvalid, what)
	}
	return nil
}

func validSlot(slot time.Time) error {
	if year := slot.Year(); !slot.IsZero() && (year < 1 || year > 9999) {
		return fmt.Errorf("%w: the slot %v is out of range: its year must be from 1 to 9999", fencepost.ErrInvalid, slot)
	}
	return nil
}

func validEnd(status fencepost.RunStatus) error {
	if !status.Valid() || status == fencepost.RunRunning || status == fencepost.RunSkipped {
		return fmt.Errorf("%w: a run cannot end as %q", fencepost.ErrInvalid, status)
	}
	return nil
}

// crossings is how often a write whose refusal cannot be explained, because what was in its way has gone meanwhile, is tried again.
const crossings = 5

func crossed(what string) error {
	return fmt.Errorf("%w: %s was crossed by others again and again; try again in a moment", fencepost.ErrBusy, what)
}

// fencedRow runs fenced statements and returns the row of the last one. found is false when it had none; what the statements before
// it wrote is kept all the same.
func (f fencer) fencedRow(ctx context.Context, s *Store, t fencepost.Token, scan func(*sql.Rows) error, statements ...sentence) (found bool, err error) {
	err = f.attempt(ctx, s.data, t, func(tx *sql.Tx) error {
		for _, one := range statements {
			found = false
			err := eachRow(ctx, tx, s.queries.text(one.name), one.args, func(rows *sql.Rows) error {
				found = true
				return scan(rows)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found && err == nil, err
}

type sentence struct {
	name string
	args []any
}

// StartRun implements fencepost.RunStore.
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
	f := fencer{s.names}
	for range crossings {
		found, err := f.fencedRow(ctx, s, r.Token, func(rows *sql.Rows) (err error) { started, err = scanRun(rows); return err },
			sentence{"run_abandon", []any{r.Token.Name, r.Token.Fence}},
			sentence{"run_start", []any{r.ID, r.Token.Name, r.Token.Owner, r.Token.Fence, r.Holder, slotOf(r.Slot), max(r.Attempts, 1), r.Missed, r.Skip, reason}})
		f.note(ctx, s, r.Token, err)
		if err != nil || found {
			return started, err
		}
		run, there, err := s.startRefused(ctx, r)
		if err != nil || there {
			return run, err
		}
	}
	return fencepost.Run{}, crossed("the start of a run")
}

// note records a refusal as an event.
func (f fencer) note(ctx context.Context, s *Store, t fencepost.Token, err error) {
	if errors.Is(err, fencepost.ErrStale) {
		f.recordRefusal(ctx, s.data, t, err)
	}
}

// startRefused finds the run that an earlier try has started, or says what was in the way. Neither means that it has gone meanwhile.
func (s *Store) startRefused(ctx context.Context, r fencepost.RunStart) (run fencepost.Run, there bool, err error) {
	run, found, err := s.FindRun(ctx, r.ID)
	switch {
	case err != nil:
		return fencepost.Run{}, false, err
	case found && run.By(r.Token):
		return run, true, nil
	case found:
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.RunNotYours, Lease: run.Lease, Run: run.ID, Status: run.Status}
	}
	if !r.Skip {
		open, err := collect(ctx, s, "run_open", scanRun, r.Token.Name)
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
	slot := time.UnixMilli(r.Slot.UnixMilli()).UTC()
	last, err := s.lastSlot(ctx, r.Token.Name, slot.UnixMilli())
	switch {
	case err != nil:
		return fencepost.Run{}, false, err
	case slot.After(last.Now):
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.RunNotDue, Lease: r.Token.Name, Slot: slot, In: slot.Sub(last.Now)}
	case last.Found && last.Run.Slot.Equal(slot) && (!last.Run.Status.Again() || last.Run.Attempt >= max(r.Attempts, 1)):
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.RunSlotTaken, Lease: r.Token.Name, Run: last.Run.ID, Status: last.Run.Status, Slot: slot}
	}
	return fencepost.Run{}, false, nil
}

// ReportRun implements fencepost.RunStore.
func (s *Store) ReportRun(ctx context.Context, r fencepost.RunReport) (err error) {
	ctx, done := fencepost.WriteBegins(ctx, "report_run", r.Token)
	defer func() { done(err) }()
	if err := errors.Join(r.Token.Validate(), fencepost.ValidateRunID(r.ID), validDocument("progress", r.Progress)); err != nil {
		return err
	}
	f := fencer{s.names}
	for range crossings {
		var seq int64
		found, err := f.fencedRow(ctx, s, r.Token, func(rows *sql.Rows) error { return rows.Scan(&seq) },
			sentence{"run_report", []any{r.ID, r.Token.Name, r.Token.Owner, r.Token.Fence, column(r.Progress)}})
		f.note(ctx, s, r.Token, err)
		if err != nil || found {
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

// FinishRun implements fencepost.RunStore.
func (s *Store) FinishRun(ctx context.Context, r fencepost.RunFinish) (run fencepost.Run, already bool, err error) {
	ctx, done := fencepost.WriteBegins(ctx, "finish_run", r.Token)
	defer func() { done(err) }()
	if err := errors.Join(r.Token.Validate(), fencepost.ValidateRunID(r.ID), validEnd(r.Status), validDocument("result", r.Result)); err != nil {
		return fencepost.Run{}, false, err
	}
	r.Error = explanation(r.Error)
	f := fencer{s.names}
	for range crossings {
		found, err := f.fencedRow(ctx, s, r.Token, func(rows *sql.Rows) (err error) { run, err = scanRun(rows); return err },
			sentence{"run_finish", []any{r.ID, r.Token.Name, r.Token.Owner, r.Token.Fence, string(r.Status), column(r.Result), r.Error}})
		if found {
			return run, false, nil
		}
		stale, refused := errors.AsType[*fencepost.StaleError](err)
		if err != nil && !refused {
			return fencepost.Run{}, false, err
		}
		before, err := s.ended(ctx, r.Token, r.ID)
		finished, ok := errors.AsType[*fencepost.RunError](err)
		switch {
		case ok && finished.Reason == fencepost.RunFinished && before.Status == r.Status && string(before.Result) == string(r.Result) && before.Error == r.Error:
			return before, true, nil
		case refused:
			// Also when the run could not be looked at: the refusal is certain.
			f.note(ctx, s, r.Token, stale)
			return fencepost.Run{}, false, stale
		case err != nil:
			return fencepost.Run{}, false, err
		}
	}
	return fencepost.Run{}, false, crossed("the end of a run")
}

// FindRun implements fencepost.RunStore.
func (s *Store) FindRun(ctx context.Context, id string) (fencepost.Run, bool, error) {
	if err := fencepost.ValidateRunID(id); err != nil {
		return fencepost.Run{}, false, err
	}
	found, err := collect(ctx, s, "run_find", scanRun, id)
	if err != nil || len(found) == 0 {
		return fencepost.Run{}, false, err
	}
	return found[0], true, nil
}

// ListRuns implements fencepost.RunStore.
func (s *Store) ListRuns(ctx context.Context, q fencepost.RunQuery) ([]fencepost.Run, error) {
	var statuses sql.NullString
	if len(q.Status) > 0 {
		list, err := json.Marshal(q.Status)
		if err != nil {
			return nil, err
		}
		statuses = sql.NullString{String: string(list), Valid: true}
	}
	statement, args := "runs", []any{before(q.Before), limitOf(q.Limit), statuses, q.Payloads}
	if q.Lease != "" {
		statement, args = "runs_of", append(args, q.Lease)
	}
	return collect(ctx, s, statement, scanRun, args...)
}

// before is where a page begins, the newest first.
func before(n int64) int64 {
	if n == 0 {
		return math.MaxInt64
	}
	return n
}

// LastSlot implements fencepost.RunStore.
func (s *Store) LastSlot(ctx context.Context, lease string) (fencepost.LastSlot, error) {
	if err := fencepost.ValidateName(lease); err != nil {
		return fencepost.LastSlot{}, err
	}
	return s.lastSlot(ctx, lease, math.MaxInt64)
}

// lastSlot is the newest attempt of the newest slot that is not after a time in milliseconds.
func (s *Store) lastSlot(ctx context.Context, lease string, notAfter int64) (fencepost.LastSlot, error) {
	found, err := collect(ctx, s, "last_slot", func(rows *sql.Rows) (l fencepost.LastSlot, err error) {
		var now int64
		var r fencepost.Run
		err = scanRunAfter(rows, &r, &now)
		l.Now = time.UnixMilli(now).UTC()
		if r.Seq > 0 {
			l.Found, l.Run = true, r
		}
		return l, err
	}, lease, notAfter)
	if err != nil {
		return fencepost.LastSlot{}, err
	}
	return found[0], nil
}
