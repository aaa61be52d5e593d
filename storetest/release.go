package storetest

import (
	"github.com/fencepost/fencepost"
)

var releaseTests = []test{
	{"FreesTheLeaseAndKeepsItsFence", func(f *fixture) {
		g := f.acquire("job", long)
		out, err := f.Release(f.ctx(), g.Token)
		if err != nil || !out.Changed || out.Wanted {
			f.Fatalf("Release = %+v, %v", out, err)
		}
		i := f.inspect("job")
		if i.State() != fencepost.StateFree || i.Remaining != 0 || i.Fence != 1 {
			f.Errorf("row after the release: %+v", i)
		}
		f.wantStale(f.Check(f.ctx(), g.Token), g.Token, fencepost.ReasonReleased, 1)
	}},

	{"AfterATakeoverTheOldReleaseIsRefused", func(f *fixture) {
		// A process that overran its lease finishes and removes its successor's: the fault that fences begin with.
		old := f.acquireExpired("job").Token
		successor := f.acquire("job", long)
		f.unchanged("job", func() {
			out, err := f.Release(f.ctx(), old)
			f.wantStale(err, old, fencepost.ReasonSuperseded, 2)
			if out.Changed {
				f.Error("the old release says that it changed something")
			}
		})
		_, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: f.owner(), TTL: long})
		f.wantHeld(err, 2)
		if err := f.Check(f.ctx(), successor.Token); err != nil {
			f.Error(err)
		}
	}},

	{"Twice", func(f *fixture) {
		g := f.acquire("job", long)
		f.release(g.Token)
		f.unchanged("job", func() {
			if out, err := f.Release(f.ctx(), g.Token); err != nil || out.Changed {
				f.Errorf("the second Release = %+v, %v; want no change and no error", out, err)
			}
		})
	}},

	{"AnExpiredLeaseIsNoLongerTheOwnersToFree", func(f *fixture) {
		g := f.acquireExpired("job")
		f.unchanged("job", func() {
			_, err := f.Release(f.ctx(), g.Token)
			f.wantStale(err, g.Token, fencepost.ReasonExpired, 1)
		})
	}},

	{"OnlyByTheExactToken", func(f *fixture) {
		g := f.acquire("job", long)
		for _, c := range []struct {
			token   fencepost.Token
			reason  fencepost.Reason
			current int64
		}{
			{fencepost.Token{Name: "job", Owner: "somebody", Fence: 1}, fencepost.ReasonNotGranted, 1},
			{fencepost.Token{Name: "job", Owner: g.Token.Owner, Fence: 2}, fencepost.ReasonNotGranted, 1},
			{fencepost.Token{Name: "other", Owner: g.Token.Owner, Fence: 1}, fencepost.ReasonUnknownName, 0},
		} {
			f.unchanged("job", func() {
				_, err := f.Release(f.ctx(), c.token)
				f.wantStale(err, c.token, c.reason, c.current)
			})
		}
		f.release(g.Token)
		// Free now: a token that was never granted is still not one that was released.
		forged := fencepost.Token{Name: "job", Owner: "somebody", Fence: 1}
		_, err := f.Release(f.ctx(), forged)
		f.wantStale(err, forged, fencepost.ReasonNotGranted, 1)
	}},

	{"OtherLeasesStay", func(f *fixture) {
		g, other := f.acquire("job", long), f.acquire("other", long)
		f.unchangedRow("other", func() { f.release(g.Token) })
		if err := f.Check(f.ctx(), other.Token); err != nil {
			f.Error(err)
		}
	}},

	{"CheckSaysWhy", func(f *fixture) {
		expired := f.acquireExpired("expired").Token
		f.wantStale(f.Check(f.ctx(), expired), expired, fencepost.ReasonExpired, 1)
		unknown := fencepost.Token{Name: "unknown", Owner: "o", Fence: 3}
		f.wantStale(f.Check(f.ctx(), unknown), unknown, fencepost.ReasonUnknownName, 0)
		live := f.acquire("live", long).Token
		ahead := fencepost.Token{Name: "live", Owner: live.Owner, Fence: 2}
		f.wantStale(f.Check(f.ctx(), ahead), ahead, fencepost.ReasonNotGranted, 1)
		f.unchanged("live", func() {
			if err := f.Check(f.ctx(), live); err != nil {
				f.Error(err)
			}
		})
	}},
}

// unchangedRow is unchanged for a step that may write events of other leases.
func (f *fixture) unchangedRow(name string, do func()) {
	f.Helper()
	before := still(f.inspect(name))
	do()
	if after := still(f.inspect(name)); after != before {
		f.Errorf("the row of %q changed\nfrom %+v\n  to %+v", name, before, after)
	}
}
