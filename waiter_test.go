package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost"
)

func TestAWaiterSleepsUntilTheHoldersLeaseEnds(t *testing.T) {
	for _, mine := range []time.Duration{time.Second, time.Hour} { // the waiter's own TTL must not matter
		t.Run(mine.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFaulty()
				acquireOther(t, s.Memory, "job", "other", 20*time.Second)
				end := info(t, s, "job").LeasedUntil
				c := fencepost.New(deaf{s}, fencepost.Options{TTL: mine, Poll: time.Hour})
				l, err := c.Acquire(t.Context(), "job")
				if err != nil {
					t.Fatal(err)
				}
				if late := time.Since(end); late < 0 || late > 20*time.Millisecond {
					t.Errorf("acquired %v after the end of the lease", late)
				}
				if tries, _ := s.counts(); tries > 15 { // the polls double from 20 ms
					t.Errorf("%d tries for one wait of 20 s", tries)
				}
				l.Release(t.Context())
			})
		})
	}
}

func TestARefusedTryWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		acquireOther(t, s.Memory, "job", "other", time.Hour)
		before := info(t, s, "job")
		c := fencepost.New(s, fencepost.Options{})
		for range 1000 {
			_, err := c.TryAcquire(t.Context(), "job")
			held, ok := errors.AsType[*fencepost.HeldError](err)
			if !ok || held.Holder != "other" || held.Fence != 1 || held.Remaining <= 0 {
				t.Fatalf("TryAcquire = %v", err)
			}
		}
		after := info(t, s, "job")
		if before != after {
			t.Errorf("the row changed from %+v to %+v", before, after)
		}
	})
}

func TestAReleaseWakesOneWaiterAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		holder := fencepost.New(s, fencepost.Options{TTL: time.Hour})
		l, err := holder.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var got []time.Time
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				c := fencepost.New(s, fencepost.Options{TTL: time.Hour, Poll: 10 * time.Minute})
				l, err := c.Acquire(t.Context(), "job")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got = append(got, time.Now())
				mu.Unlock()
				advance(time.Second)
				if err := l.Err(); err != nil {
					t.Error(err)
				}
				l.Release(t.Context())
			})
		}
		advance(time.Minute)
		released := time.Now()
		l.Release(t.Context())
		wg.Wait()
		if late := got[0].Sub(released); late > 100*time.Millisecond {
			t.Errorf("the first waiter got it after %v", late)
		}
		for i := range len(got) - 1 {
			if gap := got[i+1].Sub(got[i]); gap < time.Second {
				t.Errorf("two held it at once: %v apart", gap)
			} else if gap > 2*time.Second {
				t.Errorf("handover took %v", gap-time.Second)
			}
		}
		if fence := info(t, s, "job").Fence; fence != 21 {
			t.Errorf("fence %d after 21 grants", fence)
		}
	})
}

func TestALostWakeUpCostsAtMostOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		token := acquireOther(t, s.Memory, "job", "other", time.Hour)
		c := fencepost.New(deaf{s}, fencepost.Options{Poll: 3 * time.Second})
		var released time.Time
		time.AfterFunc(time.Minute, func() {
			released = time.Now()
			s.Memory.Release(context.Background(), token)
		})
		l, err := c.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if late := time.Since(released); late > 3*time.Second {
			t.Errorf("acquired %v after the release", late)
		}
		l.Release(t.Context())
	})
}

func TestAWaitEndsWithItsContextAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		acquireOther(t, s.Memory, "job", "other", time.Hour)
		c := fencepost.New(s, fencepost.Options{})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := c.Acquire(ctx, "job")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fencepost.ErrHeld) {
			t.Errorf("Acquire = %v", err)
		}
		if waited := time.Since(start); waited < 20*time.Second || waited > 21*time.Second {
			t.Errorf("waited %v of 20 s", waited)
		}
		if i := info(t, s, "job"); i.Fence != 1 {
			t.Errorf("the wait left fence %d", i.Fence)
		}
	})
}

func TestWaitersSpreadAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters, bucket = 200, 100 * time.Millisecond
		s := newFaulty()
		token := acquireOther(t, s.Memory, "job", "other", time.Hour)
		down := true
		start := time.Now()
		tries := map[int]int{}
		s.acquire = func(ctx context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error) {
			s.mu.Lock()
			since := time.Since(start)
			gone := down && since > time.Second
			if since > 25*time.Second {
				tries[int(since/bucket)]++
			}
			s.mu.Unlock()
			if gone {
				return fencepost.Grant{}, fmt.Errorf("%w: connection refused", fencepost.ErrUnavailable)
			}
			return s.Memory.Acquire(ctx, r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				c := fencepost.New(deaf{s}, fencepost.Options{Poll: 2 * time.Second})
				if _, err := c.Acquire(ctx, "job"); !errors.Is(err, context.Canceled) {
					t.Errorf("Acquire = %v", err)
				}
			})
		}
		advance(30 * time.Second)
		s.set(func() { down = false })
		advance(10 * time.Second)
		cancel()
		wg.Wait()
		total, most := 0, 0
		for _, n := range tries {
			total += n
			most = max(most, n)
		}
		if mean := float64(total) / 150; float64(most) > 4*mean {
			t.Errorf("%d tries within %v, the mean is %.1f", most, bucket, mean)
		}
		s.set(func() { s.acquire = nil })
		s.Memory.Release(t.Context(), token)
	})
}

func TestATightLoopDoesNotStarveAWaiter(t *testing.T) {
	for _, wakes := range []bool{true, false} {
		t.Run(fmt.Sprintf("wakes=%v", wakes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFaulty()
				var store fencepost.Store = s
				if !wakes {
					store = deaf{s}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var mu sync.Mutex
				grants := map[string]int{}
				var wg sync.WaitGroup
				for _, node := range []string{"a", "b", "c"} {
					wg.Go(func() {
						c := fencepost.New(store, fencepost.Options{Holder: node})
						for {
							l, err := c.Acquire(ctx, "job")
							if err != nil {
								return
							}
							advance(10 * time.Millisecond)
							l.Release(ctx)
							mu.Lock()
							grants[node]++
							total := grants["a"] + grants["b"] + grants["c"]
							mu.Unlock()
							if total >= 300 {
								cancel()
							}
						}
					})
				}
				wg.Wait()
				for _, node := range []string{"a", "b", "c"} {
					if grants[node] < 45 { // 15 % of 300
						t.Errorf("node %s got %d of 300 grants: %v", node, grants[node], grants)
					}
				}
			})
		})
	}
}
