package fencepost

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// keeper renews all leases of a client, with one statement per beat. Its goroutine lives while there are leases.
type keeper struct {
	client *Client

	mu      sync.Mutex
	leases  map[*Lease]struct{}
	next    time.Time // no lease is due before
	running bool
	changed chan struct{}
	failing bool // the last beat failed: warn once per trouble, not once per try
}

// beatOf is how often a lease is renewed: three tries fit into its TTL.
func beatOf(ttl time.Duration) time.Duration { return ttl / 3 }

func (k *keeper) add(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.leases == nil {
		k.leases, k.changed = map[*Lease]struct{}{}, make(chan struct{}, 1)
	}
	l.due = l.sent.Add(spread(beatOf(l.ttl)))
	if len(k.leases) == 0 || l.due.Before(k.next) {
		k.next = l.due
		k.poke()
	}
	k.leases[l] = struct{}{}
	if !k.running {
		k.running = true
		go k.run()
	}
}

func (k *keeper) remove(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.leases, l)
	if k.running && len(k.leases) == 0 {
		k.poke()
	}
}

func (k *keeper) poke() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *keeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		k.mu.Lock()
		if len(k.leases) == 0 {
			// Decided under the mutex that add takes: a lease that arrives now starts a new goroutine, never none.
			k.running = false
			k.mu.Unlock()
			return
		}
		next := k.next
		k.mu.Unlock()
		if wait := time.Until(next); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-k.changed:
			}
			continue
		}
		k.beat()
	}
}

// beat renews what is due.
func (k *keeper) beat() {
	batch, shortest := k.batch(time.Now())
	if len(batch) > 0 {
		tokens := make([]Token, len(batch))
		for i, l := range batch {
			tokens[i] = l.token
		}
		sent := time.Now()
		renewals, err := k.renew(tokens, shortest)
		troubled := err
		for i, l := range batch {
			outcome := err
			if err == nil {
				outcome = renewals[i].Err
			}
			l.settle(sent, outcome)
			if outcome != nil && !errors.Is(outcome, ErrStale) {
				troubled = outcome
			}
		}
		k.report(troubled, len(batch))
		k.schedule(batch, sent, renewals, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = time.Time{}
	for l := range k.leases {
		if k.next.IsZero() || l.due.Before(k.next) {
			k.next = l.due
		}
	}
}

// batch collects what is due and, with it, what has a good part of its interval behind it, so that leases which were acquired at
// different times come to share one statement. Of two groups with a period of at least 4/5 of a beat, one is always more than 3/8 of
// a beat old when the other is due: they merge.
func (k *keeper) batch(now time.Time) (batch []*Lease, shortest time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.leases) == 0 || k.next.After(now) {
		return nil, 0
	}
	for l := range k.leases {
		if beat := beatOf(l.ttl); !l.due.After(now) || now.Sub(l.sent) >= beat*3/8 {
			batch = append(batch, l)
			if shortest == 0 || beat < shortest {
				shortest = beat
			}
		}
	}
	return batch, shortest
}

// schedule plans the next renewal of a batch: together, a spread beat later, and soon for those that were not confirmed.
func (k *keeper) schedule(batch []*Lease, sent time.Time, renewals []Renewal, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	part, now := rand.Float64(), time.Now()
	for i, l := range batch {
		beat := beatOf(l.ttl)
		if err != nil || renewals[i].Err != nil {
			l.due = now.Add(time.Duration(float64(max(beat/8, time.Millisecond)) * (0.5 + part/2)))
			continue
		}
		l.sent, l.due = sent, sent.Add(time.Duration(float64(beat)*(0.8+part/5)))
	}
}

// renew waits for the store no longer than a beat: a driver that hangs must not keep the next beat from another try.
func (k *keeper) renew(tokens []Token, limit time.Duration) ([]Renewal, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	type answer struct {
		renewals []Renewal
		err      error
	}
	done := make(chan answer, 1)
	go func() {
		renewals, err := k.client.store.Renew(ctx, tokens)
		done <- answer{renewals, err}
	}()
	select {
	case a := <-done:
		return a.renewals, a.err
	case <-ctx.Done():
	}
	// The store learns of the end of ctx at the same moment: let what it has to say count.
	grace := time.NewTimer(limit / 8)
	defer grace.Stop()
	select {
	case a := <-done:
		return a.renewals, a.err
	case <-grace.C:
		return nil, ErrUnknown
	}
}

func (k *keeper) report(err error, leases int) {
	k.mu.Lock()
	first := err != nil && !k.failing
	k.failing = err != nil
	k.mu.Unlock()
	if !first {
		return
	}
	k.client.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "renewal not confirmed, trying again until the local deadline",
		slog.Int("leases", leases), slog.Any("error", err))
	k.client.observe(context.Background(), Event{Kind: EventRenewFailed, Reason: err.Error()})
}

// spread shortens a beat by up to a fifth, so that holders that started together do not renew together.
func spread(beat time.Duration) time.Duration { return beat - rand.N(max(beat/5, 1)) }

// jitter is between a half and the whole of d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(max(d/2, 1)) }

// sleep waits for d and reports true, or false at once when ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
