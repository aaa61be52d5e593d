package storetest

import (
	"time"

	"github.com/fencepost/fencepost"
)

// told is what of an event does not depend on the moment.
func told(e fencepost.Event) fencepost.Event {
	e.ID, e.At = 0, time.Time{}
	return e
}

var eventTests = []test{
	{"TellTheWholeStory", func(f *fixture) {
		other := f.acquire("other", long)
		var want []fencepost.Event
		expect := func(kind fencepost.EventKind, fence int64, holder, actor, reason string) {
			want = append(want, fencepost.Event{Lease: "job", Kind: kind, Fence: fence, Holder: holder, Actor: actor, Reason: reason})
		}
		holder := func(g fencepost.Grant) string { return "holder of " + g.Token.Owner }

		g := f.acquire("job", long)
		expect(fencepost.EventAcquired, 1, holder(g), "", "")
		f.renewOne(g.Token)
		f.release(g.Token)
		expect(fencepost.EventReleased, 1, holder(g), "", "")
		g = f.acquireExpired("job")
		expect(fencepost.EventAcquired, 2, holder(g), "", "")
		g = f.acquire("job", long)
		expect(fencepost.EventTakenOver, 3, holder(g), "", "")
		if _, err := f.Preempt(f.ctx(), f.preemption("job", 3, long)); err != nil {
			f.Fatal(err)
		}
		expect(fencepost.EventPreempted, 4, "new holder", "operator", "it hangs")
		r := f.preemption("job", 4, 0)
		r.Actor, r.Reason = "another operator", "enough"
		if _, err := f.Preempt(f.ctx(), r); err != nil {
			f.Fatal(err)
		}
		expect(fencepost.EventPreempted, 5, "new holder", "another operator", "enough")
		g = f.acquire("job", long)
		expect(fencepost.EventAcquired, 6, holder(g), "", "") // neither actor nor reason stays from the preemption
		for _, kind := range []fencepost.EventKind{fencepost.EventLost, fencepost.EventStaleRefused} {
			err := f.Record(f.ctx(), fencepost.Event{Lease: "job", Kind: kind, Fence: 3, Holder: "old holder", Reason: "superseded"})
			if err != nil {
				f.Fatalf("Record(%s): %v", kind, err)
			}
			expect(kind, 3, "old holder", "", "superseded")
		}
		f.release(g.Token)
		expect(fencepost.EventReleased, 6, holder(g), "", "")
		f.release(other.Token)

		got := f.events(fencepost.EventQuery{Lease: "job"})
		for i := range max(len(got), len(want)) {
			switch {
			case i >= len(got):
				f.Errorf("event %d is missing: %+v", i, want[i])
			case i >= len(want):
				f.Errorf("event %d is too much: %+v", i, got[i])
			case told(got[i]) != want[i]:
				f.Errorf("event %d: %+v\n    want %+v", i, told(got[i]), want[i])
			}
		}
		for i, e := range got {
			f.wantUTC("At", e.At)
			if i > 0 && (e.ID <= got[i-1].ID || e.At.Before(got[i-1].At)) {
				f.Errorf("event %d (id %d, %v) follows id %d, %v", i, e.ID, e.At, got[i-1].ID, got[i-1].At)
			}
		}
		if all := f.events(fencepost.EventQuery{}); len(all) != len(want)+2 {
			f.Errorf("%d events of all leases, want %d", len(all), len(want)+2)
		}
	}},

	{"TheDatabaseSetsTimeAndID", func(f *fixture) {
		f.acquire("job", long)
		row := f.inspect("job")
		err := f.Record(f.ctx(), fencepost.Event{ID: 999_999, Lease: "job", Kind: fencepost.EventLost, Fence: 1, At: time.Unix(0, 0)})
		if err != nil {
			f.Fatal(err)
		}
		events := f.events(fencepost.EventQuery{Lease: "job"})
		if len(events) != 2 {
			f.Fatalf("%d events", len(events))
		}
		for _, e := range events {
			// The row has the same clock, and nothing here takes a minute.
			if d := e.At.Sub(row.AcquiredAt).Abs(); d > time.Minute {
				f.Errorf("event %s is of %v, the lease was acquired at %v", e.Kind, e.At, row.AcquiredAt)
			}
			if e.ID >= 999_999 {
				f.Errorf("event %s has the client's id %d", e.Kind, e.ID)
			}
		}
	}},

	{"OfALeaseThatNeverWas", func(f *fixture) {
		// A token from elsewhere was refused: the lease it names may not exist here.
		event := fencepost.Event{Lease: "elsewhere", Kind: fencepost.EventStaleRefused, Fence: 7, Reason: "unknown_name"}
		if err := f.Record(f.ctx(), event); err != nil {
			f.Fatal(err)
		}
		if events := f.events(fencepost.EventQuery{Lease: "elsewhere"}); len(events) != 1 || told(events[0]) != event {
			f.Errorf("%+v", events)
		}
		if _, found, err := f.Inspect(f.ctx(), "elsewhere"); found || err != nil {
			f.Errorf("the event made a lease: %v, %v", found, err)
		}
	}},

	{"AreReadInPages", func(f *fixture) {
		for range 5 {
			f.release(f.acquire("job", long).Token)
			f.release(f.acquire("other", long).Token)
		}
		all := f.events(fencepost.EventQuery{})
		mine := f.events(fencepost.EventQuery{Lease: "job"})
		if len(all) != 20 || len(mine) != 10 {
			f.Fatalf("%d events, %d of them of one lease", len(all), len(mine))
		}
		for _, q := range []struct {
			fencepost.EventQuery
			want []fencepost.Event
		}{
			{fencepost.EventQuery{Limit: 3}, all[:3]},
			{fencepost.EventQuery{Limit: 3, After: all[2].ID}, all[3:6]},
			{fencepost.EventQuery{Limit: 100, After: all[17].ID}, all[18:]},
			{fencepost.EventQuery{After: all[19].ID}, nil},
			{fencepost.EventQuery{Limit: 3, Last: true}, all[17:]},
			{fencepost.EventQuery{Limit: 100, Last: true}, all},
			{fencepost.EventQuery{Lease: "job", Limit: 3}, mine[:3]},
			{fencepost.EventQuery{Lease: "job", Limit: 3, After: mine[2].ID}, mine[3:6]},
			{fencepost.EventQuery{Lease: "job", Limit: 3, Last: true}, mine[7:]},
			{fencepost.EventQuery{Lease: "unknown"}, nil},
		} {
			got := f.events(q.EventQuery)
			same := len(got) == len(q.want)
			for i := range min(len(got), len(q.want)) {
				same = same && got[i] == q.want[i]
			}
			if !same {
				f.Errorf("Events(%+v) = %+v\nwant %+v", q.EventQuery, got, q.want)
			}
		}
	}},
}
