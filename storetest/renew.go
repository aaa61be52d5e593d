package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost"
)

// renewOne renews a single token.
func (f *fixture) renewOne(t fencepost.Token) fencepost.Renewal {
	f.Helper()
	return f.renew(t)[0]
}

func (f *fixture) renew(tokens ...fencepost.Token) []fencepost.Renewal {
	f.Helper()
	renewals, err := f.Renew(f.ctx(), tokens)
	if err != nil {
		f.Fatalf("Renew of %d tokens: %v", len(tokens), err)
	}
	if len(renewals) != len(tokens) {
		f.Fatalf("%d answers for %d tokens", len(renewals), len(tokens))
	}
	return renewals
}

// wantRenewed checks the answer for a lease that was extended.
func (f *fixture) wantRenewed(r fencepost.Renewal, name string, notBefore time.Time) {
	f.Helper()
	if r.Err != nil {
		f.Errorf("renewal of %q: %v", name, r.Err)
		return
	}
	f.wantUTC("the renewed LeasedUntil", r.LeasedUntil)
	if r.LeasedUntil.Before(notBefore) {
		f.Errorf("%q was leased until %v, after a renewal only until %v", name, notBefore, r.LeasedUntil)
	}
	if i := f.inspect(name); !i.LeasedUntil.Equal(r.LeasedUntil) {
		f.Errorf("%q: the answer says until %v, the row %v", name, r.LeasedUntil, i.LeasedUntil)
	}
}

var renewTests = []test{
	{"ExtendsByTheTTLOfTheLease", func(f *fixture) {
		grants := map[time.Duration]fencepost.Grant{}
		for _, ttl := range []time.Duration{time.Minute, long, 20 * time.Hour} {
			grants[ttl] = f.acquire(ttl.String(), ttl)
		}
		for ttl, g := range grants {
			// A clock of milliseconds can show the same one at the renewal as at the grant.
			until(f.T, "the database's clock to move on", func() bool { return f.inspect(g.Token.Name).Remaining < ttl })
			f.wantRenewed(f.renewOne(g.Token), g.Token.Name, g.LeasedUntil)
			i := f.inspect(g.Token.Name)
			if d := i.LeasedUntil.Sub(i.RenewedAt); d < ttl-time.Second || d > ttl+time.Second {
				f.Errorf("renewed at %v until %v: %v apart, the TTL is %v", i.RenewedAt, i.LeasedUntil, d, ttl)
			}
			if !i.LeasedUntil.After(g.LeasedUntil) {
				f.Errorf("until %v after the renewal, %v before", i.LeasedUntil, g.LeasedUntil)
			}
			if i.TTL != ttl || i.Fence != 1 || i.Owner != g.Token.Owner || i.RenewedAt.Before(i.AcquiredAt) {
				f.Errorf("row after the renewal: %+v", i)
			}
		}
	}},

	{"WritesNoEvent", func(f *fixture) {
		g := f.acquire("job", long)
		for range 3 {
			f.wantRenewed(f.renewOne(g.Token), "job", g.LeasedUntil)
		}
		if events := f.events(fencepost.EventQuery{}); len(events) != 1 {
			f.Errorf("%d events after one acquisition and three renewals", len(events))
		}
	}},

	{"KeepsALeaseBeyondItsTTL", func(f *fixture) {
		const ttl = 2 * time.Second
		g := f.acquire("job", ttl)
		first := g.LeasedUntil
		until(f.T, "the renewed lease to outlast its first end", func() bool {
			r := f.renewOne(g.Token)
			f.wantRenewed(r, "job", first)
			i := f.inspect("job")
			return f.Failed() || i.RenewedAt.After(first)
		})
		if err := f.Check(f.ctx(), g.Token); err != nil {
			f.Error(err)
		}
	}},

	{"NoTokens", func(f *fixture) {
		for _, none := range [][]fencepost.Token{nil, {}} {
			if renewals, err := f.Renew(f.ctx(), none); err != nil || len(renewals) != 0 {
				f.Errorf("Renew of nothing = %v, %v", renewals, err)
			}
		}
	}},

	{"AnswersInOrderAndForEachItsOwn", func(f *fixture) {
		superseded := f.acquireExpired("superseded").Token
		f.acquire("superseded", long)
		preempted := f.acquire("preempted", long).Token
		if _, err := f.Preempt(f.ctx(), fencepost.PreemptRequest{Name: "preempted", Fence: 1, Owner: f.owner()}); err != nil {
			f.Fatal(err)
		}
		expired := f.acquireExpired("expired").Token
		released := f.acquire("released", long).Token
		f.release(released)
		live := f.acquire("live", long)
		live2 := f.acquire("live2", long)
		wrongOwner := fencepost.Token{Name: "live", Owner: superseded.Owner, Fence: 1}
		wrongFence := fencepost.Token{Name: "live2", Owner: live2.Token.Owner, Fence: 2}
		unknown := fencepost.Token{Name: "unknown", Owner: live.Token.Owner, Fence: 1}

		cases := []struct {
			token   fencepost.Token
			reason  fencepost.Reason
			current int64
		}{
			{wrongOwner, fencepost.ReasonNotGranted, 1},
			{superseded, fencepost.ReasonSuperseded, 2},
			{live.Token, "", 1},
			{expired, fencepost.ReasonExpired, 1},
			{unknown, fencepost.ReasonUnknownName, 0},
			{released, fencepost.ReasonReleased, 1},
			{live.Token, "", 1}, // twice
			{wrongFence, fencepost.ReasonNotGranted, 1},
			{live2.Token, "", 1},
			{preempted, fencepost.ReasonSuperseded, 2},
			{expired, fencepost.ReasonExpired, 1}, // twice
		}
		untouched := map[string]fencepost.LeaseInfo{}
		for _, name := range []string{"superseded", "preempted", "expired", "released"} {
			untouched[name] = still(f.inspect(name))
		}
		var tokens []fencepost.Token
		for _, c := range cases {
			tokens = append(tokens, c.token)
		}
		renewals := f.renew(tokens...)
		for i, c := range cases {
			switch {
			case c.reason == "" && renewals[i].Err != nil:
				f.Errorf("answer %d, %v: %v", i, c.token, renewals[i].Err)
			case c.reason == "" && !renewals[i].LeasedUntil.After(live.LeasedUntil):
				f.Errorf("answer %d, %v: until %v", i, c.token, renewals[i].LeasedUntil)
			case c.reason != "":
				f.wantStale(renewals[i].Err, c.token, c.reason, c.current)
				if !renewals[i].LeasedUntil.IsZero() {
					f.Errorf("answer %d, %v: refused, and until %v", i, c.token, renewals[i].LeasedUntil)
				}
			}
		}
		for name, before := range untouched {
			if after := still(f.inspect(name)); after != before {
				f.Errorf("a refused renewal changed %q\nfrom %+v\n  to %+v", name, before, after)
			}
		}
		if _, found, _ := f.Inspect(f.ctx(), "unknown"); found {
			f.Error("a renewal created a lease")
		}
	}},

	{"NeverByNameAlone", func(f *fixture) {
		// The successor holds the same name: a renewal by name or by owner label would extend what is not ours.
		old := f.acquireExpired("job").Token
		successor := f.acquire("job", long)
		for _, forged := range []fencepost.Token{
			old,
			{Name: "job", Owner: old.Owner, Fence: 2},             // wrong owner with the right fence
			{Name: "job", Owner: successor.Token.Owner, Fence: 1}, // right owner with a wrong fence
			{Name: "job", Owner: successor.Token.Owner, Fence: 3}, // and one that is yet to come
		} {
			f.unchanged("job", func() {
				if r := f.renewOne(forged); r.Err == nil {
					f.Errorf("%v by owner %q was renewed", forged, forged.Owner)
				}
			})
		}
	}},

	{"NeverRevives", func(f *fixture) {
		expired := f.acquireExpired("expired").Token
		released := f.acquire("released", long).Token
		f.release(released)
		for range 3 {
			f.unchanged("expired", func() {
				f.wantStale(f.renewOne(expired).Err, expired, fencepost.ReasonExpired, 1)
			})
			f.unchanged("released", func() {
				f.wantStale(f.renewOne(released).Err, released, fencepost.ReasonReleased, 1)
			})
		}
	}},

	{"TenThousandAtOnce", func(f *fixture) {
		const n = 10_000
		tokens := make([]fencepost.Token, n)
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				for i := worker * n / 4; i < (worker+1)*n/4; i++ {
					// One in five is a lease: an answer at the wrong place would show, and acquiring all of them would take the time of the whole suite.
					tokens[i] = fencepost.Token{Name: fmt.Sprintf("job-%d", i), Owner: "nobody", Fence: 1}
					if i%5 != 0 {
						continue
					}
					g, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: tokens[i].Name, Owner: fmt.Sprintf("owner of %d", i), TTL: long})
					if err != nil {
						f.Errorf("Acquire: %v", err)
						return
					}
					tokens[i] = g.Token
				}
			})
		}
		wg.Wait()
		if f.Failed() {
			return
		}
		for i, r := range f.renew(tokens...) {
			if i%5 != 0 {
				f.wantStale(r.Err, tokens[i], fencepost.ReasonUnknownName, 0)
			} else if r.Err != nil || r.LeasedUntil.IsZero() {
				f.Errorf("%v: until %v, %v", tokens[i], r.LeasedUntil, r.Err)
			}
			if f.Failed() {
				return
			}
		}
	}},
}
