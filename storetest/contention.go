package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/fencepost/fencepost"
)

// race lets n owners try for a name at once and returns the grants. Every loser must be told that the lease is held, not that
// the database had trouble.
func (f *fixture) race(name string, n int) []fencepost.Grant {
	f.Helper()
	var mu sync.Mutex
	var grants []fencepost.Grant
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range n {
		owner := f.owner()
		wg.Go(func() {
			<-start
			g, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: name, Owner: owner, TTL: long})
			switch {
			case err == nil:
				mu.Lock()
				grants = append(grants, g)
				mu.Unlock()
			case !errors.Is(err, fencepost.ErrHeld):
				f.Errorf("Acquire(%q): %v; want a grant or ErrHeld", name, err)
			}
		})
	}
	close(start)
	wg.Wait()
	return grants
}

// oneWinner checks the outcome of a race.
func (f *fixture) oneWinner(name string, fence int64, grants []fencepost.Grant) fencepost.Token {
	f.Helper()
	if len(grants) != 1 || grants[0].Token.Fence != fence {
		f.Fatalf("race for fence %d of %q: grants %v", fence, name, grants)
	}
	if err := f.Check(f.ctx(), grants[0].Token); err != nil {
		f.Fatalf("the winner's token: %v", err)
	}
	return grants[0].Token
}

var contentionTests = []test{
	{"OneWinnerPerFence", func(f *fixture) {
		for fence := int64(1); fence <= 20; fence++ {
			token := f.oneWinner("job", fence, f.race("job", 16))
			f.release(token)
		}
		if n := len(f.events(fencepost.EventQuery{})); n != 40 {
			f.Errorf("%d events for 20 grants and 20 releases", n)
		}
	}},

	{"OneWinnerOfAnExpiredLease", func(f *fixture) {
		for round := range int64(5) {
			name := fmt.Sprintf("job-%d", round)
			f.acquireExpired(name)
			f.oneWinner(name, 2, f.race(name, 16))
		}
	}},

	{"OneFirstGrantOfANewName", func(f *fixture) {
		for round := range 3 {
			name := fmt.Sprintf("job-%d", round)
			f.oneWinner(name, 1, f.race(name, 50))
		}
	}},

	{"NewNamesSideBySide", func(f *fixture) {
		// Adjacent new names: databases lock the gap between them.
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				name := fmt.Sprintf("job-%03d", i)
				g, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: name, Owner: "owner of " + name, TTL: long})
				if err != nil || g.Token.Fence != 1 {
					f.Errorf("Acquire(%q) = %v, %v", name, g.Token, err)
				}
			})
		}
		wg.Wait()
		if n := len(f.list(fencepost.ListQuery{})); n != 50 {
			f.Errorf("%d rows", n)
		}
	}},

	{"OneOfManyPreemptions", func(f *fixture) {
		f.acquire("job", long)
		var mu sync.Mutex
		won := 0
		var wg sync.WaitGroup
		for range 16 {
			r := f.preemption("job", 1, long)
			wg.Go(func() {
				_, err := f.Preempt(f.ctx(), r)
				switch {
				case err == nil:
					mu.Lock()
					won++
					mu.Unlock()
				default:
					f.wantStale(err, fencepost.Token{Name: "job", Fence: 1}, fencepost.ReasonSuperseded, 2)
				}
			})
		}
		wg.Wait()
		if i := f.inspect("job"); won != 1 || i.Fence != 2 {
			f.Errorf("%d of 16 preemptions of fence 1 were granted; the fence is %d", won, i.Fence)
		}
	}},

	{"EverythingAtOnce", func(f *fixture) {
		// Owners that acquire, renew and release without rest: whoever was granted a fence is its only owner.
		const workers, rounds = 8, 40
		owners := map[int64]string{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for round := range rounds {
					owner := fmt.Sprintf("owner-%d-%d", w, round)
					g, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: owner, TTL: long})
					if err != nil {
						if !errors.Is(err, fencepost.ErrHeld) {
							f.Errorf("Acquire: %v", err)
						}
						continue
					}
					mu.Lock()
					if other, twice := owners[g.Token.Fence]; twice {
						f.Errorf("fence %d was granted to %q and to %q", g.Token.Fence, other, owner)
					}
					owners[g.Token.Fence] = owner
					mu.Unlock()
					renewals, err := f.Renew(f.ctx(), []fencepost.Token{g.Token})
					if err != nil {
						f.Errorf("Renew: %v", err)
					} else if err := renewals[0].Err; err != nil && !errors.Is(err, fencepost.ErrBusy) {
						f.Errorf("Renew while holding: %v", err)
					}
					if out, err := f.Release(f.ctx(), g.Token); err != nil || !out.Changed {
						f.Errorf("Release while holding = %+v, %v", out, err)
					}
				}
			})
		}
		wg.Wait()
		if i := f.inspect("job"); int64(len(owners)) != i.Fence {
			f.Errorf("%d grants, and the fence is %d", len(owners), i.Fence)
		}
	}},
}
