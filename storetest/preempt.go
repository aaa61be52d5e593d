package storetest

import (
	"time"

	"github.com/fencepost/fencepost"
)

// preempt is a request with everything in it.
func (f *fixture) preemption(name string, fence int64, ttl time.Duration) fencepost.PreemptRequest {
	return fencepost.PreemptRequest{
		Name: name, Fence: fence, Owner: f.owner(), Holder: "new holder", TTL: ttl, Actor: "operator", Reason: "it hangs",
	}
}

var preemptTests = []test{
	{"TakesALiveLeaseAway", func(f *fixture) {
		old := f.acquire("job", long)
		r := f.preemption("job", 1, 2*long)
		g, err := f.Preempt(f.ctx(), r)
		if err != nil {
			f.Fatal(err)
		}
		if want := (fencepost.Token{Name: "job", Owner: r.Owner, Fence: 2}); g.Token != want || g.TTL != 2*long {
			f.Errorf("grant %+v", g)
		}
		if g.Remaining <= long || g.Remaining > 2*long {
			f.Errorf("%v remain of %v", g.Remaining, 2*long)
		}
		f.wantUTC("LeasedUntil", g.LeasedUntil)
		i := f.inspect("job")
		if i.State() != fencepost.StateHeld || i.Owner != r.Owner || i.Holder != "new holder" || i.Fence != 2 || i.TTL != 2*long || !i.LeasedUntil.Equal(g.LeasedUntil) {
			f.Errorf("row %+v", i)
		}
		f.wantStale(f.Check(f.ctx(), old.Token), old.Token, fencepost.ReasonSuperseded, 2)
		f.wantStale(f.renewOne(old.Token).Err, old.Token, fencepost.ReasonSuperseded, 2)
		_, err = f.Release(f.ctx(), old.Token)
		f.wantStale(err, old.Token, fencepost.ReasonSuperseded, 2)
		f.wantRenewed(f.renewOne(g.Token), "job", g.LeasedUntil)
	}},

	{"LeavesTheLeaseFreeWithoutATTL", func(f *fixture) {
		old := f.acquire("job", long)
		g, err := f.Preempt(f.ctx(), f.preemption("job", 1, 0))
		if err != nil {
			f.Fatal(err)
		}
		if g.Token.Fence != 2 || !g.LeasedUntil.IsZero() || g.Remaining != 0 {
			f.Errorf("grant %+v; want fence 2 and a free lease", g)
		}
		if i := f.inspect("job"); i.State() != fencepost.StateFree || i.Fence != 2 {
			f.Errorf("row %+v", i)
		}
		f.wantStale(f.Check(f.ctx(), old.Token), old.Token, fencepost.ReasonSuperseded, 2)
		next := f.acquire("job", long)
		if next.Token.Fence != 3 || next.TakenOver {
			f.Errorf("the next grant: fence %d, taken over %v", next.Token.Fence, next.TakenOver)
		}
	}},

	{"AWrongFenceIsRefused", func(f *fixture) {
		f.acquireExpired("job")
		f.acquire("job", long) // fence 2
		for fence, reason := range map[int64]fencepost.Reason{1: fencepost.ReasonSuperseded, 3: fencepost.ReasonNotGranted} {
			f.unchanged("job", func() {
				_, err := f.Preempt(f.ctx(), f.preemption("job", fence, long))
				f.wantStale(err, fencepost.Token{Name: "job", Fence: fence}, reason, 2)
			})
		}
	}},

	{"AnUnknownNameIsRefused", func(f *fixture) {
		f.unchanged("job", func() {
			_, err := f.Preempt(f.ctx(), f.preemption("job", 1, long))
			f.wantStale(err, fencepost.Token{Name: "job", Fence: 1}, fencepost.ReasonUnknownName, 0)
		})
	}},

	{"AFreeOrExpiredLeaseToo", func(f *fixture) {
		f.release(f.acquire("free", long).Token)
		f.acquireExpired("expired")
		for _, name := range []string{"free", "expired"} {
			g, err := f.Preempt(f.ctx(), f.preemption(name, 1, long))
			if err != nil || g.Token.Fence != 2 {
				f.Errorf("Preempt(%s) = %v, %v", name, g.Token, err)
				continue
			}
			if err := f.Check(f.ctx(), g.Token); err != nil {
				f.Error(err)
			}
		}
	}},

	{"OneOfTwoWithTheSameFence", func(f *fixture) {
		f.acquire("job", long)
		if _, err := f.Preempt(f.ctx(), f.preemption("job", 1, long)); err != nil {
			f.Fatal(err)
		}
		f.unchanged("job", func() {
			_, err := f.Preempt(f.ctx(), f.preemption("job", 1, long))
			f.wantStale(err, fencepost.Token{Name: "job", Fence: 1}, fencepost.ReasonSuperseded, 2)
		})
	}},
}
