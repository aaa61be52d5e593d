package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

func start(t testing.TB, s *postgres.Store, token fencepost.Token, id string) fencepost.Run {
	t.Helper()
	r, err := s.StartRun(t.Context(), fencepost.RunStart{Token: token, ID: id, Holder: "holder"})
	if err != nil {
		t.Fatalf("starting %s: %v", id, err)
	}
	return r
}

func finish(t testing.TB, s *postgres.Store, token fencepost.Token, id string) (fencepost.Run, bool, error) {
	t.Helper()
	return s.FinishRun(t.Context(), fencepost.RunFinish{Token: token, ID: id, Status: fencepost.RunSucceeded, Result: []byte(`{"n":1}`)})
}

func find(t testing.TB, s *postgres.Store, id string) fencepost.Run {
	t.Helper()
	r, found, err := s.FindRun(t.Context(), id)
	if err != nil || !found {
		t.Fatalf("finding %s: %v, %v", id, found, err)
	}
	return r
}

func wantRunError(t testing.TB, err error, reason fencepost.RunReason) *fencepost.RunError {
	t.Helper()
	e, ok := errors.AsType[*fencepost.RunError](err)
	if !ok || e.Reason != reason {
		t.Errorf("got %v, want %s", err, reason)
		return &fencepost.RunError{}
	}
	return e
}

// protocols are the ways in which statements can travel.
var protocols = map[string]pgx.QueryExecMode{
	"prepared": pgx.QueryExecModeCacheStatement, "described": pgx.QueryExecModeCacheDescribe,
	"unprepared": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol,
}

// One life of a run, by every protocol: what is written comes back as it was.
func TestTheBooksOfARun(t *testing.T) {
	for name, mode := range protocols {
		t.Run(name, func(t *testing.T) {
			_, plain := openStore(t)
			store, err := postgres.New(t.Context(), poolWith(t, plain.Config().ConnString(), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			ctx := t.Context()
			token := acquire(t, store, "job", long).Token
			begun := start(t, store, token, "one")
			if begun.Attempt != 1 || begun.Status != fencepost.RunRunning || !begun.By(token) || begun.Holder != "holder" || !begun.Slot.IsZero() ||
				begun.StartedAt.IsZero() || begun.UpdatedAt != begun.StartedAt || !begun.FinishedAt.IsZero() || begun.Lost {
				t.Errorf("begun as %+v", begun)
			}
			if again := start(t, store, token, "one"); again.Seq != begun.Seq {
				t.Errorf("begun again as %+v", again)
			}
			_, err = store.StartRun(ctx, fencepost.RunStart{Token: token, ID: "two"})
			if e := wantRunError(t, err, fencepost.RunOpen); e.Run != "one" {
				t.Errorf("%+v", e)
			}
			progress := []byte(`{ "ü":  1e400, "big": "` + strings.Repeat("x", 1<<20) + `" }`)
			if err := store.ReportRun(ctx, fencepost.RunReport{Token: token, ID: "one", Progress: progress}); err != nil {
				t.Fatal(err)
			}
			end := fencepost.RunFinish{Token: token, ID: "one", Status: fencepost.RunPartial, Result: []byte(` [1, 2 ] `), Error: "half \x00 of \xff it"}
			ended, already, err := store.FinishRun(ctx, end)
			if err != nil || already || ended.Status != fencepost.RunPartial || !bytes.Equal(ended.Result, end.Result) || !bytes.Equal(ended.Progress, progress) ||
				ended.FinishedAt.IsZero() || ended.UpdatedAt != ended.FinishedAt || ended.Error != "half \uFFFD of \uFFFD it" {
				t.Errorf("ended as %.300s, %v, %v", fmt.Sprintf("%+v", ended), already, err)
			}
			if _, already, err = store.FinishRun(ctx, end); err != nil || !already {
				t.Errorf("the second time: %v, %v", already, err)
			}
			known := find(t, store, "one")
			if !bytes.Equal(known.Progress, progress) || !bytes.Equal(known.Result, end.Result) || known.Seq != begun.Seq || known.Error != ended.Error {
				t.Errorf("found as %.300s", fmt.Sprintf("%+v", known))
			}
			_, _, err = finish(t, store, token, "one")
			wantRunError(t, err, fencepost.RunFinished)
			wantRunError(t, store.ReportRun(ctx, fencepost.RunReport{Token: token, ID: "one"}), fencepost.RunFinished)
			_, _, err = finish(t, store, token, "none")
			wantRunError(t, err, fencepost.RunUnknown)
			other := acquire(t, store, "other", long).Token
			_, _, err = finish(t, store, other, "one")
			wantRunError(t, err, fencepost.RunNotYours)
			_, err = store.StartRun(ctx, fencepost.RunStart{Token: other, ID: "one"})
			wantRunError(t, err, fencepost.RunNotYours)
			// A partial run is not the end of the job.
			if r := start(t, store, token, "two"); r.Attempt != 2 {
				t.Errorf("attempt %d after a partial one", r.Attempt)
			}
			if _, _, err := finish(t, store, token, "two"); err != nil {
				t.Fatal(err)
			}
			if r := start(t, store, token, "three"); r.Attempt != 1 {
				t.Errorf("attempt %d after a success", r.Attempt)
			}
			runs, err := store.ListRuns(ctx, fencepost.RunQuery{Lease: "job", Status: []fencepost.RunStatus{fencepost.RunPartial, fencepost.RunSucceeded}})
			if err != nil || len(runs) != 2 || runs[0].ID != "two" || runs[1].ID != "one" || runs[0].Result != nil {
				t.Errorf("%+v, %v", runs, err)
			}
			runs, err = store.ListRuns(ctx, fencepost.RunQuery{Before: known.Seq + 1, Payloads: true})
			if err != nil || len(runs) != 1 || !bytes.Equal(runs[0].Progress, progress) {
				t.Errorf("%d runs, %v", len(runs), err)
			}
		})
	}
}

// A slot is run once, unless an attempt was cut off and another one is allowed.
func TestTheBooksOfASlot(t *testing.T) {
	store, pool := openStore(t)
	ctx := t.Context()
	token := acquire(t, store, "job", long).Token
	if last, err := store.LastSlot(ctx, "job"); err != nil || last.Found || last.Now.IsZero() {
		t.Errorf("%+v, %v", last, err)
	}
	now := read[time.Time](t, pool, "SELECT clock_timestamp()").UTC()
	slot := now.Add(-time.Hour).Truncate(time.Millisecond)
	try := func(id string, slot time.Time, attempts int) (fencepost.Run, error) {
		return store.StartRun(ctx, fencepost.RunStart{Token: token, ID: id, Slot: slot, Attempts: attempts, Missed: 3})
	}
	_, err := try("early", now.Add(long), 1)
	if e := wantRunError(t, err, fencepost.RunNotDue); e.In <= long-time.Minute || e.In > long {
		t.Errorf("%+v", e)
	}
	if r, err := try("first", slot, 2); err != nil || !r.Slot.Equal(slot) || r.Missed != 3 || r.Attempt != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	token = acquireNext(t, store, pool, token)
	if r := find(t, store, "first"); r.Status != fencepost.RunAbandoned || r.ReplacedBy != token.Fence {
		t.Fatalf("%+v", r)
	}
	_, err = try("second", slot, 1)
	if e := wantRunError(t, err, fencepost.RunSlotTaken); e.Run != "first" || e.Status != fencepost.RunAbandoned || !e.Slot.Equal(slot) {
		t.Errorf("%+v", e)
	}
	if r, err := try("second", slot, 2); err != nil || r.Attempt != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, _, err := finish(t, store, token, "second"); err != nil {
		t.Fatal(err)
	}
	_, err = try("third", slot, 9)
	if e := wantRunError(t, err, fencepost.RunSlotTaken); e.Run != "second" || !errors.Is(e, fencepost.ErrSlot) {
		t.Errorf("%+v", e)
	}
	skipped, err := store.StartRun(ctx, fencepost.RunStart{Token: token, ID: "skipped", Slot: slot.Add(time.Minute), Skip: true, Reason: "too late"})
	if err != nil || skipped.Status != fencepost.RunSkipped || skipped.FinishedAt.IsZero() || skipped.Error != "too late" {
		t.Errorf("%+v, %v", skipped, err)
	}
	_, err = try("fourth", slot.Add(time.Minute), 9)
	wantRunError(t, err, fencepost.RunSlotTaken)
	if last, err := store.LastSlot(ctx, "job"); err != nil || !last.Found || last.Run.ID != "skipped" || last.Now.Before(now) {
		t.Errorf("%+v, %v", last, err)
	}
}

// acquireNext takes an expired lease over.
func acquireNext(t testing.TB, s *postgres.Store, pool *pgxpool.Pool, token fencepost.Token) fencepost.Token {
	t.Helper()
	expire(t, pool, token.Name)
	return acquire(t, s, token.Name, long).Token
}

// Whoever raises the fence, by whatever program and at whatever level, ends the run of the token before, in the same transaction.
func TestARaisedFenceAbandonsTheRun(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			store := atLevel(t, level)
			token := acquire(t, store, "job", long).Token
			start(t, store, token, "one")
			other := acquire(t, store, "other", long).Token
			start(t, store, other, "unconcerned")
			tx := begin(t, store.Pool(), pgx.TxOptions{})
			run(t, tx, "UPDATE fencepost_leases SET fence_token = 7, owner_token = 'another program' WHERE lease_name = 'job'")
			if r := find(t, store, "one"); r.Status != fencepost.RunRunning || r.Lost {
				t.Errorf("before the takeover is committed: %+v", r)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := find(t, store, "one")
			if r.Status != fencepost.RunAbandoned || r.ReplacedBy != 7 || r.FinishedAt.Before(r.StartedAt) || r.UpdatedAt != r.FinishedAt || r.Lost {
				t.Errorf("after it: %+v", r)
			}
			_, already, err := finish(t, store, token, "one")
			wantStale(t, err, fencepost.ReasonSuperseded)
			if already {
				t.Error("called finished")
			}
			wantStale(t, store.ReportRun(t.Context(), fencepost.RunReport{Token: token, ID: "one"}), fencepost.ReasonSuperseded)
			if r := find(t, store, "unconcerned"); r.Status != fencepost.RunRunning {
				t.Errorf("another lease's run: %+v", r)
			}
			if n := read[int](t, store.Pool(), "SELECT count(*)::int FROM fencepost_runs"); n != 2 {
				t.Errorf("%d runs on the books", n)
			}
			if n := read[int](t, store.Pool(), "SELECT count(*)::int FROM fencepost_events WHERE kind = 'stale_refused'"); n != 2 {
				t.Errorf("%d refusals recorded, want 2", n)
			}
		})
	}
}

// Without triggers the next start does it, and until then the run is seen to be lost.
func TestALostRunIsSeenWithoutTriggers(t *testing.T) {
	store, pool := openStore(t)
	token := acquire(t, store, "job", long).Token
	start(t, store, token, "one")
	run(t, pool, "ALTER TABLE fencepost_leases DISABLE TRIGGER USER")
	next := acquireNext(t, store, pool, token)
	if r := find(t, store, "one"); r.Status != fencepost.RunRunning || !r.Lost {
		t.Errorf("%+v", r)
	}
	runs, err := store.ListRuns(t.Context(), fencepost.RunQuery{Lease: "job"})
	if err != nil || len(runs) != 1 || !runs[0].Lost {
		t.Errorf("%+v, %v", runs, err)
	}
	if r := start(t, store, next, "two"); r.Attempt != 2 {
		t.Errorf("%+v", r)
	}
	if r := find(t, store, "one"); r.Status != fencepost.RunAbandoned || r.ReplacedBy != next.Fence || r.Lost {
		t.Errorf("%+v", r)
	}
	expire(t, pool, "job")
	if r := find(t, store, "two"); !r.Lost {
		t.Errorf("an expired token's run: %+v", r)
	}
}
