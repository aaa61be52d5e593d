package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost"
)

func TestReleaseWorksWithACancelledContextAndSaysWhatItChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: 5 * time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		l, err := c.TryAcquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := l.Context().Err(); err != nil {
			t.Errorf("the end of the acquisition's context ended the lease: %v", err)
		}
		if changed, err := l.Release(ctx); !changed || err != nil {
			t.Errorf("first release = %v, %v", changed, err)
		}
		if changed, err := l.Release(ctx); changed || err != nil {
			t.Errorf("second release = %v, %v", changed, err)
		}
		if i := info(t, s, "job"); i.State() != fencepost.StateFree || i.Fence != 1 {
			t.Errorf("after the release: %+v", i)
		}
		stale, ok := errors.AsType[*fencepost.StaleError](context.Cause(l.Context()))
		if !ok || stale.Reason != fencepost.ReasonReleased {
			t.Errorf("cause = %v", context.Cause(l.Context()))
		}
	})
}

func TestReleaseIsBoundedWhenTheDatabaseIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		s.release = func(ctx context.Context, _ fencepost.Token) (fencepost.Released, error) {
			<-ctx.Done()
			return fencepost.Released{}, fmt.Errorf("%w: %w", fencepost.ErrUnknown, ctx.Err())
		}
		c := fencepost.New(s, fencepost.Options{TTL: 5 * time.Minute})
		l, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if changed, err := l.Release(t.Context()); changed || !errors.Is(err, fencepost.ErrUnknown) {
			t.Errorf("Release = %v, %v", changed, err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("Release took %v", took)
		}
		_, before := s.counts()
		advance(time.Hour)
		if _, after := s.counts(); after != before {
			t.Error("a lease that was to be released is still renewed")
		}
	})
}

func TestAReleaseWhoseReplyWasLostIsAReleaseAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		first := true
		s.release = func(ctx context.Context, token fencepost.Token) (fencepost.Released, error) {
			r, err := s.Memory.Release(ctx, token)
			if first {
				first = false
				return fencepost.Released{}, fmt.Errorf("%w: link lost", fencepost.ErrUnknown)
			}
			return r, err
		}
		c := fencepost.New(s, fencepost.Options{})
		l, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := l.Release(t.Context()); !changed || err != nil {
			t.Errorf("Release = %v, %v", changed, err)
		}
	})
}

func TestARenewalUnderWayCannotReviveAReleasedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		var events eventLog
		arrived, hold := make(chan struct{}), make(chan struct{})
		s.renew = func(ctx context.Context, tokens []fencepost.Token) ([]fencepost.Renewal, error) {
			close(arrived)
			<-hold
			return s.Memory.Renew(ctx, tokens)
		}
		c := fencepost.New(s, fencepost.Options{TTL: 30 * time.Second, Observer: events.observe})
		l, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		<-arrived
		if changed, err := l.Release(t.Context()); !changed || err != nil {
			t.Fatalf("Release = %v, %v", changed, err)
		}
		close(hold)
		synctest.Wait()
		if i := info(t, s, "job"); i.State() != fencepost.StateFree {
			t.Errorf("the late renewal made the lease %v", i.State())
		}
		if events.count(fencepost.EventLost) != 0 {
			t.Error("a release was reported as a loss")
		}
	})
}

func TestDoReleasesWhateverTheJobDoes(t *testing.T) {
	for _, tc := range []struct {
		name string
		job  func() error
		err  error
	}{
		{"returns", func() error { return nil }, nil},
		{"fails", func() error { return errJob }, errJob},
		{"panics", func() error { panic("boom") }, nil},
		{"exits", func() error { runtime.Goexit(); return nil }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFaulty()
				c := fencepost.New(s, fencepost.Options{TTL: time.Hour})
				var err error
				var panicked any
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { panicked = recover() }()
					err = c.Do(t.Context(), "job", func(context.Context, *fencepost.Lease) error { return tc.job() })
				})
				wg.Wait()
				if !errors.Is(err, tc.err) {
					t.Errorf("Do = %v, want %v", err, tc.err)
				}
				if (tc.name == "panics") != (panicked != nil) {
					t.Errorf("panicked: %v", panicked)
				}
				if i := info(t, s, "job"); i.State() != fencepost.StateFree {
					t.Errorf("the lease is %v afterwards", i.State())
				}
				_, before := s.counts()
				advance(2 * time.Hour)
				if _, after := s.counts(); after != before {
					t.Error("the lease is still renewed")
				}
			})
		})
	}
}

var errJob = errors.New("the job failed")

func TestDoEndsTheJobsContextAtTheLossAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: 30 * time.Second})
		err := c.Do(t.Context(), "job", func(ctx context.Context, l *fencepost.Lease) error {
			if _, err := s.Preempt(ctx, fencepost.PreemptRequest{Name: "job", Fence: 1, Owner: "op", TTL: time.Hour}); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), fencepost.ErrStale) {
				t.Errorf("the job's context ended with %v", context.Cause(ctx))
			}
			return nil // a job that does not look
		})
		if stale, ok := errors.AsType[*fencepost.StaleError](err); !ok || stale.Reason != fencepost.ReasonSuperseded {
			t.Errorf("Do = %v", err)
		}
	})
}

func TestAProcessThatLostItsLeaseContendsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: 10 * time.Second})
		for round := range 10 {
			l, err := c.Acquire(t.Context(), "job")
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			switch round % 3 {
			case 0: // stolen
				if _, err := s.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: l.Token().Fence, Owner: fmt.Sprint("op", round), TTL: time.Minute}); err != nil {
					t.Fatal(err)
				}
			case 1: // renewals fail
				s.set(func() {
					s.renew = func(context.Context, []fencepost.Token) ([]fencepost.Renewal, error) {
						return nil, fencepost.ErrUnavailable
					}
				})
			case 2: // renewals hang
				s.set(func() {
					s.renew = func(ctx context.Context, _ []fencepost.Token) ([]fencepost.Renewal, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
				})
			}
			<-l.Context().Done()
			if l.Err() == nil {
				t.Fatal("the handle still says held")
			}
			s.set(func() { s.renew = nil })
		}
	})
}

func TestManualRenewAndHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: time.Minute})
		l, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		advance(5 * time.Second)
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := info(t, s, "job").Remaining; r != time.Minute {
			t.Errorf("after Renew %v remain", r)
		}
		if err := l.Held(t.Context()); err != nil {
			t.Errorf("Held = %v", err)
		}
		if _, err := c.PreemptFree(t.Context(), "job", 1, "maintenance", fencepost.WithActor("ops")); err != nil {
			t.Fatal(err)
		}
		if err := l.Held(t.Context()); !errors.Is(err, fencepost.ErrStale) {
			t.Errorf("Held after preemption = %v", err)
		}
		if err := l.Renew(t.Context()); !errors.Is(err, fencepost.ErrStale) {
			t.Errorf("Renew after preemption = %v", err)
		}
		if l.Context().Err() == nil {
			t.Error("the loss that Renew found did not end the lease")
		}
	})
}
