package fencepost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Defaults of [Options].
const (
	DefaultTTL  = 30 * time.Second
	DefaultPoll = 500 * time.Millisecond
)

const (
	// releaseTimeout bounds a release that cannot reach the database: the lease then ends by itself.
	releaseTimeout = 2 * time.Second
	// forgetTimeout bounds the search for a lease that may have been granted to a request whose reply was lost.
	forgetTimeout = time.Second
	// longestTry bounds one acquisition, waiting inside the database included.
	longestTry = 10 * time.Second
)

// Options configure a [Client]. The zero value works.
type Options struct {
	// TTL is how long a lease lasts from its grant or renewal, by the database's clock. Default [DefaultTTL]. [WithTTL] sets it per lease.
	TTL time.Duration
	// Holder is a label for people, such as host and pid (the default). It is never compared: two holders may have the same.
	Holder string
	// Margin is how long before the end of the lease the holder stops by itself when no renewal was confirmed, by its monotonic
	// clock counted from before the last confirmed request was sent. It covers clocks that run at different speeds and the time
	// that stopping takes. Default a tenth of the TTL. It must leave room for a renewal, which is sent every third of the TTL.
	Margin time.Duration
	// Poll is the longest that a waiter sleeps between two tries, so the longest that a lost wake-up can cost. Default [DefaultPoll].
	Poll time.Duration
	// MinTTL and MaxTTL are the limits of a TTL. Defaults [DefaultMinTTL] and [DefaultMaxTTL].
	MinTTL, MaxTTL time.Duration
	// Logger gets warnings and losses. Default slog.Default().
	Logger *slog.Logger
	// Observer, if set, is told of events as the client sees them. It must return quickly.
	Observer func(context.Context, Event)
}

// Client acquires leases and keeps them. One client renews all its leases with one statement per beat. It needs no closing: it runs a
// goroutine only while it holds leases. It is safe for concurrent use.
type Client struct {
	store  Store
	o      Options
	err    error // what is wrong with the options; every acquisition returns it
	keeper keeper

	mu    sync.Mutex
	yield map[string]time.Time // names that somebody waited for when we released them: let them go first
}

// New returns a client of a store. Options that cannot work are reported, as [ErrInvalid], by every acquisition.
func New(store Store, o Options) *Client {
	c := &Client{store: store, o: o, yield: map[string]time.Time{}}
	c.keeper.client = c
	if c.o.TTL == 0 {
		c.o.TTL = DefaultTTL
	}
	if c.o.Poll == 0 {
		c.o.Poll = DefaultPoll
	}
	if c.o.MinTTL == 0 {
		c.o.MinTTL = DefaultMinTTL
	}
	if c.o.MaxTTL == 0 {
		c.o.MaxTTL = DefaultMaxTTL
	}
	if c.o.Logger == nil {
		c.o.Logger = slog.Default()
	}
	if c.o.Holder == "" {
		host, _ := os.Hostname() // only a label: without a name the pid still helps
		c.o.Holder = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	switch {
	case c.o.MinTTL < 0 || c.o.MinTTL > c.o.MaxTTL:
		c.err = invalidf("MinTTL is %v and MaxTTL %v", c.o.MinTTL, c.o.MaxTTL)
	case c.o.Poll < 0:
		c.err = invalidf("Poll is %v; it must be positive", c.o.Poll)
	default:
		_, c.err = c.request("options", nil)
	}
	return c
}

// AcquireOption changes one acquisition.
type AcquireOption func(*acquisition)

// WithTTL sets how long this lease lasts; every renewal keeps it.
func WithTTL(ttl time.Duration) AcquireOption { return func(a *acquisition) { a.TTL = ttl } }

// WithHolder sets the label of this lease's holder.
func WithHolder(label string) AcquireOption { return func(a *acquisition) { a.Holder = label } }

// WithMargin sets [Options].Margin for this lease.
func WithMargin(margin time.Duration) AcquireOption {
	return func(a *acquisition) { a.margin = margin }
}

// WithActor says who decided on a preemption; the default is the holder's label.
func WithActor(actor string) AcquireOption { return func(a *acquisition) { a.actor = actor } }

// acquisition is one wish for a lease. All its tries carry the same owner token, so that a grant whose reply was lost is
// recognised by the next try instead of standing in its way.
type acquisition struct {
	AcquireRequest
	margin  time.Duration
	actor   string
	unknown bool // a try may have been applied without our knowing
}

func (c *Client) request(name string, opts []AcquireOption) (*acquisition, error) {
	if c.err != nil {
		return nil, c.err
	}
	a := &acquisition{
		AcquireRequest: AcquireRequest{Name: name, Owner: newOwner(), Holder: c.o.Holder, TTL: c.o.TTL},
		margin:         c.o.Margin,
	}
	for _, opt := range opts {
		opt(a)
	}
	if a.margin == 0 {
		a.margin = a.TTL / 10
	}
	if a.actor == "" {
		a.actor = a.Holder
	}
	a.Holder, a.actor = HolderLabel(a.Holder), HolderLabel(a.actor)
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	if err := ValidateTTL(a.TTL, c.o.MinTTL, c.o.MaxTTL); err != nil {
		return nil, err
	}
	if a.margin < 0 || a.margin >= a.TTL-beatOf(a.TTL) {
		return nil, invalidf("the margin %v does not fit a TTL of %v: a renewal every %v must come before the local deadline", a.margin, a.TTL, beatOf(a.TTL))
	}
	return a, nil
}

// TryAcquire asks once for the lease. It returns a *[HeldError] when another holds it; nothing was written then. An outcome that
// was not heard is asked for again, so that [ErrUnknown] is returned only when the database stays silent.
//
// The lease is renewed in the background until Release, or until it is lost: then its Context is cancelled. ctx bounds the
// acquisition only; the lease's Context keeps its values but not its end.
func (c *Client) TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lease, error) {
	a, err := c.request(name, opts)
	if err != nil {
		return nil, err
	}
	lease, err := c.try(ctx, a)
	if err != nil {
		c.forget(ctx, a)
	}
	return lease, err
}

// Do waits for the lease, runs fn while it is held, and releases it, also when fn panics. The context of fn ends when ctx does and when the lease
// is lost. Do returns fn's error, joined with a *[StaleError] if the lease was lost before fn returned; whether the work got into
// the database is what fn's own fenced writes said.
func (c *Client) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error, opts ...AcquireOption) error {
	l, err := c.Acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	return l.during(ctx, fn)
}

// TryDo is Do without the waiting: it returns a *[HeldError], and does not run fn, when another holds the lease.
func (c *Client) TryDo(ctx context.Context, name string, fn func(context.Context, *Lease) error, opts ...AcquireOption) error {
	l, err := c.TryAcquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	return l.during(ctx, fn)
}

// Inspect returns a lease's row; found is false when no lease of that name was ever acquired.
func (c *Client) Inspect(ctx context.Context, name string) (info LeaseInfo, found bool, err error) {
	if err := ValidateName(name); err != nil {
		return LeaseInfo{}, false, err
	}
	return c.store.Inspect(ctx, name)
}

// List returns leases in byte order of their names.
func (c *Client) List(ctx context.Context, q ListQuery) ([]LeaseInfo, error) {
	return c.store.List(ctx, q)
}

// Held asks whether the token is still the newest and its lease live; else it returns a *[StaleError]. The answer is old the moment it
// arrives: only a fenced write decides.
func (c *Client) Held(ctx context.Context, t Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return c.store.Check(ctx, t)
}

// RenewToken extends the lease of a token once, by the TTL that it was acquired with: for scripts, which hold a token without a
// [Lease]. A lost lease gives a *[StaleError].
func (c *Client) RenewToken(ctx context.Context, t Token) (Renewal, error) {
	if err := t.Validate(); err != nil {
		return Renewal{}, err
	}
	renewals, err := c.store.Renew(ctx, []Token{t})
	if err != nil {
		return Renewal{}, err
	}
	return renewals[0], renewals[0].Err
}

// ReleaseToken frees the lease of a token: for scripts, which hold a token without a [Lease]. It reports whether it changed
// anything: a token that was released before gives false and no error, a lost one a *[StaleError].
func (c *Client) ReleaseToken(ctx context.Context, t Token) (bool, error) {
	if err := t.Validate(); err != nil {
		return false, err
	}
	out, err := c.release(ctx, t)
	return out.Changed, err
}

// release frees a lease even if ctx has ended, within releaseTimeout: a deferred release often comes with a cancelled context,
// and a lease that stays behind makes others wait out its TTL.
func (c *Client) release(ctx context.Context, t Token) (Released, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	unheard := false
	pause := 20 * time.Millisecond
	for {
		out, err := c.store.Release(ctx, t)
		switch {
		case err == nil:
			// Found released on asking again: the try whose reply was lost did it.
			out.Changed = out.Changed || unheard
			return out, nil
		case !transient(err) || ctx.Err() != nil:
			return out, err
		}
		unheard = unheard || errors.Is(err, ErrUnknown)
		if !sleep(ctx, jitter(pause)) {
			return out, err
		}
		pause *= 2
	}
}

// Preempt takes a lease away, whoever holds it, and holds it from then on. fence must be its newest fence: a wrong one is
// refused with a *[StaleError], so that a decision about one holder never hits another. Reason and actor are kept in the events.
// The old holder's fenced writes are refused from then on; one that is in progress is waited for.
func (c *Client) Preempt(ctx context.Context, name string, fence int64, reason string, opts ...AcquireOption) (*Lease, error) {
	a, err := c.request(name, opts)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	grant, err := c.preempt(ctx, a, fence, reason, a.TTL)
	if err != nil {
		return nil, err
	}
	return c.granted(ctx, a, grant, sent)
}

// PreemptFree is Preempt for an operator: it raises the fence and leaves the lease free for whoever comes next.
func (c *Client) PreemptFree(ctx context.Context, name string, fence int64, reason string, opts ...AcquireOption) (Grant, error) {
	a, err := c.request(name, opts)
	if err != nil {
		return Grant{}, err
	}
	return c.preempt(ctx, a, fence, reason, 0)
}

func (c *Client) preempt(ctx context.Context, a *acquisition, fence int64, reason string, ttl time.Duration) (Grant, error) {
	if fence < 1 {
		return Grant{}, invalidf("the fence token is %d; fences start at 1", fence)
	}
	grant, err := c.store.Preempt(ctx, PreemptRequest{
		Name: a.Name, Fence: fence, Owner: a.Owner, Holder: a.Holder, TTL: ttl, Actor: a.actor, Reason: HolderLabel(reason),
	})
	if err == nil || !errors.Is(err, ErrUnknown) {
		return grant, err
	}
	info, _, lookErr := c.store.Inspect(ctx, a.Name)
	if lookErr != nil || info.Owner != a.Owner {
		return Grant{}, err
	}
	return info.Grant(), nil
}

// Events returns the history of leases.
func (c *Client) Events(ctx context.Context, q EventQuery) ([]Event, error) {
	return c.store.Events(ctx, q)
}

// try asks once, and again with the same owner token while the answer was not heard.
func (c *Client) try(ctx context.Context, a *acquisition) (*Lease, error) {
	// A reply that comes later than the local deadline would grant nothing that can be used.
	limited, cancel := context.WithTimeout(ctx, min(a.TTL-a.margin, longestTry))
	defer cancel()
	pause := 10 * time.Millisecond
	for {
		sent := time.Now()
		grant, err := c.store.Acquire(limited, a.AcquireRequest)
		if err == nil {
			return c.granted(ctx, a, grant, sent)
		}
		if errors.Is(err, ErrUnknown) {
			a.unknown = true
		} else if !a.unknown || !transient(err) {
			return nil, err
		}
		if limited.Err() != nil || !sleep(limited, jitter(pause)) {
			if !errors.Is(err, ErrUnknown) {
				err = fmt.Errorf("%w: %w", ErrUnknown, err)
			}
			return nil, err
		}
		pause *= 2
	}
}

func (c *Client) granted(ctx context.Context, a *acquisition, g Grant, sent time.Time) (*Lease, error) {
	a.unknown = false
	l := newLease(c, ctx, a, g, sent)
	if l == nil {
		// The reply was so slow that the lease's time is as good as over: give it back rather than trust it.
		c.release(ctx, g.Token)
		return nil, &StaleError{Lease: a.Name, Reason: ReasonLocalDeadline, Presented: g.Token.Fence, Current: g.Token.Fence, Holder: a.Holder,
			Err: errors.New("the grant took longer to arrive than the lease lasts")}
	}
	kind := EventAcquired
	if g.TakenOver {
		kind = EventTakenOver
	}
	c.observe(l.ctx, Event{Lease: a.Name, Kind: kind, Fence: g.Token.Fence, Holder: a.Holder})
	return l, nil
}

// forget gives back what an acquisition that ends without a lease may have been granted behind our back. It can miss a request that the
// server has not begun to apply; such a lease ends by its TTL.
func (c *Client) forget(ctx context.Context, a *acquisition) {
	if !a.unknown {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	info, found, err := c.store.Inspect(ctx, a.Name)
	if err == nil && found && info.Owner == a.Owner && info.State() == StateHeld {
		c.store.Release(ctx, Token{info.Name, info.Owner, info.Fence})
	}
}

func (c *Client) observe(ctx context.Context, e Event) {
	if c.o.Observer != nil {
		c.o.Observer(ctx, e)
	}
}

// transient reports whether trying again soon can help.
func transient(err error) bool {
	return errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBusy)
}
