package fencepost_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost"
)

func TestLeasesAreKeptByTheTTLTheyWereAcquiredWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: 30 * time.Second})
		short, err := c.TryAcquire(t.Context(), "short", fencepost.WithTTL(3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		long, err := c.TryAcquire(t.Context(), "long", fencepost.WithTTL(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for range 600 {
			advance(time.Second)
			if r := info(t, s, "short").Remaining; r <= 0 || r > 3*time.Second {
				t.Fatalf("the short lease has %v left", r)
			}
			if r := info(t, s, "long").Remaining; r <= 30*time.Minute || r > time.Hour {
				t.Fatalf("the long lease has %v left", r)
			}
		}
		for _, l := range []*fencepost.Lease{short, long} {
			if ok, err := l.Release(t.Context()); !ok || err != nil {
				t.Fatalf("Release = %v, %v", ok, err)
			}
		}
	})
}

func TestTenThousandLeasesCostOneStatementPerBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases, beats = 10_000, 20
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: 30 * time.Second})
		var all []*fencepost.Lease
		for i := range leases {
			l, err := c.TryAcquire(t.Context(), fmt.Sprint("lease-", i))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
			advance(time.Millisecond) // spread over a whole beat
		}
		advance(20 * time.Second) // let them come together
		_, before := s.counts()
		advance(beats * 10 * time.Second)
		_, after := s.counts()
		// A beat is up to a fifth shorter than TTL/3.
		if n := after - before; n < beats || n > beats*5/4+1 {
			t.Errorf("%d renewal statements in %d intervals of TTL/3 for %d leases", n, beats, leases)
		}
		for _, l := range all {
			if err := l.Err(); err != nil {
				t.Fatal(err)
			}
			l.Release(t.Context())
		}
	})
}

func TestASlowReplyDoesNotLengthenTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: 10 * time.Second})
		s.renew = func(ctx context.Context, tokens []fencepost.Token) ([]fencepost.Renewal, error) {
			r, err := s.Memory.Renew(ctx, tokens)
			advance(3 * time.Second) // the reply is under way
			return r, err
		}
		l, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if local, database := l.Deadline(), info(t, s, "job").LeasedUntil; local.After(database) {
				t.Fatalf("the holder trusts until %v, the database grants until %v", local, database)
			}
			advance(100 * time.Millisecond)
		}
		if err := l.Err(); err != nil {
			t.Fatalf("slow replies lost the lease: %v", err)
		}
		l.Release(t.Context())
		advance(10 * time.Second) // the last reply is still under way
	})
}

func TestAReplyLaterThanTheLeaseGrantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		s.acquire = func(_ context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error) {
			g, err := s.Memory.Acquire(context.Background(), r)
			advance(9500 * time.Millisecond) // of 10 s, with a margin of 1 s
			return g, err
		}
		c := fencepost.New(s, fencepost.Options{TTL: 10 * time.Second})
		l, err := c.TryAcquire(t.Context(), "job")
		stale, ok := errors.AsType[*fencepost.StaleError](err)
		if !ok || stale.Reason != fencepost.ReasonLocalDeadline || l != nil {
			t.Fatalf("TryAcquire = %v, %v", l, err)
		}
		if i := info(t, s, "job"); i.State() != fencepost.StateFree {
			t.Errorf("the lease that came too late was not given back: %v", i.State())
		}
	})
}

func TestAHungDriverCannotDelayTheLocalDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		hang := make(chan struct{})
		s.renew = func(context.Context, []fencepost.Token) ([]fencepost.Renewal, error) {
			<-hang // deaf to its context
			return nil, errors.New("hung")
		}
		c := fencepost.New(s, fencepost.Options{TTL: 10 * time.Second})
		l, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		<-l.Context().Done()
		if until := info(t, s, "job").LeasedUntil; !time.Now().Before(until) {
			t.Errorf("the holder stopped at %v, the lease ended at %v", time.Now(), until)
		}
		stale, ok := errors.AsType[*fencepost.StaleError](context.Cause(l.Context()))
		if !ok || stale.Reason != fencepost.ReasonLocalDeadline {
			t.Errorf("cause = %v", context.Cause(l.Context()))
		}
		close(hang)
	})
}

func TestFailingRenewalsEndTheLeaseInTimeWithACauseAndOneWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		var log syncBuffer
		var events eventLog
		c := fencepost.New(s, fencepost.Options{TTL: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)), Observer: events.observe})
		l, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		advance(4 * time.Second) // the first beat is good
		s.set(func() {
			s.renew = func(context.Context, []fencepost.Token) ([]fencepost.Renewal, error) {
				return nil, fmt.Errorf("%w: connection refused", fencepost.ErrUnavailable)
			}
		})
		<-l.Context().Done()
		if until := info(t, s, "job").LeasedUntil; !time.Now().Before(until) {
			t.Errorf("stopped at %v, the lease ended at %v", time.Now(), until)
		}
		cause := context.Cause(l.Context())
		if !errors.Is(cause, fencepost.ErrStale) || !strings.Contains(cause.Error(), "lease lost") ||
			!strings.Contains(cause.Error(), "renew failing") || !strings.Contains(cause.Error(), "connection refused") {
			t.Errorf("cause = %v", cause)
		}
		if n := strings.Count(log.String(), "renewal not confirmed"); n != 1 {
			t.Errorf("%d warnings of one trouble:\n%s", n, log.String())
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "lease lost"); n == 0 {
			t.Error("the loss was not logged")
		}
		if events.count(fencepost.EventRenewFailed) != 1 || events.count(fencepost.EventLost) != 1 {
			t.Errorf("observed %v", events.all())
		}
		if strings.Contains(log.String(), l.Token().Owner) {
			t.Error("the log shows the owner token")
		}
	})
}

func TestOneFailedRenewalIsRetriedInsideTheBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		var at []time.Time
		s.renew = func(ctx context.Context, tokens []fencepost.Token) ([]fencepost.Renewal, error) {
			at = append(at, time.Now())
			if len(at) == 1 {
				return nil, fmt.Errorf("%w: link lost", fencepost.ErrUnknown)
			}
			return s.Memory.Renew(ctx, tokens)
		}
		c := fencepost.New(s, fencepost.Options{TTL: 30 * time.Second})
		l, err := c.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		advance(2 * time.Minute)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		l.Release(t.Context())
		if gap := at[1].Sub(at[0]); gap > 5*time.Second {
			t.Errorf("tried again only after %v, a beat is 10 s", gap)
		}
		if gap := at[2].Sub(at[1]); gap < 7*time.Second {
			t.Errorf("after the trouble the beats came every %v", gap)
		}
	})
}

func TestABusyRowIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		var busy atomic.Bool
		busy.Store(true)
		s.renew = func(ctx context.Context, tokens []fencepost.Token) ([]fencepost.Renewal, error) {
			r, err := s.Memory.Renew(ctx, tokens)
			for i := range r {
				if busy.Load() && tokens[i].Name == "busy" {
					r[i] = fencepost.Renewal{Err: fencepost.ErrBusy}
				}
			}
			return r, err
		}
		c := fencepost.New(s, fencepost.Options{TTL: 10 * time.Second})
		held, err := c.TryAcquire(t.Context(), "busy")
		if err != nil {
			t.Fatal(err)
		}
		other, err := c.TryAcquire(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		advance(6 * time.Second)
		busy.Store(false)
		advance(time.Minute)
		if held.Err() != nil || other.Err() != nil {
			t.Errorf("busy: %v, other: %v", held.Err(), other.Err())
		}
		held.Release(t.Context())
		other.Release(t.Context())
	})
}

func TestATakenLeaseIsLostAtTheNextBeatAndTheOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: 30 * time.Second})
		l, err := c.TryAcquire(t.Context(), "taken")
		if err != nil {
			t.Fatal(err)
		}
		kept, err := c.TryAcquire(t.Context(), "kept")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Preempt(t.Context(), fencepost.PreemptRequest{Name: "taken", Fence: 1, Owner: "op", Holder: "operator", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		<-l.Context().Done()
		stale, ok := errors.AsType[*fencepost.StaleError](context.Cause(l.Context()))
		if !ok || stale.Reason != fencepost.ReasonSuperseded || stale.Presented != 1 || stale.Current != 2 {
			t.Errorf("cause = %v", context.Cause(l.Context()))
		}
		if ok, err := l.Release(t.Context()); ok || !errors.Is(err, fencepost.ErrStale) {
			t.Errorf("Release after loss = %v, %v", ok, err)
		}
		if i := info(t, s, "taken"); i.Fence != 2 || i.State() != fencepost.StateHeld {
			t.Errorf("the successor's lease changed: %+v", i)
		}
		advance(2 * time.Minute)
		if kept.Err() != nil {
			t.Errorf("the other lease was lost too: %v", kept.Err())
		}
		kept.Release(t.Context())
		synctest.Wait()
		events, err := s.Events(t.Context(), fencepost.EventQuery{Lease: "taken"})
		if err != nil {
			t.Fatal(err)
		}
		if last := events[len(events)-1]; last.Kind != fencepost.EventLost || last.Fence != 1 || last.Reason != string(fencepost.ReasonSuperseded) {
			t.Errorf("last event = %+v", last)
		}
	})
}

func TestALeaseTakenRightAfterARelaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		c := fencepost.New(s, fencepost.Options{TTL: 3 * time.Second})
		for range 500 {
			first, err := c.TryAcquire(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			first.Release(t.Context())
			second, err := c.TryAcquire(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			advance(9 * time.Second)
			if err := second.Err(); err != nil {
				t.Fatal(err)
			}
			if i := info(t, s, "job"); i.State() != fencepost.StateHeld {
				t.Fatalf("after three TTLs the lease is %v", i.State())
			}
			second.Release(t.Context())
		}
	})
}

func TestHoldersThatStartedTogetherDoNotRenewTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty()
		start := time.Now()
		buckets := map[int]int{}
		s.renew = func(ctx context.Context, tokens []fencepost.Token) ([]fencepost.Renewal, error) {
			s.mu.Lock()
			buckets[int(time.Since(start)/(100*time.Millisecond))]++
			s.mu.Unlock()
			return s.Memory.Renew(ctx, tokens)
		}
		var leases []*fencepost.Lease
		for i := range 200 {
			c := fencepost.New(s, fencepost.Options{TTL: 30 * time.Second})
			l, err := c.TryAcquire(t.Context(), fmt.Sprint("job-", i))
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		advance(60 * time.Second)
		s.mu.Lock()
		for bucket, n := range buckets {
			if n > 30 { // 200 over the 2 s of a spread beat are 10 per 100 ms
				t.Errorf("%d renewals within 100 ms, %d ms after the start", n, bucket*100)
			}
		}
		s.mu.Unlock()
		for _, l := range leases {
			l.Release(t.Context())
		}
	})
}

func newTextLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

type eventLog struct {
	mu     sync.Mutex
	events []fencepost.Event
}

func (e *eventLog) observe(_ context.Context, event fencepost.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, event)
}

func (e *eventLog) all() []fencepost.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]fencepost.Event(nil), e.events...)
}

func (e *eventLog) count(kind fencepost.EventKind) int {
	n := 0
	for _, event := range e.all() {
		if event.Kind == kind {
			n++
		}
	}
	return n
}
