package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

// RunBooks is a store that keeps the books of runs as well.
type RunBooks interface {
	fencepost.Store
	fencepost.RunStore
}

// Runs tests the books of a store. Open returns a store on an empty database and closes it by t.Cleanup; every subtest calls it once.
func Runs(t *testing.T, open func(t *testing.T) RunBooks) {
	for _, group := range []struct {
		name  string
		tests []runTest
	}{{"Start", startTests}, {"End", endTests}, {"Letters", letterTests}, {"Prune", pruneTests}} {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					store := open(t)
					test.run(&books{fixture: &fixture{T: t, Store: store}, RunStore: store})
				})
			}
		})
	}
}

type runTest struct {
	name string
	run  func(*books)
}

// books is one subtest's store with the steps that tests of runs share.
type books struct {
	*fixture
	fencepost.RunStore
	ids int
}

func (b *books) start(t fencepost.Token) fencepost.Run {
	b.Helper()
	b.ids++
	r, err := b.StartRun(b.ctx(), fencepost.RunStart{Token: t, ID: fmt.Sprintf("run-%d", b.ids), Holder: "holder"})
	if err != nil {
		b.Fatalf("starting a run of %v: %v", t, err)
	}
	return r
}

func (b *books) find(id string) fencepost.Run {
	b.Helper()
	r, found, err := b.FindRun(b.ctx(), id)
	if err != nil || !found {
		b.Fatalf("FindRun(%q) = found %v, %v", id, found, err)
	}
	return r
}

func (b *books) finish(r fencepost.Run, status fencepost.RunStatus, result string) (fencepost.Run, bool, error) {
	return b.FinishRun(b.ctx(), fencepost.RunFinish{Token: r.Token(), ID: r.ID, Status: status, Result: []byte(result)})
}

func (b *books) finished(r fencepost.Run, status fencepost.RunStatus) fencepost.Run {
	b.Helper()
	out, already, err := b.finish(r, status, `{"ok":true}`)
	if err != nil || already || out.Status != status || out.FinishedAt.IsZero() {
		b.Fatalf("finishing %q as %s = %+v, already %v, %v", r.ID, status, out, already, err)
	}
	return out
}

// takeOver lets the lease be granted anew.
func (b *books) takeOver(t fencepost.Token) fencepost.Grant {
	b.Helper()
	b.release(t)
	return b.acquire(t.Name, long)
}

func (b *books) wantRunError(err error, reason fencepost.RunReason) *fencepost.RunError {
	b.Helper()
	e, ok := errors.AsType[*fencepost.RunError](err)
	if !ok || e.Reason != reason {
		b.Errorf("got %v; want a *RunError (%s)", err, reason)
		return &fencepost.RunError{}
	}
	return e
}

// same compares two readings of one run.
func (b *books) same(what string, got, want fencepost.Run) {
	b.Helper()
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		b.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// slot is a time of the past, by the database's clock too.
func slot(n int) time.Time {
	return time.Date(2024, 2, 29, 12, 0, 0, 123_000_000, time.UTC).Add(time.Duration(n) * time.Minute)
}

var startTests = []runTest{
	{"IsOnTheBooks", func(b *books) {
		g := b.acquire("job", long)
		r := b.start(g.Token)
		if r.Status != fencepost.RunRunning || !r.By(g.Token) || r.Attempt != 1 || r.Holder != "holder" || !r.Slot.IsZero() || !r.FinishedAt.IsZero() || r.Lost {
			b.Errorf("started %+v", r)
		}
		b.wantUTC("StartedAt", r.StartedAt)
		b.same("the run as it is read", b.find(r.ID), r)
		if _, found, err := b.FindRun(b.ctx(), "unknown"); found || err != nil {
			b.Errorf("an unknown run: found %v, %v", found, err)
		}
	}},
	{"ASecondTryFindsTheFirst", func(b *books) {
		g := b.acquire("job", long)
		first := b.start(g.Token)
		again, err := b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: first.ID, Holder: "holder"})
		if err != nil {
			b.Fatal(err)
		}
		b.same("the second try", again, first)
		other := b.acquire("other", long)
		_, err = b.StartRun(b.ctx(), fencepost.RunStart{Token: other.Token, ID: first.ID})
		b.wantRunError(err, fencepost.RunNotYours)
	}},
	{"OneOpenRunPerToken", func(b *books) {
		g := b.acquire("job", long)
		first := b.start(g.Token)
		_, err := b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: "second"})
		if e := b.wantRunError(err, fencepost.RunOpen); e.Run != first.ID {
			b.Errorf("in the way is %q", e.Run)
		}
		b.finished(first, fencepost.RunSucceeded)
		b.start(g.Token)
	}},
	{"AStaleTokenStartsNothing", func(b *books) {
		old := b.acquireExpired("job").Token
		_, err := b.StartRun(b.ctx(), fencepost.RunStart{Token: old, ID: "expired"})
		b.wantStale(err, old, fencepost.ReasonExpired, 1)
		b.acquire("job", long)
		_, err = b.StartRun(b.ctx(), fencepost.RunStart{Token: old, ID: "superseded"})
		b.wantStale(err, old, fencepost.ReasonSuperseded, 2)
		if runs, err := b.ListRuns(b.ctx(), fencepost.RunQuery{}); err != nil || len(runs) != 0 {
			b.Errorf("on the books are %+v, %v", runs, err)
		}
		refused := 0
		for _, e := range b.events(fencepost.EventQuery{Lease: "job"}) {
			if e.Kind == fencepost.EventStaleRefused {
				refused++
			}
		}
		if refused != 2 {
			b.Errorf("%d refusals were recorded", refused)
		}
	}},
	{"ATakeoverAbandonsTheOpenRun", func(b *books) {
		first := b.acquire("job", long)
		run := b.start(first.Token)
		successor := b.takeOver(first.Token)
		left := b.find(run.ID)
		if left.Status != fencepost.RunAbandoned || left.ReplacedBy != successor.Token.Fence || left.FinishedAt.IsZero() || left.Lost {
			b.Errorf("after the takeover: %+v", left)
		}
		again := b.start(successor.Token)
		if again.Attempt != 2 {
			b.Errorf("the successor's run is attempt %d", again.Attempt)
		}
		_, err := b.Preempt(b.ctx(), b.preemption("job", successor.Token.Fence, long))
		if err != nil {
			b.Fatal(err)
		}
		if left := b.find(again.ID); left.Status != fencepost.RunAbandoned || left.ReplacedBy != 3 {
			b.Errorf("after the preemption: %+v", left)
		}
	}},
	{"NoAttemptIsMissing", func(b *books) {
		g := b.acquire("job", long)
		for range 5 {
			b.start(g.Token)
			g = b.takeOver(g.Token)
		}
		last := b.start(g.Token)
		runs, err := b.ListRuns(b.ctx(), fencepost.RunQuery{Lease: "job"})
		if err != nil || len(runs) != 6 || last.Attempt != 6 {
			b.Fatalf("%d runs, attempt %d, %v", len(runs), last.Attempt, err)
		}
		for i, r := range runs { // the newest first
			if want := 6 - i; r.Attempt != want || i > 0 && (r.Status != fencepost.RunAbandoned || r.ReplacedBy != int64(want+1)) {
				b.Errorf("run %d: %+v", i, r)
			}
		}
		b.finished(last, fencepost.RunSucceeded)
		if fresh := b.start(g.Token); fresh.Attempt != 1 {
			b.Errorf("after a success the attempt is %d", fresh.Attempt)
		}
	}},
	{"ALostRunSaysSo", func(b *books) {
		g := b.acquire("job", 2*time.Second)
		r := b.start(g.Token)
		b.awaitExpiry("job")
		if left := b.find(r.ID); !left.Lost || left.Status != fencepost.RunRunning {
			b.Errorf("after the lease ran out: %+v", left)
		}
	}},
	{"ASlotIsRunOnce", func(b *books) {
		g := b.acquire("job", long)
		ask := fencepost.RunStart{Token: g.Token, ID: "a", Slot: slot(0), Missed: 3}
		r, err := b.StartRun(b.ctx(), ask)
		if err != nil || !r.Slot.Equal(slot(0)) || r.Slot.Location() != time.UTC || r.Missed != 3 {
			b.Fatalf("%+v, %v", r, err)
		}
		b.finished(r, fencepost.RunFailed)
		ask.ID, ask.Attempts = "b", 5
		_, err = b.StartRun(b.ctx(), ask)
		if e := b.wantRunError(err, fencepost.RunSlotTaken); e.Run != "a" || !errors.Is(err, fencepost.ErrSlot) {
			b.Errorf("in the way is %+v", e)
		}
		last, err := b.LastSlot(b.ctx(), "job")
		if err != nil || !last.Found || last.Run.ID != "a" || !last.Run.Slot.Equal(slot(0)) {
			b.Errorf("the last slot is %+v, %v", last, err)
		}
	}},
	{"AnAbandonedSlotIsTriedAgainWithinItsAttempts", func(b *books) {
		g := b.acquire("job", long)
		for n := 1; n <= 2; n++ {
			r, err := b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: fmt.Sprint("try-", n), Slot: slot(0), Attempts: 2})
			if err != nil || r.Attempt != n {
				b.Fatalf("try %d: %+v, %v", n, r, err)
			}
			g = b.takeOver(g.Token)
		}
		_, err := b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: "try-3", Slot: slot(0), Attempts: 2})
		b.wantRunError(err, fencepost.RunSlotTaken)
		if last, err := b.LastSlot(b.ctx(), "job"); err != nil || last.Run.ID != "try-2" {
			b.Errorf("the last slot is %+v, %v", last, err)
		}
	}},
	{"TheDatabasesClockSaysWhatIsDue", func(b *books) {
		g := b.acquire("job", long)
		last, err := b.LastSlot(b.ctx(), "job")
		if err != nil || last.Found {
			b.Fatalf("%+v, %v", last, err)
		}
		b.wantUTC("Now", last.Now)
		_, err = b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: "a", Slot: last.Now.Add(time.Hour).Truncate(time.Millisecond)})
		if e := b.wantRunError(err, fencepost.RunNotDue); e.In <= 0 || e.In > time.Hour {
			b.Errorf("due in %v", e.In)
		}
	}},
	{"ASkippedSlotIsTaken", func(b *books) {
		g := b.acquire("job", long)
		r, err := b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: "a", Slot: slot(0), Skip: true, Reason: "late", Missed: 7})
		if err != nil || r.Status != fencepost.RunSkipped || r.Error != "late" || r.Missed != 7 || r.FinishedAt.IsZero() {
			b.Fatalf("%+v, %v", r, err)
		}
		_, err = b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: "b", Slot: slot(0)})
		b.wantRunError(err, fencepost.RunSlotTaken)
		b.start(g.Token) // it left no run open
	}},
	{"OneOfManyStartsASlot", func(b *books) {
		g := b.acquire("job", long)
		var group sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			group.Go(func() {
				_, errs[i] = b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: fmt.Sprint("try-", i), Slot: slot(0)})
			})
		}
		group.Wait()
		started := 0
		for _, err := range errs {
			if err == nil {
				started++
			} else if !errors.Is(err, fencepost.ErrSlot) && !errors.Is(err, fencepost.ErrInvalid) {
				b.Errorf("refused by %v", err)
			}
		}
		if runs, err := b.ListRuns(b.ctx(), fencepost.RunQuery{}); started != 1 || err != nil || len(runs) != 1 {
			b.Errorf("%d say that they started it; %d runs, %v", started, len(runs), err)
		}
	}},
	{"AreListed", func(b *books) {
		g := b.acquire("job", long)
		for i := range 5 {
			r := b.start(g.Token)
			b.finished(r, []fencepost.RunStatus{fencepost.RunSucceeded, fencepost.RunFailed}[i%2])
		}
		b.finished(b.start(b.acquire("other", long).Token), fencepost.RunSucceeded)
		ids := func(q fencepost.RunQuery) string {
			runs, err := b.ListRuns(b.ctx(), q)
			if err != nil {
				b.Fatal(err)
			}
			var list []string
			for _, r := range runs {
				list = append(list, r.ID)
				if (r.Result != nil) != q.Payloads {
					b.Errorf("payloads %v: %q", q.Payloads, r.Result)
				}
			}
			return strings.Join(list, " ")
		}
		for _, c := range []struct {
			q    fencepost.RunQuery
			want string
		}{
			{fencepost.RunQuery{Payloads: true}, "run-6 run-5 run-4 run-3 run-2 run-1"},
			{fencepost.RunQuery{Lease: "job", Limit: 2}, "run-5 run-4"},
			{fencepost.RunQuery{Lease: "job", Before: b.find("run-4").Seq, Limit: 2}, "run-3 run-2"},
			{fencepost.RunQuery{Status: []fencepost.RunStatus{fencepost.RunFailed}}, "run-4 run-2"},
			{fencepost.RunQuery{Lease: "unknown"}, ""},
		} {
			if got := ids(c.q); got != c.want {
				b.Errorf("%+v: %s, want %s", c.q, got, c.want)
			}
		}
	}},
}

var endTests = []runTest{
	{"ProgressIsKeptByteForByte", func(b *books) {
		r := b.start(b.acquire("job", long).Token)
		for _, progress := range []string{`{"b":1, "a":2}`, `"naïve 🐘 \u0000 \\ '' \""`, `"` + strings.Repeat("x", 1<<20) + `"`} {
			if err := b.ReportRun(b.ctx(), fencepost.RunReport{Token: r.Token(), ID: r.ID, Progress: []byte(progress)}); err != nil {
				b.Fatal(err)
			}
			if got := b.find(r.ID).Progress; !bytes.Equal(got, []byte(progress)) {
				b.Errorf("kept %.80q of %.80q", got, progress)
			}
		}
	}},
	{"AStaleTokenReportsNothing", func(b *books) {
		g := b.acquire("job", long)
		r := b.start(g.Token)
		b.takeOver(g.Token)
		before := b.find(r.ID)
		err := b.ReportRun(b.ctx(), fencepost.RunReport{Token: r.Token(), ID: r.ID, Progress: []byte("1")})
		b.wantStale(err, g.Token, fencepost.ReasonSuperseded, 2)
		b.same("the refused run", b.find(r.ID), before)
	}},
	{"ReportsToOtherRunsAreRefused", func(b *books) {
		g := b.acquire("job", long)
		report := func(t fencepost.Token, id string) error {
			return b.ReportRun(b.ctx(), fencepost.RunReport{Token: t, ID: id, Progress: []byte("1")})
		}
		b.wantRunError(report(g.Token, "unknown"), fencepost.RunUnknown)
		r := b.start(g.Token)
		b.wantRunError(report(b.acquire("other", long).Token, r.ID), fencepost.RunNotYours)
		b.finished(r, fencepost.RunSucceeded)
		b.wantRunError(report(g.Token, r.ID), fencepost.RunFinished)
	}},
	{"EveryStatus", func(b *books) {
		g := b.acquire("job", long)
		for _, status := range []fencepost.RunStatus{fencepost.RunSucceeded, fencepost.RunFailed, fencepost.RunPartial, fencepost.RunAbandoned, fencepost.RunStalled} {
			out := b.finished(b.start(g.Token), status)
			b.same(string(status), b.find(out.ID), out)
		}
		for _, status := range []fencepost.RunStatus{fencepost.RunRunning, fencepost.RunSkipped, "done"} {
			if _, _, err := b.finish(b.start(b.acquire(string(status), long).Token), status, ""); !errors.Is(err, fencepost.ErrInvalid) {
				b.Errorf("finished as %q: %v", status, err)
			}
		}
	}},
	{"FinishedOnce", func(b *books) {
		g := b.acquire("job", long)
		out := b.finished(b.start(g.Token), fencepost.RunSucceeded)
		check := func(when string) {
			again, already, err := b.finish(out, fencepost.RunSucceeded, `{"ok":true}`)
			if err != nil || !already {
				b.Fatalf("%s: already %v, %v", when, already, err)
			}
			b.same(when, again, out)
		}
		check("at once")
		for _, c := range []struct {
			status fencepost.RunStatus
			result string
		}{{fencepost.RunFailed, `{"ok":true}`}, {fencepost.RunSucceeded, `{"ok":false}`}, {fencepost.RunSucceeded, ""}} {
			_, _, err := b.finish(out, c.status, c.result)
			if e := b.wantRunError(err, fencepost.RunFinished); e.Status != fencepost.RunSucceeded {
				b.Errorf("ended before as %q", e.Status)
			}
		}
		b.takeOver(g.Token)
		check("after the lease was lost")
		_, _, err := b.finish(out, fencepost.RunFailed, "")
		b.wantStale(err, g.Token, fencepost.ReasonSuperseded, 2)
		b.same("in the end", b.find(out.ID), out)
	}},
	{"AStaleCompletionIsRefused", func(b *books) {
		g := b.acquire("job", long)
		r := b.start(g.Token)
		b.takeOver(g.Token)
		before := b.find(r.ID)
		_, _, err := b.finish(r, fencepost.RunSucceeded, `{"old":true}`)
		b.wantStale(err, g.Token, fencepost.ReasonSuperseded, 2)
		b.same("the refused run", b.find(r.ID), before)
	}},
	{"AnExpiredLeaseFinishesNothing", func(b *books) {
		g := b.acquire("job", 2*time.Second)
		r := b.start(g.Token)
		b.awaitExpiry("job")
		_, _, err := b.finish(r, fencepost.RunSucceeded, `{"old":true}`)
		b.wantStale(err, g.Token, fencepost.ReasonExpired, 1)
		if left := b.find(r.ID); left.Status != fencepost.RunRunning || left.Result != nil {
			b.Errorf("the refused run: %+v", left)
		}
	}},
	{"OnlyByItsToken", func(b *books) {
		r := b.start(b.acquire("job", long).Token)
		other := r
		other.Lease, other.Owner, other.Fence = "other", b.acquire("other", long).Token.Owner, 1
		_, _, err := b.finish(other, fencepost.RunSucceeded, "")
		b.wantRunError(err, fencepost.RunNotYours)
		r.ID = "unknown"
		_, _, err = b.finish(r, fencepost.RunSucceeded, "")
		b.wantRunError(err, fencepost.RunUnknown)
	}},
}

var letterTests = []runTest{
	{"TheSameCompletionIsKeptOnce", func(b *books) {
		d := letter("run-1", `{"n": 1}`)
		first, err := b.KeepLetter(b.ctx(), d)
		if err != nil {
			b.Fatal(err)
		}
		if again, err := b.KeepLetter(b.ctx(), d); err != nil || again != first {
			b.Errorf("kept as %d and %d, %v", first, again, err)
		}
		if other, err := b.KeepLetter(b.ctx(), letter("run-1", `{"n": 2}`)); err != nil || other == first {
			b.Errorf("another result is kept as %d, %v", other, err)
		}
		got, found, err := b.FindLetter(b.ctx(), first)
		if err != nil || !found {
			b.Fatal(found, err)
		}
		b.wantUTC("At", got.At)
		d.ID, d.At = first, got.At
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", d) {
			b.Errorf("kept\n     %+v\nwant %+v", got, d)
		}
		if _, found, err := b.FindLetter(b.ctx(), 1<<40); found || err != nil {
			b.Error(found, err)
		}
	}},
	{"AreAdoptedByThePresentHolder", func(b *books) {
		g := b.acquire("job", long)
		r, err := b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: "old", Slot: slot(0)})
		if err != nil {
			b.Fatal(err)
		}
		successor := b.takeOver(g.Token)
		d := letter(r.ID, `{"n": 1}`)
		d.Slot = slot(0)
		id, err := b.KeepLetter(b.ctx(), d)
		if err != nil {
			b.Fatal(err)
		}
		adopt := func(t fencepost.Token, run string) (fencepost.Run, error) {
			return b.AdoptLetter(b.ctx(), fencepost.Adoption{Token: t, Letter: id, RunID: run, Holder: "h", Actor: "ann"})
		}
		_, err = adopt(g.Token, "new")
		b.wantStale(err, g.Token, fencepost.ReasonSuperseded, 2)
		_, err = adopt(b.acquire("other", long).Token, "new")
		b.wantRunError(err, fencepost.DeadUnknown)
		out, err := adopt(successor.Token, "new")
		if err != nil || out.Status != fencepost.RunSucceeded || string(out.Result) != `{"n": 1}` || out.AdoptedFrom != id || out.Actor != "ann" ||
			out.Fence != 2 || out.Attempt != 2 || !out.Slot.Equal(slot(0)) || out.FinishedAt.IsZero() {
			b.Fatalf("adopted %+v, %v", out, err)
		}
		b.same("the adopted run", b.find("new"), out)
		again, err := adopt(successor.Token, "new")
		if err != nil {
			b.Fatal(err)
		}
		b.same("the second try", again, out)
		_, err = adopt(successor.Token, "newer")
		if e := b.wantRunError(err, fencepost.DeadAdopted); e.Run != "new" {
			b.Errorf("adopted before as %q", e.Run)
		}
		kept, _, err := b.FindLetter(b.ctx(), id)
		if err != nil || kept.AdoptedBy != "ann" || kept.AdoptedAs != "new" || kept.AdoptedAt.IsZero() {
			b.Errorf("the letter: %+v, %v", kept, err)
		}
		var actors []string
		for _, e := range b.events(fencepost.EventQuery{Lease: "job"}) {
			if e.Kind == fencepost.EventAdopted {
				actors = append(actors, e.Actor)
			}
		}
		if len(actors) != 1 || actors[0] != "ann" {
			b.Errorf("events of adoptions by %q", actors)
		}
		b.wantLetters(fencepost.LetterQuery{Lease: "job"}, 0)
		b.wantLetters(fencepost.LetterQuery{Lease: "job", Adopted: true}, 1)
	}},
	{"AreDroppedByAnActor", func(b *books) {
		b.acquire("job", long)
		id, err := b.KeepLetter(b.ctx(), letter("run-1", "1"))
		if err != nil {
			b.Fatal(err)
		}
		if err := b.DropLetter(b.ctx(), id, "ann"); err != nil {
			b.Fatal(err)
		}
		b.wantRunError(b.DropLetter(b.ctx(), id, "ann"), fencepost.DeadUnknown)
		b.wantLetters(fencepost.LetterQuery{}, 0)
		last := b.events(fencepost.EventQuery{Lease: "job", Last: true, Limit: 1})
		if len(last) != 1 || last[0].Kind != fencepost.EventDropped || last[0].Actor != "ann" {
			b.Errorf("the last event is %+v", last)
		}
	}},
}

// letter is a completion that was refused to fence 1 of "job".
func letter(run, result string) fencepost.DeadLetter {
	return fencepost.DeadLetter{RunID: run, Lease: "job", Fence: 1, Current: 2, Reason: fencepost.ReasonSuperseded, Holder: "h",
		Status: fencepost.RunSucceeded, Result: []byte(result)}
}

func (b *books) wantLetters(q fencepost.LetterQuery, n int) {
	b.Helper()
	if found, err := b.ListLetters(b.ctx(), q); err != nil || len(found) != n {
		b.Errorf("%+v: %d letters, %v; want %d", q, len(found), err, n)
	}
}

var pruneTests = []runTest{
	{"KeepsTheNewest", func(b *books) {
		g := b.acquire("job", long)
		slotted, err := b.StartRun(b.ctx(), fencepost.RunStart{Token: g.Token, ID: "slotted", Slot: slot(0), Skip: true})
		if err != nil {
			b.Fatal(err)
		}
		for range 6 {
			b.finished(b.start(g.Token), fencepost.RunSucceeded)
		}
		open := b.start(g.Token)
		keeper := b.acquire("keeper", long).Token
		prune := func(p fencepost.PruneRequest) int64 {
			p.Token, p.Lease = keeper, "job"
			n, err := b.RunStore.Prune(b.ctx(), p)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
		if n := prune(fencepost.PruneRequest{OlderThan: time.Hour, Limit: 100}); n != 0 {
			b.Errorf("%d young runs were deleted", n)
		}
		if n := prune(fencepost.PruneRequest{Keep: 4, Limit: 2}); n != 2 {
			b.Errorf("the limit of 2 let %d be deleted", n)
		}
		if n := prune(fencepost.PruneRequest{Keep: 4, Limit: 100}); n != 1 {
			b.Errorf("%d more", n)
		}
		if n := prune(fencepost.PruneRequest{Keep: 1, Limit: 100}); n != 3 {
			b.Errorf("%d more with one to keep", n)
		}
		b.find(slotted.ID)
		if b.find(open.ID).Status != fencepost.RunRunning {
			b.Error("the open run changed")
		}
		before := len(b.events(fencepost.EventQuery{Lease: "job"}))
		b.takeOver(g.Token)
		if n := prune(fencepost.PruneRequest{Events: true, Keep: 1, Limit: 100}); n != int64(before)+1 {
			b.Errorf("%d events were deleted, of %d and two more", n, before)
		}
	}},
	{"AStaleTokenDeletesNothing", func(b *books) {
		g := b.acquire("job", long)
		b.finished(b.start(g.Token), fencepost.RunSucceeded)
		b.finished(b.start(g.Token), fencepost.RunSucceeded)
		old := b.acquireExpired("keeper").Token
		_, err := b.RunStore.Prune(b.ctx(), fencepost.PruneRequest{Token: old, Lease: "job", Keep: 1, Limit: 10})
		b.wantStale(err, old, fencepost.ReasonExpired, 1)
		b.find("run-1")
	}},
}
