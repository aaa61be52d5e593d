package fencepost

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// recordTimeout bounds the writing of an event that only explains.
const recordTimeout = 2 * time.Second

// Lease is a lease that this process holds, or has held. It is renewed in the background until it is released or lost.
// Its methods are safe for concurrent use.
type Lease struct {
	client *Client
	token  Token
	holder string
	ttl    time.Duration
	margin time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc

	releasing sync.Mutex // held for the whole of a Release, so that a second one waits for its outcome

	mu       sync.Mutex
	deadline time.Time   // local: the monotonic clock from before the last confirmed request was sent, plus TTL, minus margin
	timer    *time.Timer // ends trust at deadline whatever a hung driver or renewal does
	trouble  error       // why the last renewal was not confirmed
	end      error       // why it ended; nil while held
	leaving  bool        // a release has begun: what a renewal now finds is not a loss

	// Of the keeper, under its mutex.
	sent time.Time // of the last confirmed renewal
	due  time.Time // of the next one
}

// newLease returns nil when the lease's local deadline has already passed.
func newLease(c *Client, ctx context.Context, a *acquisition, g Grant, sent time.Time) *Lease {
	l := &Lease{client: c, token: g.Token, holder: a.Holder, ttl: a.TTL, margin: a.margin}
	// The server measured Remaining after we sent, so counting it from then can only end trust earlier. A grant found again
	// on a second try has less left than its TTL.
	l.deadline = sent.Add(min(g.TTL, g.Remaining) - a.margin)
	left := time.Until(l.deadline)
	if left <= 0 {
		return nil
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.sent = sent
	l.mu.Lock()
	l.timer = time.AfterFunc(left, l.expire)
	l.mu.Unlock()
	c.keeper.add(l)
	return l
}

// Token returns what every write must carry. It is the value handed out at the acquisition and never changes.
func (l *Lease) Token() Token { return l.token }

// TTL returns how long the lease lasts from each renewal, by the database's clock.
func (l *Lease) TTL() time.Duration { return l.ttl }

// Deadline returns the moment at which the holder stops by itself unless a renewal is confirmed first: by the
// monotonic clock, counted from before the last confirmed request was sent, TTL minus margin later. It is never after the
// database's leased_until.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Context is cancelled when the lease ends: at the local deadline, when the loss becomes known, or at its release.
// context.Cause gives a *[StaleError]. It carries the values of the context that the lease was acquired with.
func (l *Lease) Context() context.Context { return l.ctx }

// Err returns nil while the lease is held as far as this process knows, else a *[StaleError] that says why it ended.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Held asks the database whether the token is still the newest and its lease live; else it returns a *[StaleError]. The
// answer is old the moment it arrives: only a fenced write decides.
func (l *Lease) Held(ctx context.Context) error { return l.client.store.Check(ctx, l.token) }

// Renew extends the lease now, by its TTL; the background renewal goes on besides. A lost lease gives a *[StaleError] and
// ends its Context.
func (l *Lease) Renew(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return err
	}
	sent := time.Now()
	renewals, err := l.client.store.Renew(ctx, []Token{l.token})
	if err == nil {
		err = renewals[0].Err
	}
	l.settle(sent, err)
	if err == nil {
		return l.Err() // the reply may have come after the local deadline
	}
	return err
}

// StopRenewing lets the lease run out: it is not renewed any more, its Context ends at the local deadline, and another can take it
// over once it has expired by the database's clock. It is for a holder whose work hangs: the time that is left is the work's to
// end by itself. Release works as before.
func (l *Lease) StopRenewing() { l.client.keeper.remove(l) }

// Release gives the lease back, so that a waiter gets it at once, and ends its Context. It is safe to defer: it works when ctx has been
// cancelled, within two seconds. It reports whether this call freed the lease: false without an error when it was released before,
// false with a *[StaleError] when it had been lost. The successor's lease is never touched.
//
// End the work before releasing: what still runs afterwards is as stale as after a loss. Renewals go on until the
// release is done.
func (l *Lease) Release(ctx context.Context) (bool, error) {
	l.releasing.Lock()
	defer l.releasing.Unlock()
	l.mu.Lock()
	l.leaving = true
	var ended *StaleError
	errors.As(l.end, &ended)
	l.mu.Unlock()
	if ended != nil && ended.Reason == ReasonReleased {
		return false, nil
	}
	if ended != nil && ended.Reason != ReasonLocalDeadline {
		return false, ended
	}
	out, err := l.client.release(ctx, l.token)
	switch {
	case err == nil:
		l.finish(&StaleError{Lease: l.token.Name, Reason: ReasonReleased, Presented: l.token.Fence, Current: l.token.Fence, Holder: l.holder})
		if out.Changed {
			l.client.observe(l.ctx, Event{Lease: l.token.Name, Kind: EventReleased, Fence: l.token.Fence, Holder: l.holder})
		}
		if out.Wanted {
			l.client.stepBack(l.token.Name)
		}
	case errors.Is(err, ErrStale):
		l.lose(err)
	default:
		// Not heard: stop renewing all the same, so that the lease ends by its TTL.
		l.finish(&StaleError{Lease: l.token.Name, Reason: ReasonReleased, Presented: l.token.Fence, Holder: l.holder, Err: err})
	}
	return out.Changed, err
}

// during runs fn under the lease and releases it, also after a panic or runtime.Goexit.
func (l *Lease) during(ctx context.Context, fn func(context.Context, *Lease) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	defer func() {
		stop()
		lost := l.Err()
		_, releaseErr := l.Release(ctx)
		if lost != nil {
			releaseErr = lost
		}
		if releaseErr != nil && !errors.Is(err, ErrStale) {
			err = errors.Join(err, releaseErr)
		}
	}()
	return fn(ctx, l)
}

// settle takes in the outcome of a renewal that was sent at a moment.
func (l *Lease) settle(sent time.Time, err error) {
	switch {
	case err == nil:
		l.mu.Lock()
		// A slow reply must not lengthen trust: count from before the request was sent.
		if deadline := sent.Add(l.ttl - l.margin); l.end == nil && deadline.After(l.deadline) {
			l.deadline = deadline
			l.timer.Reset(time.Until(deadline))
		}
		l.trouble = nil
		l.mu.Unlock()
	case errors.Is(err, ErrStale):
		l.lose(err)
	default:
		l.mu.Lock()
		l.trouble = err
		l.mu.Unlock()
	}
}

// expire is the local deadline.
func (l *Lease) expire() {
	l.mu.Lock()
	if left := time.Until(l.deadline); left > 0 && l.end == nil {
		l.timer.Reset(left) // a renewal was confirmed while the timer fired
		l.mu.Unlock()
		return
	}
	trouble := l.trouble
	l.mu.Unlock()
	l.lose(&StaleError{Lease: l.token.Name, Reason: ReasonLocalDeadline, Presented: l.token.Fence, Holder: l.holder, Err: trouble})
}

// lose ends the lease because it is gone, or must be taken for gone. It is said once.
func (l *Lease) lose(why error) {
	l.mu.Lock()
	quiet := l.leaving
	l.mu.Unlock()
	var stale *StaleError
	errors.As(why, &stale)
	if !l.finish(why) || (quiet && stale.Reason == ReasonReleased) {
		return
	}
	event := Event{Lease: l.token.Name, Kind: EventLost, Fence: l.token.Fence, Holder: l.holder, Reason: string(stale.Reason)}
	l.client.o.Logger.LogAttrs(l.ctx, slog.LevelWarn, "lease lost", slog.Any("token", l.token), slog.String("reason", string(stale.Reason)), slog.Any("error", why))
	l.client.observe(l.ctx, event)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), recordTimeout)
		defer cancel()
		l.client.store.Record(ctx, event) // it only explains: the loss stands without it
	}()
}

// finish ends the lease locally, once: no more renewals, no more trust. It reports whether this call did it.
func (l *Lease) finish(why error) bool {
	l.mu.Lock()
	first := l.end == nil
	if first {
		l.end = why
		l.timer.Stop()
	}
	l.mu.Unlock()
	if first {
		l.client.keeper.remove(l)
		l.cancel(why)
	}
	return first
}
