package storetest

import (
	"errors"
	"fmt"
	"math"

	"github.com/fencepost/fencepost"
)

// raise brings a free lease to a fence that no test could reach step by step.
func (f *fixture) raise(name string, fence int64) {
	f.Helper()
	setter, ok := f.Store.(FenceSetter)
	if !ok {
		f.Skip("the store is no storetest.FenceSetter")
	}
	if err := setter.SetFence(f.ctx(), name, fence); err != nil {
		f.Fatal(err)
	}
	if got := f.inspect(name).Fence; got != fence {
		f.Fatalf("the fence was set to %d and reads as %d", fence, got)
	}
}

// throughEverything takes a lease whose next fence is next through every operation.
func (f *fixture) throughEverything(name string, next int64) {
	f.Helper()
	g := f.acquire(name, long)
	if g.Token.Fence != next {
		f.Fatalf("granted fence %d, want %d", g.Token.Fence, next)
	}
	again, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: name, Owner: g.Token.Owner, TTL: long})
	if err != nil || again.Token != g.Token {
		f.Errorf("asked again: %v, %v", again.Token, err)
	}
	_, err = f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: name, Owner: "rival", TTL: long})
	f.wantHeld(err, next)
	if err := f.Check(f.ctx(), g.Token); err != nil {
		f.Error(err)
	}
	f.wantRenewed(f.renewOne(g.Token), name, g.LeasedUntil)
	// A number that was rounded on its way would match its neighbours.
	for _, wrong := range []int64{next - 1, next + 1} {
		if wrong < 0 { // next was the last one
			continue
		}
		reason := fencepost.ReasonNotGranted
		if wrong < next {
			reason = fencepost.ReasonSuperseded
		}
		forged := fencepost.Token{Name: name, Owner: g.Token.Owner, Fence: wrong}
		f.wantStale(f.Check(f.ctx(), forged), forged, reason, next)
		f.wantStale(f.renewOne(forged).Err, forged, reason, next)
		_, err := f.Release(f.ctx(), forged)
		f.wantStale(err, forged, reason, next)
		_, err = f.Preempt(f.ctx(), f.preemption(name, wrong, long))
		f.wantStale(err, forged, reason, next)
	}
	if events := f.events(fencepost.EventQuery{Lease: name, Last: true, Limit: 1}); len(events) != 1 || events[0].Fence != next {
		f.Errorf("the newest event: %+v", events)
	}
	if infos := f.list(fencepost.ListQuery{}); len(infos) != 1 || infos[0].Fence != next {
		f.Errorf("listed as %+v", infos)
	}
	f.release(g.Token)
}

var numberTests = []test{
	{"FencesBeyond32Bits", fencesFrom(math.MaxInt32)},
	{"FencesBeyond32BitsUnsigned", fencesFrom(math.MaxUint32)},
	{"FencesBeyondAFloat", fencesFrom(1 << 53)}, // the next one is 9007199254740993, which no float64 is
	{"FencesNearTheEnd", fencesFrom(4611686018427387905)},
	{"TheLastFence", func(f *fixture) {
		f.release(f.acquire("job", long).Token)
		f.raise("job", math.MaxInt64-1)
		f.throughEverything("job", math.MaxInt64)
		// The name is used up: a fence that wrapped around would let every old token in again.
		f.unchanged("job", func() {
			g, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: f.owner(), TTL: long})
			if !errors.Is(err, fencepost.ErrInvalid) {
				f.Errorf("after the last fence: granted %v, %v; want an error that matches ErrInvalid", g.Token, err)
			}
			g, err = f.Preempt(f.ctx(), f.preemption("job", math.MaxInt64, long))
			if !errors.Is(err, fencepost.ErrInvalid) {
				f.Errorf("preempted the last fence: %v, %v; want an error that matches ErrInvalid", g.Token, err)
			}
		})
	}},
	{"ARefusedTryBurnsNoNumber", func(f *fixture) {
		f.acquire("job", long)
		for range 200 {
			_, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: f.owner(), TTL: long})
			f.wantHeld(err, 1)
		}
		before := f.events(fencepost.EventQuery{})
		f.acquire("other", long)
		after := f.events(fencepost.EventQuery{After: before[len(before)-1].ID})
		if len(after) != 1 || after[0].ID > before[len(before)-1].ID+10 {
			f.Errorf("event ids went from %d to %+v over 200 refusals", before[len(before)-1].ID, after)
		}
	}},
}

// fencesFrom walks over two grants and a preemption beyond a fence.
func fencesFrom(fence int64) func(*fixture) {
	return func(f *fixture) {
		f.release(f.acquire("job", long).Token)
		f.raise("job", fence)
		f.throughEverything("job", fence+1)
		f.throughEverything("job", fence+2)
		g, err := f.Preempt(f.ctx(), f.preemption("job", fence+2, long))
		if err != nil || g.Token.Fence != fence+3 {
			f.Errorf("Preempt = %s, %v; want fence %d", fmt.Sprint(g.Token), err, fence+3)
		}
	}
}
