package storetest

import (
	"time"

	"github.com/fencepost/fencepost"
)

var acquireTests = []test{
	{"ANewName", func(f *fixture) {
		g, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: "me", Holder: "billing-7f9c", TTL: long})
		if err != nil {
			f.Fatal(err)
		}
		if want := (fencepost.Token{Name: "job", Owner: "me", Fence: 1}); g.Token != want {
			f.Errorf("token %v (owner %q), want fence 1 for the owner that asked", g.Token, g.Token.Owner)
		}
		if g.TTL != long || g.TakenOver {
			f.Errorf("grant %+v; want the TTL that was asked for, and nothing taken over", g)
		}
		if g.Remaining <= long-time.Minute || g.Remaining > long {
			f.Errorf("%v remain of a lease of %v that was just granted", g.Remaining, long)
		}
		f.wantUTC("LeasedUntil", g.LeasedUntil)

		i := f.inspect("job")
		if i.Name != "job" || i.Owner != "me" || i.Fence != 1 || i.Holder != "billing-7f9c" || i.TTL != long || i.Wanted {
			f.Errorf("row %+v", i)
		}
		if i.State() != fencepost.StateHeld || !i.LeasedUntil.Equal(g.LeasedUntil) {
			f.Errorf("row is %s until %v; the grant said %v", i.State(), i.LeasedUntil, g.LeasedUntil)
		}
		f.wantUTC("the row's LeasedUntil", i.LeasedUntil)
		f.wantUTC("AcquiredAt", i.AcquiredAt)
		f.wantUTC("RenewedAt", i.RenewedAt)
		if d := i.LeasedUntil.Sub(i.AcquiredAt); d < long-time.Second || d > long+time.Second {
			f.Errorf("acquired at %v until %v: %v apart, for a TTL of %v", i.AcquiredAt, i.LeasedUntil, d, long)
		}
		if err := f.Check(f.ctx(), g.Token); err != nil {
			f.Errorf("Check of a fresh grant: %v", err)
		}
	}},

	{"AnUnknownNameHasNoRow", func(f *fixture) {
		f.acquire("other", long)
		if info, found, err := f.Inspect(f.ctx(), "job"); err != nil || found || info != (fencepost.LeaseInfo{}) {
			f.Errorf("Inspect = %+v, %v, %v", info, found, err)
		}
	}},

	{"RefusedWhileHeld", func(f *fixture) {
		f.acquire("job", long)
		f.unchanged("job", func() {
			for range 100 {
				_, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: f.owner(), Holder: "rival", TTL: short})
				held := f.wantHeld(err, 1)
				if held.Lease != "job" || held.Holder != "holder of owner-1" || held.Busy || held.Wanted {
					f.Fatalf("refusal %+v; want the holder's label, neither busy nor wanted", held)
				}
				if held.Remaining <= long-time.Minute || held.Remaining > long {
					f.Fatalf("%v remain, says the refusal; the holder's lease lasts %v", held.Remaining, long)
				}
			}
		})
	}},

	{"TakenOverAfterExpiry", func(f *fixture) {
		old := f.acquireExpired("job")
		if i := f.inspect("job"); i.Remaining != 0 || i.Owner != old.Token.Owner || i.Fence != 1 {
			f.Errorf("expired row %+v", i)
		}
		g := f.acquire("job", long)
		if g.Token.Fence != 2 || !g.TakenOver {
			f.Errorf("fence %d, taken over %v; want 2, true", g.Token.Fence, g.TakenOver)
		}
		if !g.LeasedUntil.After(old.LeasedUntil) {
			f.Errorf("leased until %v, before that until %v", g.LeasedUntil, old.LeasedUntil)
		}
		f.wantStale(f.Check(f.ctx(), old.Token), old.Token, fencepost.ReasonSuperseded, 2)
		if err := f.Check(f.ctx(), g.Token); err != nil {
			f.Errorf("the successor's token: %v", err)
		}
	}},

	{"NeverTakenOverEarly", func(f *fixture) {
		old := f.acquire("job", 300*time.Millisecond)
		var g fencepost.Grant
		until(f.T, "the lease to be taken over", func() bool {
			var err error
			g, err = f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: "rival", TTL: long})
			if err != nil {
				f.wantHeld(err, 1)
			}
			return err == nil
		})
		// By the database's clock alone: when it granted, the old lease had ended.
		if at := f.inspect("job").AcquiredAt; at.Before(old.LeasedUntil) {
			f.Errorf("taken over at %v, %v before the end of the lease", at, old.LeasedUntil.Sub(at))
		}
		if g.Token.Fence != 2 {
			f.Errorf("fence %d", g.Token.Fence)
		}
	}},

	{"AfterRelease", func(f *fixture) {
		old := f.acquire("job", long)
		f.release(old.Token)
		g := f.acquire("job", long)
		if g.Token.Fence != 2 || g.TakenOver {
			f.Errorf("fence %d, taken over %v; want 2, false", g.Token.Fence, g.TakenOver)
		}
	}},

	{"TheSameOwnerGetsItsGrantAgain", func(f *fixture) {
		first := f.acquire("job", long)
		f.unchanged("job", func() {
			for range 3 {
				again, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: first.Token.Owner, Holder: "other label", TTL: 2 * long})
				if err != nil {
					f.Fatalf("an owner whose reply was lost asks again: %v", err)
				}
				if again.Token != first.Token || again.TTL != long || !again.LeasedUntil.Equal(first.LeasedUntil) {
					f.Errorf("asked again: %+v; want the grant as it stands: %+v", again, first)
				}
				if again.Remaining <= 0 || again.Remaining > first.Remaining {
					f.Errorf("%v remain, the first answer said %v", again.Remaining, first.Remaining)
				}
			}
		})
	}},

	{"AReleasedGrantIsNotGivenAgain", func(f *fixture) {
		first := f.acquire("job", long)
		f.release(first.Token)
		again, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: first.Token.Owner, TTL: long})
		if err != nil || again.Token.Fence != 2 {
			f.Errorf("Acquire = %v, %v; want a grant of its own with fence 2", again.Token, err)
		}
		f.wantStale(f.Check(f.ctx(), first.Token), first.Token, fencepost.ReasonSuperseded, 2)
	}},

	{"AnExpiredGrantIsNotGivenAgain", func(f *fixture) {
		first := f.acquireExpired("job")
		again, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: first.Token.Owner, TTL: long})
		if err != nil || again.Token.Fence != 2 {
			f.Errorf("Acquire = %v, %v; want a grant of its own with fence 2", again.Token, err)
		}
	}},

	{"OwnersAreComparedByteForByte", func(f *fixture) {
		g, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: "Owner", TTL: long})
		if err != nil {
			f.Fatal(err)
		}
		for _, other := range []string{"owner", "OWNER", "Owner ", " Owner", "Öwner"} {
			_, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: other, TTL: long})
			f.wantHeld(err, 1)
			forged := fencepost.Token{Name: "job", Owner: other, Fence: 1}
			f.wantStale(f.Check(f.ctx(), forged), forged, fencepost.ReasonNotGranted, 1)
			renewals, err := f.Renew(f.ctx(), []fencepost.Token{forged})
			if err != nil {
				f.Fatal(err)
			}
			f.wantStale(renewals[0].Err, forged, fencepost.ReasonNotGranted, 1)
			_, err = f.Release(f.ctx(), forged)
			f.wantStale(err, forged, fencepost.ReasonNotGranted, 1)
		}
		if err := f.Check(f.ctx(), g.Token); err != nil {
			f.Error(err)
		}
	}},

	{"FencesGrowByOneOver100Cycles", func(f *fixture) {
		for fence := range int64(100) {
			g := f.acquire("job", long)
			if g.Token.Fence != fence+1 {
				f.Fatalf("cycle %d: fence %d", fence+1, g.Token.Fence)
			}
			f.release(g.Token)
		}
	}},

	{"EachLeaseHasItsOwnTTL", func(f *fixture) {
		for _, ttl := range []time.Duration{time.Millisecond, 1500 * time.Millisecond, time.Minute, 24 * time.Hour} {
			name := ttl.String()
			g := f.acquire(name, ttl)
			if g.TTL != ttl || f.inspect(name).TTL != ttl {
				f.Errorf("TTL %v, row %v; asked for %v", g.TTL, f.inspect(name).TTL, ttl)
			}
			if i := f.inspect(name); i.LeasedUntil.Sub(i.AcquiredAt).Round(time.Second) != ttl.Round(time.Second) {
				f.Errorf("a TTL of %v leases from %v until %v", ttl, i.AcquiredAt, i.LeasedUntil)
			}
		}
	}},
}
