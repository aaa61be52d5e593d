// Package bench measures what the operations cost, each against the raw statement that it cannot do without, on the same database, in
// turn within the same run: only the ratios mean something on a machine that others use too.
package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

// engine is one database, opened fresh: the store under test and the raw statements to compare it with.
type engine struct {
	store fencepost.Store
	// fenced runs the statement that work also runs, under a token.
	fenced func(ctx context.Context, t fencepost.Token) error
	// raw runs one of the statements of the engine's raw.go by name, in autocommit.
	raw func(ctx context.Context, statement string) error
}

// The raw statements that every engine has.
const (
	rawTake    = "take"     // one conditional UPDATE that sets owner, fence and end of one row
	rawFree    = "free"     // one UPDATE that frees it
	rawRead    = "read"     // a SELECT of one row
	rawWork    = "work"     // a plain UPDATE of one business row
	rawTouch10 = "touch10k" // one UPDATE of 10,000 rows
)

const tenThousand = 10_000

func BenchmarkAgainstRawStatements(b *testing.B) {
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			e := e.open(b)
			b.Run("acquire+release", func(b *testing.B) { acquireAndRelease(b, e) })
			b.Run("lost-try", func(b *testing.B) { lostTry(b, e) })
			b.Run("fenced-write", func(b *testing.B) { fencedWrite(b, e) })
			b.Run("renew-10000", func(b *testing.B) { renewMany(b, e) })
		})
	}
}

func acquireAndRelease(b *testing.B, e engine) {
	n := 0
	compare(b, func(ctx context.Context) error {
		n++
		g, err := e.store.Acquire(ctx, fencepost.AcquireRequest{Name: "pair", Owner: fmt.Sprint("owner", n), Holder: "bench", TTL: time.Minute})
		if err != nil {
			return err
		}
		_, err = e.store.Release(ctx, g.Token)
		return err
	}, func(ctx context.Context) error {
		if err := e.raw(ctx, rawTake); err != nil {
			return err
		}
		return e.raw(ctx, rawFree)
	})
}

func lostTry(b *testing.B, e engine) {
	hold(b, e, "held", time.Hour)
	compare(b, func(ctx context.Context) error {
		_, err := e.store.Acquire(ctx, fencepost.AcquireRequest{Name: "held", Owner: "loser", Holder: "bench", TTL: time.Minute})
		if err == nil {
			return fmt.Errorf("a held lease was granted")
		}
		return nil
	}, func(ctx context.Context) error { return e.raw(ctx, rawRead) })
}

func fencedWrite(b *testing.B, e engine) {
	token := hold(b, e, "writer", time.Hour)
	compare(b, func(ctx context.Context) error { return e.fenced(ctx, token) },
		func(ctx context.Context) error { return e.raw(ctx, rawWork) })
}

func renewMany(b *testing.B, e engine) {
	tokens := make([]fencepost.Token, tenThousand)
	for i := range tokens {
		tokens[i] = hold(b, e, fmt.Sprintf("many-%05d", i), time.Hour)
	}
	compare(b, func(ctx context.Context) error {
		renewals, err := e.store.Renew(ctx, tokens)
		if err != nil {
			return err
		}
		for _, r := range renewals {
			if r.Err != nil {
				return r.Err
			}
		}
		return nil
	}, func(ctx context.Context) error { return e.raw(ctx, rawTouch10) })
}

func hold(b *testing.B, e engine, name string, ttl time.Duration) fencepost.Token {
	b.Helper()
	// The benchmark function runs more than once: a lease that is already held by its owner is returned as it stands.
	g, err := e.store.Acquire(b.Context(), fencepost.AcquireRequest{Name: name, Owner: "bench-" + name, Holder: "bench", TTL: ttl})
	if err != nil {
		b.Fatal(err)
	}
	return g.Token
}

// compare runs ours and raw in turn and reports the medians and their ratio.
func compare(b *testing.B, ours, raw func(context.Context) error) {
	b.Helper()
	ctx := b.Context()
	var mine, theirs []time.Duration
	timed := func(op func(context.Context) error, into *[]time.Duration) {
		start := time.Now()
		if err := op(ctx); err != nil {
			b.Fatal(err)
		}
		*into = append(*into, time.Since(start))
	}
	for n := 0; b.Loop(); n++ {
		if n%2 == 0 { // neither gains from always running second
			timed(ours, &mine)
			timed(raw, &theirs)
		} else {
			timed(raw, &theirs)
			timed(ours, &mine)
		}
	}
	b.ReportMetric(0, "ns/op") // the sum of both says nothing
	b.ReportMetric(micros(median(mine)), "µs/ours")
	b.ReportMetric(micros(median(theirs)), "µs/raw")
	b.ReportMetric(float64(median(mine))/float64(median(theirs)), "×raw")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
