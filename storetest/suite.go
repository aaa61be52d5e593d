// Package storetest says whether a [fencepost.Store] keeps the promises of the protocol.
//
// [Run] is the suite for every store. [Fencing] is the suite for databases whose own transactions can carry a fenced write.
// [Memory] is the reference that the suite compares with.
//
// The suites never sleep for a guessed time: they wait for what the store or the database itself says.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

// FenceSetter is implemented by a store under test that can raise the fence of a name to any higher value, by means that the protocol does not have:
// the suite uses it to look at fences near the limits of the number types on the way. Without it those tests are skipped.
type FenceSetter interface {
	// SetFence raises the fence of a name that exists, and changes nothing else of its row.
	SetFence(ctx context.Context, name string, fence int64) error
}

// Run tests a store. Open returns a store on an empty database and closes it by t.Cleanup; every subtest calls it once.
//
// The store is also tested as a [fencepost.Waker] and with a [FenceSetter] if it is one.
func Run(t *testing.T, open func(t *testing.T) fencepost.Store) {
	type group struct {
		name  string
		tests []test
	}
	groups := []group{
		{"Acquire", acquireTests},
		{"Renew", renewTests},
		{"Release", releaseTests},
		{"Preempt", preemptTests},
		{"Want", wantTests},
		{"Names", nameTests},
		{"Numbers", numberTests},
		{"Events", eventTests},
		{"Contention", contentionTests},
		{"Context", contextTests},
		{"Reference", referenceTests},
	}
	if _, ok := open(t).(fencepost.Waker); ok {
		groups = append(groups, group{"Wake", wakeTests})
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					test.run(&fixture{T: t, Store: open(t)})
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(*fixture)
}

const (
	// long is the TTL of a lease that must not end during a test, also on a machine that stands still for a while.
	long = time.Hour
	// short is the TTL of a lease that the test lets expire.
	short = 60 * time.Millisecond
	// patience bounds every wait for something that must happen.
	patience = 30 * time.Second
)

// fixture is one subtest's store with the steps that tests share.
type fixture struct {
	*testing.T
	fencepost.Store
	owners int
}

func (f *fixture) ctx() context.Context { return f.T.Context() }

// owner returns a new owner token.
func (f *fixture) owner() string {
	f.owners++
	return fmt.Sprintf("owner-%d", f.owners)
}

// acquire must be granted.
func (f *fixture) acquire(name string, ttl time.Duration) fencepost.Grant {
	f.Helper()
	owner := f.owner()
	g, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: name, Owner: owner, Holder: "holder of " + owner, TTL: ttl})
	if err != nil {
		f.Fatalf("Acquire(%q) = %v; it must be granted", name, err)
	}
	return g
}

// acquireExpired leaves a lease that nobody has taken over yet.
func (f *fixture) acquireExpired(name string) fencepost.Grant {
	f.Helper()
	g := f.acquire(name, short)
	f.awaitExpiry(name)
	return g
}

func (f *fixture) awaitExpiry(name string) {
	f.Helper()
	awaitExpiry(f.T, f.Store, name)
}

// awaitExpiry waits until the store itself says that the lease has run out.
func awaitExpiry(t *testing.T, s fencepost.Store, name string) {
	t.Helper()
	until(t, "the lease to expire", func() bool {
		info, found, err := s.Inspect(t.Context(), name)
		if err != nil || !found {
			t.Fatalf("Inspect(%q) = found %v, %v", name, found, err)
		}
		return info.State() == fencepost.StateExpired
	})
}

// until waits for an event that cannot announce itself, by asking again and again.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

func (f *fixture) release(t fencepost.Token) {
	f.Helper()
	if out, err := f.Release(f.ctx(), t); err != nil || !out.Changed {
		f.Fatalf("Release(%v) = %+v, %v; it must free the lease", t, out, err)
	}
}

func (f *fixture) inspect(name string) fencepost.LeaseInfo {
	f.Helper()
	info, found, err := f.Inspect(f.ctx(), name)
	if err != nil || !found {
		f.Fatalf("Inspect(%q) = found %v, %v", name, found, err)
	}
	return info
}

// still is what of a row does not change by itself.
func still(i fencepost.LeaseInfo) fencepost.LeaseInfo {
	i.Remaining = 0
	return i
}

func (f *fixture) events(q fencepost.EventQuery) []fencepost.Event {
	f.Helper()
	events, err := f.Events(f.ctx(), q)
	if err != nil {
		f.Fatalf("Events(%+v): %v", q, err)
	}
	return events
}

// unchanged runs do and checks that it has written nothing: neither the row of name nor an event.
func (f *fixture) unchanged(name string, do func()) {
	f.Helper()
	before, beforeFound, err := f.Inspect(f.ctx(), name)
	if err != nil {
		f.Fatal(err)
	}
	history := len(f.events(fencepost.EventQuery{}))
	do()
	after, afterFound, err := f.Inspect(f.ctx(), name)
	if err != nil {
		f.Fatal(err)
	}
	if still(before) != still(after) || beforeFound != afterFound {
		f.Errorf("the row of %q changed\nfrom %+v (found %v)\n  to %+v (found %v)", name, before, beforeFound, after, afterFound)
	}
	if n := len(f.events(fencepost.EventQuery{})); n != history {
		f.Errorf("%d events were written", n-history)
	}
}

// wantHeld checks a refusal of an acquisition.
func (f *fixture) wantHeld(err error, fence int64) *fencepost.HeldError {
	f.Helper()
	held, ok := errors.AsType[*fencepost.HeldError](err)
	if !ok || !errors.Is(err, fencepost.ErrHeld) || errors.Is(err, fencepost.ErrStale) {
		f.Fatalf("got %v; want a *HeldError", err)
	}
	if held.Fence != fence {
		f.Errorf("refused by fence %d, want %d", held.Fence, fence)
	}
	return held
}

// wantStale checks a refusal of a token.
func (f *fixture) wantStale(err error, t fencepost.Token, reason fencepost.Reason, current int64) {
	f.Helper()
	checkStale(f.T, err, t, reason, current)
}

func checkStale(t *testing.T, err error, token fencepost.Token, reason fencepost.Reason, current int64) {
	t.Helper()
	stale, ok := errors.AsType[*fencepost.StaleError](err)
	if !ok || !errors.Is(err, fencepost.ErrStale) || errors.Is(err, fencepost.ErrHeld) {
		t.Errorf("got %v; want a *StaleError (%s)", err, reason)
		return
	}
	if stale.Lease != token.Name || stale.Reason != reason || stale.Presented != token.Fence || stale.Current != current {
		t.Errorf("refused %v as %s with the newest fence %d (presented %d, lease %q); want %s with %d",
			token, stale.Reason, stale.Current, stale.Presented, stale.Lease, reason, current)
	}
}

// wantUTC checks a time of the database.
func (f *fixture) wantUTC(what string, at time.Time) {
	f.Helper()
	if at.IsZero() || at.Location() != time.UTC {
		f.Errorf("%s is %v; want a time in UTC", what, at)
	}
}
