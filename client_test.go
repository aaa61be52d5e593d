package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost"
)

func TestAGrantWhoseReplyWasLostIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		var events eventLog
		s.acquire = func(ctx context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error) {
			g, err := s.Memory.Acquire(ctx, r)
			if n, _ := s.counts(); n%2 == 1 {
				return fencepost.Grant{}, fmt.Errorf("%w: link lost", fencepost.ErrUnknown)
			}
			return g, err
		}
		c := fencepost.New(s, fencepost.Options{Observer: events.observe})
		for want := int64(1); want <= 200; want++ {
			l, err := c.TryAcquire(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			if i := info(t, s, "job"); l.Token().Fence != want || i.Fence != want || i.Owner != l.Token().Owner {
				t.Fatalf("got %v, want fence %d; the row has %+v", l.Token(), want, i)
			}
			if d := l.Deadline(); d.After(info(t, s, "job").LeasedUntil) {
				t.Fatal("the lost reply lengthened trust")
			}
			l.Release(t.Context())
		}
	})
}

func TestAnAcquisitionThatEndsUnheardLeavesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		s.acquire = func(ctx context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error) {
			s.Memory.Acquire(context.Background(), r) // applied, and never heard of
			<-ctx.Done()
			return fencepost.Grant{}, fmt.Errorf("%w: %w", fencepost.ErrUnknown, ctx.Err())
		}
		c := fencepost.New(s, fencepost.Options{TTL: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.TryAcquire(ctx, "job"); !errors.Is(err, fencepost.ErrUnknown) || errors.Is(err, fencepost.ErrHeld) {
			t.Errorf("TryAcquire = %v", err)
		}
		if i := info(t, s, "job"); i.State() != fencepost.StateFree {
			t.Errorf("the lease is %v", i.State())
		}
	})
}

func TestAnUnreachableDatabaseIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		s.acquire = func(context.Context, fencepost.AcquireRequest) (fencepost.Grant, error) {
			return fencepost.Grant{}, fmt.Errorf("%w: connection refused", fencepost.ErrUnavailable)
		}
		c := fencepost.New(s, fencepost.Options{})
		start := time.Now()
		for _, acquire := range []func(context.Context, string, ...fencepost.AcquireOption) (*fencepost.Lease, error){c.TryAcquire, c.Acquire} {
			if _, err := acquire(t.Context(), "job"); !errors.Is(err, fencepost.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestTwoThreadsOfOneClientNeverBothHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fencepost.New(newFaulty(), fencepost.Options{Holder: "same-host"})
		l, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		before := l.Token()
		if _, err := c.TryAcquire(t.Context(), "job"); !errors.Is(err, fencepost.ErrHeld) {
			t.Errorf("the second acquisition of one client = %v", err)
		}
		if l.Token() != before || l.Held(t.Context()) != nil {
			t.Error("the second acquisition changed the first")
		}
		l.Release(t.Context())
	})
}

func TestPreemptTakesOverUnderTheRightFenceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: time.Minute})
		old, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []int64{0, -1, 2, 7} {
			if _, err := c.Preempt(t.Context(), "job", wrong, "guess"); err == nil {
				t.Errorf("fence %d was accepted", wrong)
			}
		}
		if err := old.Held(t.Context()); err != nil {
			t.Fatalf("a refused preemption changed the lease: %v", err)
		}
		l, err := c.Preempt(t.Context(), "job", 1, "new plan", fencepost.WithActor("planner"))
		if err != nil {
			t.Fatal(err)
		}
		if l.Token().Fence != 2 {
			t.Errorf("fence %d", l.Token().Fence)
		}
		if err := old.Held(t.Context()); !errors.Is(err, fencepost.ErrStale) {
			t.Errorf("the old holder: %v", err)
		}
		events, err := s.Events(t.Context(), fencepost.EventQuery{Lease: "job"})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, e := range events {
			found = found || e.Kind == fencepost.EventPreempted && e.Actor == "planner" && e.Reason == "new plan" && e.Fence == 2
		}
		if !found {
			t.Errorf("events: %+v", events)
		}
		if changed, err := old.Release(t.Context()); changed || !errors.Is(err, fencepost.ErrStale) {
			t.Errorf("the old holder's release = %v, %v", changed, err)
		}
		if changed, err := l.Release(t.Context()); !changed || err != nil {
			t.Errorf("the new holder's release = %v, %v", changed, err)
		}
	})
}

func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	s := newFaulty()
	c := fencepost.New(s, fencepost.Options{})
	for _, tc := range []struct {
		name string
		ttl  time.Duration
		says string
	}{
		{"", time.Minute, "empty"},
		{strings.Repeat("x", 201), time.Minute, "200"},
		{strings.Repeat("😀", 51), time.Minute, "200"},
		{"a\xff", time.Minute, "UTF-8"},
		{"a\nb", time.Minute, "control"},
		{"a\x00b", time.Minute, "control"},
		{"a\u0085b", time.Minute, "control"},
		{"job", 0, "positive"},
		{"job", -1, "positive"},
		{"job", math.MinInt64, "positive"},
		{"job", time.Millisecond, "1s"},
		{"job", 24*time.Hour + time.Millisecond, "24h"},
		{"job", 1 << 62, "24h"},
		{"job", math.MaxInt64, "24h"},
		{"job", time.Second + time.Microsecond, "milliseconds"},
	} {
		_, err := c.TryAcquire(t.Context(), tc.name, fencepost.WithTTL(tc.ttl))
		if !errors.Is(err, fencepost.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("name %q, TTL %v: %v", tc.name, tc.ttl, err)
		}
	}
	for _, bad := range []fencepost.Token{{}, {Name: "job"}, {Name: "job", Owner: "o"}, {Name: "job", Owner: "o", Fence: -1}, {Name: "job", Owner: "\x00", Fence: 1}, {Owner: "o", Fence: 1}} {
		if err := c.Held(t.Context(), bad); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("Held(%+v) = %v", bad, err)
		}
		if _, err := c.ReleaseToken(t.Context(), bad); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("ReleaseToken(%+v) = %v", bad, err)
		}
		if _, err := c.RenewToken(t.Context(), bad); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("RenewToken(%+v) = %v", bad, err)
		}
	}
	if n, _ := s.counts(); n != 0 {
		t.Errorf("%d acquisitions were sent", n)
	}
}

func TestTimingsAreValidatedOnce(t *testing.T) {
	for _, o := range []fencepost.Options{
		{TTL: -1}, {TTL: time.Minute, Margin: 40 * time.Second}, {TTL: time.Minute, Margin: -1}, {Poll: -1},
		{MinTTL: time.Hour, MaxTTL: time.Minute}, {TTL: time.Millisecond},
	} {
		if _, err := fencepost.New(newFaulty(), o).TryAcquire(t.Context(), "job"); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestValidNamesOfEveryKind(t *testing.T) {
	for _, name := range []string{"a", "admin:reconciliation", strings.Repeat("x", 200), strings.Repeat("😀", 50), "nightly ", "e\u0301", "é", "\u202eabc", "a/b?c#d%2F", ".."} {
		if err := fencepost.ValidateName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestErrorsWorkThroughEveryLayer(t *testing.T) {
	held := fmt.Errorf("job: %w", &fencepost.HeldError{Lease: "job", Holder: "b", Fence: 7, Remaining: 1500 * time.Millisecond})
	if !errors.Is(held, fencepost.ErrHeld) || errors.Is(held, fencepost.ErrStale) || !strings.Contains(held.Error(), `"b" (fence 7) for another 1.5s`) {
		t.Errorf("%v", held)
	}
	for reason, says := range map[fencepost.Reason]string{
		fencepost.ReasonSuperseded:    "superseded by fence 8",
		fencepost.ReasonExpired:       "expired",
		fencepost.ReasonReleased:      "released",
		fencepost.ReasonUnknownName:   "check the name",
		fencepost.ReasonNotGranted:    "never granted",
		fencepost.ReasonLocalDeadline: "renew failing: no route",
	} {
		stale := fmt.Errorf("job: %w", &fencepost.StaleError{Lease: "job", Reason: reason, Presented: 7, Current: 8, Err: errors.New("no route")})
		if !errors.Is(stale, fencepost.ErrStale) || !strings.Contains(stale.Error(), says) || !strings.Contains(stale.Error(), "fence 7") {
			t.Errorf("%v", stale)
		}
	}
}

func TestTokensDoNotShowTheirOwner(t *testing.T) {
	token := fencepost.Token{Name: "job", Owner: "SECRET", Fence: 7}
	var log syncBuffer
	newTextLogger(&log).Info("x", "token", token)
	if out := fmt.Sprint(token) + fmt.Sprintf("%v %s", token, token) + log.String(); strings.Contains(out, "SECRET") || !strings.Contains(out, "7") {
		t.Errorf("printed %s", out)
	}
}
