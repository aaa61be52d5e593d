package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fencepost/fencepost"
)

func scanLetter(rows *sql.Rows) (d fencepost.DeadLetter, err error) {
	var slot, at, adopted sql.NullInt64
	var result sql.NullString
	err = rows.Scan(&d.ID, &d.RunID, &d.Lease, &d.Fence, &d.Current, &d.Reason, &d.Holder, &slot, &d.Status, &result, &d.Error, &at,
		&d.AdoptedBy, &d.AdoptedAs, &adopted)
	d.Slot, d.Result, d.At, d.AdoptedAt = timeOf(slot), document(result), timeOf(at), timeOf(adopted)
	return d, err
}

// KeepLetter implements fencepost.RunStore.
func (s *Store) KeepLetter(ctx context.Context, d fencepost.DeadLetter) (id int64, err error) {
	err = errors.Join(fencepost.ValidateName(d.Lease), fencepost.ValidateRunID(d.RunID), validEnd(d.Status), validSlot(d.Slot), validDocument("result", d.Result))
	if err != nil {
		return 0, err
	}
	_, err = s.change(ctx, "letter_keep", func(rows *sql.Rows) error { return rows.Scan(&id) },
		d.RunID, d.Lease, d.Fence, d.Current, string(d.Reason), d.Holder, slotOf(d.Slot), string(d.Status), column(d.Result), explanation(d.Error), d.Digest())
	return id, err
}

// FindLetter implements fencepost.RunStore.
func (s *Store) FindLetter(ctx context.Context, id int64) (fencepost.DeadLetter, bool, error) {
	found, err := collect(ctx, s, "letter_find", scanLetter, id)
	if err != nil || len(found) == 0 {
		return fencepost.DeadLetter{}, false, err
	}
	return found[0], true, nil
}

// ListLetters implements fencepost.RunStore.
func (s *Store) ListLetters(ctx context.Context, q fencepost.LetterQuery) ([]fencepost.DeadLetter, error) {
	statement, args := "letters", []any{before(q.Before), limitOf(q.Limit), q.Adopted, q.Payloads}
	if q.Lease != "" {
		statement, args = "letters_of", append(args, q.Lease)
	}
	return collect(ctx, s, statement, scanLetter, args...)
}

// AdoptLetter implements fencepost.RunStore.
func (s *Store) AdoptLetter(ctx context.Context, a fencepost.Adoption) (adopted fencepost.Run, err error) {
	ctx, done := fencepost.WriteBegins(ctx, "adopt_letter", a.Token)
	defer func() { done(err) }()
	if err := errors.Join(a.Token.Validate(), fencepost.ValidateRunID(a.RunID)); err != nil {
		return fencepost.Run{}, err
	}
	f := fencer{s.names}
	for range crossings {
		found := false
		err := f.attempt(ctx, s.data, a.Token, func(tx *sql.Tx) error {
			found = false
			err := eachRow(ctx, tx, s.queries.text("letter_adopt"),
				[]any{a.RunID, a.Token.Name, a.Token.Owner, a.Token.Fence, a.Letter, a.Holder, a.Actor}, func(rows *sql.Rows) (err error) {
					found = true
					adopted, err = scanRun(rows)
					return err
				})
			if err != nil || !found {
				return err
			}
			var original string
			err = eachRow(ctx, tx, s.queries.text("letter_mark"), []any{a.Letter, a.Actor, a.RunID}, func(rows *sql.Rows) error { return rows.Scan(&original) })
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, s.queries.text("record"), a.Token.Name, string(fencepost.EventAdopted), a.Token.Fence, a.Holder, a.Actor, "result of run "+original)
			return err
		})
		f.note(ctx, s, a.Token, err)
		if err != nil {
			return fencepost.Run{}, err
		}
		if found {
			return adopted, nil
		}
		run, there, err := s.adoptRefused(ctx, a)
		if err != nil || there {
			return run, err
		}
	}
	return fencepost.Run{}, crossed("the adoption of a dead letter")
}

// adoptRefused finds the run that an earlier try has made, or says what was in the way.
func (s *Store) adoptRefused(ctx context.Context, a fencepost.Adoption) (run fencepost.Run, there bool, err error) {
	run, found, err := s.FindRun(ctx, a.RunID)
	switch {
	case err != nil:
		return fencepost.Run{}, false, err
	case found && run.By(a.Token) && run.AdoptedFrom == a.Letter:
		return run, true, nil
	case found:
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.RunNotYours, Lease: run.Lease, Run: run.ID, Status: run.Status}
	}
	letter, found, err := s.FindLetter(ctx, a.Letter)
	switch {
	case err != nil:
		return fencepost.Run{}, false, err
	case !found || letter.Lease != a.Token.Name:
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.DeadUnknown, Lease: a.Token.Name, Letter: a.Letter}
	case !letter.AdoptedAt.IsZero():
		return fencepost.Run{}, false, &fencepost.RunError{Reason: fencepost.DeadAdopted, Lease: a.Token.Name, Letter: a.Letter, Run: letter.AdoptedAs}
	}
	return fencepost.Run{}, false, nil
}

// DropLetter implements fencepost.RunStore.
func (s *Store) DropLetter(ctx context.Context, id int64, actor string) error {
	dropped := false
	err := s.write(ctx, func(ctx context.Context, conn *sql.Conn) error {
		dropped = false
		var run, lease, holder string
		var fence int64
		err := eachRow(ctx, conn, s.queries.text("letter_drop"), []any{id}, func(rows *sql.Rows) error {
			dropped = true
			return rows.Scan(&run, &lease, &fence, &holder)
		})
		if err != nil || !dropped {
			return err
		}
		_, err = conn.ExecContext(ctx, s.queries.text("record"), lease, string(fencepost.EventDropped), fence, holder, actor, "result of run "+run)
		return err
	})
	if err == nil && !dropped {
		return &fencepost.RunError{Reason: fencepost.DeadUnknown, Letter: id}
	}
	return err
}
