package fencepost_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/storetest"
)

// faulty stands between a client and the reference store and breaks the link in the ways that networks do.
type faulty struct {
	*storetest.Memory
	mu       sync.Mutex
	acquires int
	renews   int
	wants    int
	// Each hook, if set, replaces an operation; it gets the real one to call before, after or not at all.
	acquire func(ctx context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error)
	renew   func(ctx context.Context, t []fencepost.Token) ([]fencepost.Renewal, error)
	release func(ctx context.Context, t fencepost.Token) (fencepost.Released, error)
}

func newFaulty() *faulty { return &faulty{Memory: storetest.NewMemory()} }

func (f *faulty) Acquire(ctx context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error) {
	f.mu.Lock()
	f.acquires++
	hook := f.acquire
	f.mu.Unlock()
	if hook != nil {
		return hook(ctx, r)
	}
	return f.Memory.Acquire(ctx, r)
}

func (f *faulty) Renew(ctx context.Context, t []fencepost.Token) ([]fencepost.Renewal, error) {
	f.mu.Lock()
	f.renews++
	hook := f.renew
	f.mu.Unlock()
	if hook != nil {
		return hook(ctx, t)
	}
	return f.Memory.Renew(ctx, t)
}

func (f *faulty) Release(ctx context.Context, t fencepost.Token) (fencepost.Released, error) {
	f.mu.Lock()
	hook := f.release
	f.mu.Unlock()
	if hook != nil {
		return hook(ctx, t)
	}
	return f.Memory.Release(ctx, t)
}

func (f *faulty) Want(ctx context.Context, name string) (bool, error) {
	f.mu.Lock()
	f.wants++
	f.mu.Unlock()
	return f.Memory.Want(ctx, name)
}

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faulty) counts() (acquires, renews int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acquires, f.renews
}

// info returns a lease's row; it must exist.
func info(t *testing.T, s fencepost.Store, name string) fencepost.LeaseInfo {
	t.Helper()
	i, found, err := s.Inspect(t.Context(), name)
	if err != nil || !found {
		t.Fatalf("Inspect(%q) = found %v, %v", name, found, err)
	}
	return i
}

// deaf hides the store's wake-ups, as a transaction pooler does.
type deaf struct{ fencepost.Store }

// acquireOther takes a lease for somebody who is not the client under test.
func acquireOther(t *testing.T, s fencepost.Store, name, owner string, ttl time.Duration) fencepost.Token {
	t.Helper()
	g, err := s.Acquire(t.Context(), fencepost.AcquireRequest{Name: name, Owner: owner, Holder: "other", TTL: ttl})
	if err != nil {
		t.Fatalf("other's acquire of %q: %v", name, err)
	}
	return g.Token
}

// advance lets the bubble's clock run: nothing here ever waits for real time.
func advance(d time.Duration) { time.Sleep(d) }
