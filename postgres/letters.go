package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

func scanLetter(rows pgx.Rows) (d fencepost.DeadLetter, err error) {
	var standby bool
	var slot, at, adopted *int64
	var result *string
	err = rows.Scan(&standby, &d.ID, &d.RunID, &d.Lease, &d.Fence, &d.Current, &d.Reason, &d.Holder, &slot, &d.Status, &result, &d.Error, &at,
		&d.AdoptedBy, &d.AdoptedAs, &adopted)
	d.Slot, d.Result, d.At, d.AdoptedAt = fromMillis(slot), document(result), fromMicros(at), fromMicros(adopted)
	return d, believe(standby, err)
}

// KeepLetter implements [fencepost.RunStore].
func (s *Store) KeepLetter(ctx context.Context, d fencepost.DeadLetter) (id int64, err error) {
	err = errors.Join(fencepost.ValidateName(d.Lease), fencepost.ValidateRunID(d.RunID), validEnd(d.Status), validSlot(d.Slot), validDocument("result", d.Result))
	if err != nil {
		return 0, err
	}
	for range crossings {
		found, err := collect(ctx, s.common, s.place.text("letter_keep"), true, value[int64],
			d.RunID, d.Lease, d.Fence, d.Current, storable(string(d.Reason)), storable(d.Holder), slotOf(d.Slot), string(d.Status),
			column(d.Result), explanation(d.Error), d.Digest())
		if err != nil {
			return 0, err
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return 0, crossed("the keeping of a dead letter")
}

// FindLetter implements [fencepost.RunStore].
func (s *Store) FindLetter(ctx context.Context, id int64) (fencepost.DeadLetter, bool, error) {
	found, err := collect(ctx, s.common, s.place.text("letter_find"), false, scanLetter, id)
	if err != nil || len(found) == 0 {
		return fencepost.DeadLetter{}, false, err
	}
	return found[0], true, nil
}

// ListLetters implements [fencepost.RunStore].
func (s *Store) ListLetters(ctx context.Context, q fencepost.LetterQuery) ([]fencepost.DeadLetter, error) {
	statement, args := "letters", []any{before(q.Before), limitOf(q.Limit), q.Adopted, q.Payloads}
	if q.Lease != "" {
		if err := fencepost.ValidateName(q.Lease); err != nil {
			return nil, err
		}
		statement, args = "letters_of", append(args, q.Lease)
	}
	return collect(ctx, s.common, s.place.text(statement), false, scanLetter, args...)
}

// AdoptLetter implements [fencepost.RunStore].
func (s *Store) AdoptLetter(ctx context.Context, a fencepost.Adoption) (adopted fencepost.Run, err error) {
	ctx, done := fencepost.WriteBegins(ctx, "adopt_letter", a.Token)
	defer func() { done(err) }()
	if err := errors.Join(a.Token.Validate(), fencepost.ValidateRunID(a.RunID)); err != nil {
		return fencepost.Run{}, err
	}
	f := fenced{s.common, s.place}
	for range crossings {
		found, err := write(ctx, f, a.Token, scanRun, sentence{"letter_adopt",
			[]any{a.RunID, a.Token.Name, a.Token.Owner, a.Token.Fence, a.Letter, storable(a.Holder), storable(a.Actor)}})
		f.note(ctx, a.Token, err)
		if err != nil {
			return fencepost.Run{}, err
		}
		if len(found) > 0 {
			return found[0], nil
		}
		run, there, err := s.adoptRefused(ctx, a)
		if err != nil || there {
			return run, err
		}
	}
	return fencepost.Run{}, crossed("the adoption of a dead letter")
}

// adoptRefused says why a letter was not adopted, or finds the run that an earlier try has made of it.
func (s *Store) adoptRefused(ctx context.Context, a fencepost.Adoption) (run fencepost.Run, found bool, err error) {
	letter, there, err := s.FindLetter(ctx, a.Letter)
	if err != nil {
		return fencepost.Run{}, false, err
	}
	if !there || letter.Lease != a.Token.Name {
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.DeadUnknown, Lease: a.Token.Name, Letter: a.Letter}
	}
	run, found, err = s.FindRun(ctx, a.RunID)
	switch {
	case err != nil:
		return fencepost.Run{}, false, err
	case found && run.AdoptedFrom == a.Letter:
		return run, true, nil
	case !letter.AdoptedAt.IsZero():
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.DeadAdopted, Lease: letter.Lease, Run: letter.AdoptedAs, Letter: a.Letter}
	case found:
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.RunNotYours, Lease: run.Lease, Run: run.ID, Status: run.Status}
	}
	return fencepost.Run{}, false, nil
}

// DropLetter implements [fencepost.RunStore]. It needs the right DELETE on the dead letters.
func (s *Store) DropLetter(ctx context.Context, id int64, actor string) error {
	found, err := collect(ctx, s.common, s.place.text("letter_drop"), true, value[int64], id, storable(actor))
	if err == nil && len(found) == 0 {
		err = &fencepost.RunError{Reason: fencepost.DeadUnknown, Letter: id}
	}
	return err
}
