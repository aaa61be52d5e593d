package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

// refusedCompletion is the letter of a completion that came too late.
func refusedCompletion(id string) fencepost.DeadLetter {
	return fencepost.DeadLetter{RunID: id, Lease: "job", Fence: 1, Current: 2, Reason: fencepost.ReasonSuperseded, Holder: "late",
		Status: fencepost.RunFailed, Result: []byte(` {"done": 7}`), Error: "why"}
}

func keep(t testing.TB, s *postgres.Store, d fencepost.DeadLetter) int64 {
	t.Helper()
	id, err := s.KeepLetter(t.Context(), d)
	if err != nil || id < 1 {
		t.Fatalf("keeping a letter: %d, %v", id, err)
	}
	return id
}

func TestALetterIsKeptOnceAndWhole(t *testing.T) {
	store, pool := openStore(t)
	ctx := t.Context()
	slot := time.Date(2001, 2, 3, 4, 5, 6, 7_000_000, time.UTC)
	want := refusedCompletion("one")
	want.Slot = slot
	ids := make([]int64, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() { ids[i] = keep(t, store, want) })
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("one completion has the ids %v", ids)
		}
	}
	other := want
	other.Result = []byte(`{"done": 8}`)
	if id := keep(t, store, other); id == ids[0] {
		t.Error("another completion has the same id")
	}
	got, found, err := store.FindLetter(ctx, ids[0])
	if err != nil || !found || got.At.IsZero() {
		t.Fatalf("%+v, %v, %v", got, found, err)
	}
	if got.Digest() != want.Digest() || !bytes.Equal(got.Result, want.Result) {
		t.Errorf("%s came back as %s", want.Result, got.Result)
	}
	got.ID, got.At, got.Result, want.Result = 0, time.Time{}, nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v came back as %+v", want, got)
	}
	if _, found, err := store.FindLetter(ctx, 99); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	letters, err := store.ListLetters(ctx, fencepost.LetterQuery{Lease: "job", Payloads: true})
	if err != nil || len(letters) != 2 || letters[1].ID != ids[0] || letters[1].Result == nil {
		t.Errorf("%+v, %v", letters, err)
	}
	letters, err = store.ListLetters(ctx, fencepost.LetterQuery{Before: letters[0].ID})
	if err != nil || len(letters) != 1 || letters[0].Result != nil {
		t.Errorf("%+v, %v", letters, err)
	}
	if err := store.DropLetter(ctx, ids[0], "me"); err != nil {
		t.Fatal(err)
	}
	wantRunError(t, store.DropLetter(ctx, ids[0], "me"), fencepost.DeadUnknown)
	events, err := store.Events(ctx, fencepost.EventQuery{Lease: "job"})
	if err != nil || len(events) != 1 || events[0].Kind != fencepost.EventDropped || events[0].Actor != "me" || events[0].Fence != 1 {
		t.Errorf("%+v, %v", events, err)
	}
	if n := read[int](t, pool, "SELECT count(*)::int FROM fencepost_dead"); n != 1 {
		t.Errorf("%d letters are left", n)
	}
}

func TestALetterIsAdoptedOnce(t *testing.T) {
	store, pool := openStore(t)
	ctx := t.Context()
	old := acquire(t, store, "job", long).Token
	slot := read[time.Time](t, pool, "SELECT clock_timestamp()").Add(-time.Hour).Truncate(time.Millisecond).UTC()
	if _, err := store.StartRun(ctx, fencepost.RunStart{Token: old, ID: "one", Slot: slot}); err != nil {
		t.Fatal(err)
	}
	token := acquireNext(t, store, pool, old)
	letter := refusedCompletion("one")
	letter.Slot = slot
	id := keep(t, store, letter)
	adoption := fencepost.Adoption{Token: token, Letter: id, RunID: "made", Holder: "h", Actor: "me"}

	wrong := adoption
	wrong.Letter = 99
	_, err := store.AdoptLetter(ctx, wrong)
	wantRunError(t, err, fencepost.DeadUnknown)
	wrong = adoption
	wrong.Token = acquire(t, store, "other", long).Token
	_, err = store.AdoptLetter(ctx, wrong)
	wantRunError(t, err, fencepost.DeadUnknown)
	wrong = adoption
	wrong.Token = old
	_, err = store.AdoptLetter(ctx, wrong)
	wantStale(t, err, fencepost.ReasonSuperseded)
	wrong = adoption
	wrong.RunID = "one"
	_, err = store.AdoptLetter(ctx, wrong)
	wantRunError(t, err, fencepost.RunNotYours)
	if n := read[int](t, pool, "SELECT count(*)::int FROM fencepost_runs"); n != 1 {
		t.Fatalf("refused adoptions made %d runs", n-1)
	}

	made, err := store.AdoptLetter(ctx, adoption)
	if err != nil || made.Status != letter.Status || !bytes.Equal(made.Result, letter.Result) || made.Error != letter.Error || !made.Slot.Equal(slot) ||
		made.Attempt != 2 || made.AdoptedFrom != id || made.Actor != "me" || !made.By(token) || made.FinishedAt.IsZero() {
		t.Fatalf("%+v, %v", made, err)
	}
	if again, err := store.AdoptLetter(ctx, adoption); err != nil || again.Seq != made.Seq {
		t.Errorf("the second try: %+v, %v", again, err)
	}
	wrong = adoption
	wrong.RunID = "made-again"
	_, err = store.AdoptLetter(ctx, wrong)
	if e := wantRunError(t, err, fencepost.DeadAdopted); e.Run != "made" {
		t.Errorf("%+v", e)
	}
	got, _, err := store.FindLetter(ctx, id)
	if err != nil || got.AdoptedBy != "me" || got.AdoptedAs != "made" || got.AdoptedAt != made.FinishedAt {
		t.Errorf("%+v, %v", got, err)
	}
	if letters, err := store.ListLetters(ctx, fencepost.LetterQuery{}); err != nil || len(letters) != 0 {
		t.Errorf("still listed: %+v, %v", letters, err)
	}
	if letters, err := store.ListLetters(ctx, fencepost.LetterQuery{Adopted: true}); err != nil || len(letters) != 1 {
		t.Errorf("not listed: %+v, %v", letters, err)
	}
	events, err := store.Events(ctx, fencepost.EventQuery{Lease: "job", Last: true, Limit: 1})
	if err != nil || len(events) != 1 || events[0].Kind != fencepost.EventAdopted || events[0].Actor != "me" || events[0].Fence != token.Fence {
		t.Errorf("%+v, %v", events, err)
	}
}

// An adoption whose event cannot be written is none at all.
func TestAnAdoptionIsAllOrNothing(t *testing.T) {
	store, pool := openStore(t)
	token := acquire(t, store, "job", long).Token
	id := keep(t, store, refusedCompletion("one"))
	run(t, pool, "ALTER TABLE fencepost_events ADD CONSTRAINT full_disk CHECK (kind <> 'adopted') NOT VALID")
	_, err := store.AdoptLetter(t.Context(), fencepost.Adoption{Token: token, Letter: id, RunID: "made"})
	if !errors.Is(err, fencepost.ErrUnavailable) || code(err) != "23514" {
		t.Errorf("%v", err)
	}
	if _, found, err := store.FindRun(t.Context(), "made"); found || err != nil {
		t.Errorf("a run was made: %v", err)
	}
	if got, _, err := store.FindLetter(t.Context(), id); err != nil || !got.AdoptedAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPruningSparesWhatIsStillNeeded(t *testing.T) {
	store, pool := openStore(t)
	ctx := t.Context()
	token := acquire(t, store, "job", long).Token
	keeper := acquire(t, store, "keeper", long).Token
	slot := read[time.Time](t, pool, "SELECT clock_timestamp()").Add(-time.Hour).Truncate(time.Millisecond)
	if _, err := store.StartRun(ctx, fencepost.RunStart{Token: token, ID: "slot", Slot: slot, Skip: true}); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		id := fmt.Sprintf("r%d", i)
		start(t, store, token, id)
		if _, _, err := finish(t, store, token, id); err != nil {
			t.Fatal(err)
		}
	}
	start(t, store, token, "open")
	run(t, pool, "UPDATE fencepost_runs SET finished_at = finished_at - interval '2 days' WHERE run_id IN ('slot', 'r0', 'r1', 'r2')")
	prune := func(what string, want int64, p fencepost.PruneRequest) {
		t.Helper()
		p.Token, p.Lease = keeper, "job"
		if n, err := store.Prune(ctx, p); err != nil || n != want {
			t.Errorf("%s: %d rows, %v, want %d", what, n, err, want)
		}
	}
	prune("no limit", 0, fencepost.PruneRequest{Limit: 100})
	prune("an age that none has", 0, fencepost.PruneRequest{OlderThan: 72 * time.Hour, Limit: 100})
	prune("old ones, in parts", 2, fencepost.PruneRequest{OlderThan: 24 * time.Hour, Limit: 2})
	if _, found, _ := store.FindRun(ctx, "r2"); !found {
		t.Error("not the oldest were deleted first")
	}
	prune("the rest", 1, fencepost.PruneRequest{OlderThan: 24 * time.Hour, Limit: 2})
	prune("all but the newest three", 5, fencepost.PruneRequest{Keep: 3, Limit: 100})
	if _, _, err := finish(t, store, token, "open"); err != nil {
		t.Fatal(err)
	}
	run(t, pool, "UPDATE fencepost_runs SET finished_at = finished_at - interval '2 days'")
	prune("everything that may go", 2, fencepost.PruneRequest{OlderThan: time.Nanosecond, Limit: 100})
	runs, err := store.ListRuns(ctx, fencepost.RunQuery{})
	if err != nil || len(runs) != 2 || runs[0].ID != "open" || runs[1].ID != "slot" {
		t.Errorf("left: %+v, %v", runs, err)
	}
	prune("events", 0, fencepost.PruneRequest{Events: true, Keep: 1, Limit: 100})
	acquireNext(t, store, pool, token)
	prune("events", 1, fencepost.PruneRequest{Events: true, Keep: 1, Limit: 100})
	events, err := store.Events(ctx, fencepost.EventQuery{})
	if err != nil || len(events) != 2 || events[1].Kind != fencepost.EventTakenOver {
		t.Errorf("%+v, %v", events, err)
	}
	stale := keeper
	stale.Owner = "somebody else"
	_, err = store.Prune(ctx, fencepost.PruneRequest{Token: stale, Lease: "job", Keep: 1, Limit: 1})
	wantStale(t, err, fencepost.ReasonNotGranted)
}
