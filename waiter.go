package fencepost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// headStart is how long a holder that releases a lease which others wait for keeps from taking it again, where the store wakes the
	// waiters; where they poll, it is one poll. Without it a tight loop would win every time.
	headStart = 50 * time.Millisecond
	// expiryJitter spreads waiters that sleep until the same end of a lease.
	expiryJitter = 5 * time.Millisecond
	// shortestPoll is the first of a waiter's growing polls where nothing wakes it.
	shortestPoll = 20 * time.Millisecond
	// busyPause is the pause before asking again for a lease whose row is being written.
	busyPause = 10 * time.Millisecond
	// The pause between tries while the database does not answer grows between these.
	shortestOutagePause = 50 * time.Millisecond
	longestOutagePause  = 5 * time.Second
)

// Acquire waits until the lease is granted or ctx ends. It asks at once, then sleeps until the holder's lease would end, at
// most [Options].Poll, and is woken by a release where the store can do that. A refused try writes nothing.
//
// When ctx ends, the error matches both ctx's own and the last answer, usually [ErrHeld]. A database that cannot be asked on the
// first try is an error at once; one that goes away later is waited for. Who gets a released lease is not ordered, but a
// holder that gives up a lease which others wait for lets them try first.
//
// The lease is kept as described at [Client.TryAcquire].
func (c *Client) Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lease, error) {
	a, err := c.request(name, opts)
	if err != nil {
		return nil, err
	}
	if !sleep(ctx, c.headStartOf(name)) {
		return nil, fmt.Errorf("waiting for lease %q ended: %w", name, context.Cause(ctx))
	}
	lease, err := c.try(ctx, a)
	if err != nil && waitable(err) && !errors.Is(err, ErrUnavailable) {
		lease, err = c.wait(ctx, a, err)
	}
	if err != nil {
		c.forget(ctx, a)
	}
	return lease, err
}

func (c *Client) wait(ctx context.Context, a *acquisition, refused error) (*Lease, error) {
	var wake <-chan struct{}
	if waker, ok := c.store.(Waker); ok {
		woken, stop, err := waker.Watch(ctx, a.Name)
		if err != nil {
			c.o.Logger.LogAttrs(ctx, slog.LevelDebug, "no wake-ups, polling", slog.String("lease", a.Name), slog.Any("error", err))
		} else {
			wake = woken
			defer stop()
		}
	}
	outage, poll := shortestOutagePause, c.o.Poll
	if wake == nil {
		poll = shortestPoll
	}
	for {
		pause := jitter(outage)
		if held, ok := errors.AsType[*HeldError](refused); ok {
			pause, poll = c.untilNextTry(ctx, held, poll, wake != nil)
			outage = shortestOutagePause
		} else {
			if outage == shortestOutagePause {
				c.o.Logger.LogAttrs(ctx, slog.LevelWarn, "the database does not answer, waiting goes on", slog.String("lease", a.Name), slog.Any("error", refused))
			}
			outage = min(2*outage, longestOutagePause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-wake:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("waiting for lease %q ended: %w; last answer: %w", a.Name, context.Cause(ctx), refused)
		}
		lease, err := c.try(ctx, a)
		if err == nil {
			return lease, nil
		}
		if ctx.Err() != nil {
			// The try was cut short: what it says is less than what the one before said.
			return nil, fmt.Errorf("waiting for lease %q ended: %w; last answer: %w", a.Name, context.Cause(ctx), refused)
		}
		if !waitable(err) {
			return nil, err
		}
		refused = err
	}
}

// untilNextTry is how long to sleep after a refusal: until the holder's lease would end, whatever TTL we would ask for, and at
// most a poll. Without wake-ups the polls begin short and grow: a holder that was just told that somebody waits may be in a
// tight loop of short jobs, and lets go for a moment only.
func (c *Client) untilNextTry(ctx context.Context, held *HeldError, poll time.Duration, wakes bool) (pause, nextPoll time.Duration) {
	if held.Busy {
		return jitter(busyPause), poll
	}
	if !held.Wanted {
		marked, err := c.store.Want(ctx, held.Lease)
		if err == nil && !marked {
			// Held a moment ago, and not to be marked now: it may just have been released, without anybody to wake.
			return jitter(time.Millisecond), poll
		}
		if !wakes {
			poll = shortestPoll
		}
	}
	return min(held.Remaining+rand.N(expiryJitter), jitter(poll)), min(2*poll, c.o.Poll)
}

// waitable reports whether waiting can turn a refusal into a grant.
func waitable(err error) bool {
	return errors.Is(err, ErrHeld) || errors.Is(err, ErrStale) || transient(err)
}

// stepBack lets those who waited for a lease try before this client takes it again.
func (c *Client) stepBack(name string) {
	pause := c.o.Poll
	if _, ok := c.store.(Waker); ok {
		pause = min(headStart, pause)
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, until := range c.yield {
		if until.Before(now) {
			delete(c.yield, other)
		}
	}
	c.yield[name] = now.Add(pause)
}

func (c *Client) headStartOf(name string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(time.Until(c.yield[name]), 0)
}
