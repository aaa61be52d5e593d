package fencepost

import (
	"context"
	"time"
)

// Store is what a database does for leases. The packages postgres, mysql and sqlite implement it; the suite in storetest
// says whether an implementation keeps the promises.
//
// Every method is one operation on its own connection, never part of a caller's transaction. All times are the
// database's, all expiry is judged by the database's clock, and no client time is sent. Methods are safe for concurrent use.
//
// A method retries by itself what the database asks to be retried (serialization failures, deadlocks, busy files) while ctx
// lasts. It returns an error matching [ErrUnavailable] when it is certain that nothing was applied, and [ErrUnknown] when
// the link was lost or ctx ended while the server may have been applying.
type Store interface {
	// Acquire grants the lease when it is free, expired or new, with the next fence; else it returns a *HeldError and has
	// written nothing. A lease that r.Owner already holds is the answer to an earlier attempt whose reply was lost: it is
	// returned as it stands, not extended.
	Acquire(ctx context.Context, r AcquireRequest) (Grant, error)

	// Renew extends every live lease among tokens by the TTL it was acquired with, in one statement, and answers for each token in
	// the same order. It uses a connection that callers' transactions cannot use up. An expired or released lease is not revived. The
	// error is for the statement as a whole.
	Renew(ctx context.Context, tokens []Token) ([]Renewal, error)

	// Release frees the lease and keeps its row and fence. A token that was already released gives Released with Changed false and
	// no error; every other stale token gives a *StaleError.
	Release(ctx context.Context, t Token) (Released, error)

	// Preempt takes a lease away whoever holds it, if r.Fence is its newest fence; else it returns a *StaleError. It waits for
	// fenced writes in progress.
	Preempt(ctx context.Context, r PreemptRequest) (Grant, error)

	// Check returns nil while t is the newest token and its lease is live, else a *StaleError. The answer is old the moment it
	// arrives: it never replaces a fenced write.
	Check(ctx context.Context, t Token) error

	// Inspect returns the lease's row; found is false when no lease of that name was ever acquired.
	Inspect(ctx context.Context, name string) (info LeaseInfo, found bool, err error)

	// List returns rows in byte order of their names.
	List(ctx context.Context, q ListQuery) ([]LeaseInfo, error)

	// Want marks a held lease as waited for, so that its release wakes the waiters, and reports whether that was needed and
	// done. False means that the lease is free, expired, unknown or already marked: try again at once.
	Want(ctx context.Context, name string) (marked bool, err error)

	// Record adds an event that only a client can know of: lost, stale_refused. The database sets its time.
	Record(ctx context.Context, e Event) error

	// Events returns events in the order of their ids.
	Events(ctx context.Context, q EventQuery) ([]Event, error)
}

// Waker is a Store that tells waiters of a release sooner than their next try would.
type Waker interface {
	// Watch returns a channel that receives after a release or preemption of name that a waiter was marked for. A wake-up may be
	// lost or spurious; a waiter keeps trying at its poll interval. stop frees what Watch took.
	Watch(ctx context.Context, name string) (wake <-chan struct{}, stop func(), err error)
}

// AcquireRequest asks for a lease.
type AcquireRequest struct {
	Name   string
	Owner  string        // the owner token of this acquisition
	Holder string        // a label for people
	TTL    time.Duration // whole milliseconds
}

// PreemptRequest takes a lease away from its holder.
type PreemptRequest struct {
	Name   string
	Fence  int64         // must be the newest fence; a guess is refused
	Owner  string        // the owner token of the new acquisition
	Holder string        // label of the new holder
	TTL    time.Duration // of the new lease; 0 leaves the lease free, with its fence raised
	Actor  string        // who decided; kept in the events
	Reason string        // why; kept in the events
}

// Grant is a lease as it was granted.
type Grant struct {
	Token       Token
	TTL         time.Duration
	LeasedUntil time.Time     // by the database's clock, UTC; zero when left free
	Remaining   time.Duration // of the lease when the statement ran, by the database's clock
	TakenOver   bool          // from a holder whose lease had expired
}

// Renewal answers for one token of [Store.Renew].
type Renewal struct {
	LeasedUntil time.Time // the new end, by the database's clock; zero when Err is set
	// Err is nil when the lease was extended, a *StaleError when it is lost, and [ErrBusy] when its row is locked by another
	// transaction (try again soon).
	Err error
}

// Released is the outcome of a release.
type Released struct {
	Changed bool // this call freed the lease
	Wanted  bool // somebody was waiting for it
}

// LeaseInfo is a lease's row as the database has it.
type LeaseInfo struct {
	Name        string
	Owner       string // the newest owner token: a secret of its holder
	Fence       int64
	Holder      string
	TTL         time.Duration
	LeasedUntil time.Time     // zero when free
	Remaining   time.Duration // by the database's clock; 0 when free or expired
	AcquiredAt  time.Time
	RenewedAt   time.Time
	Wanted      bool
}

// The states of a lease.
const (
	StateHeld    = "held"
	StateExpired = "expired"
	StateFree    = "free"
)

// State is held, expired (not released, run out, not taken over yet) or free, by the database's clock.
func (i LeaseInfo) State() string {
	switch {
	case i.LeasedUntil.IsZero():
		return StateFree
	case i.Remaining <= 0:
		return StateExpired
	}
	return StateHeld
}

// Refusal judges a token against the lease's row as it was read at its newest version: nil when t may write, else a
// *StaleError that says why not. found tells whether there was a row. Stores use it, so that every database gives the same answers.
func (t Token) Refusal(i LeaseInfo, found bool) error {
	stale := &StaleError{Lease: t.Name, Presented: t.Fence}
	if !found {
		stale.Reason = ReasonUnknownName
		return stale
	}
	stale.Current, stale.Holder = i.Fence, i.Holder
	switch {
	case i.Fence > t.Fence:
		stale.Reason = ReasonSuperseded
	case i.Fence < t.Fence, i.Owner != t.Owner:
		stale.Reason = ReasonNotGranted
	case i.State() == StateFree:
		stale.Reason = ReasonReleased
	case i.State() == StateExpired:
		stale.Reason = ReasonExpired
	default:
		return nil
	}
	return stale
}

// Refusal says who holds the lease, as the answer to an acquisition that was refused.
func (i LeaseInfo) Refusal() *HeldError {
	return &HeldError{Lease: i.Name, Holder: i.Holder, Fence: i.Fence, Remaining: i.Remaining, Wanted: i.Wanted, Busy: i.State() != StateHeld}
}

// Grant is the lease as its newest owner holds it, as the answer to a try whose reply was lost.
func (i LeaseInfo) Grant() Grant {
	return Grant{Token: Token{i.Name, i.Owner, i.Fence}, TTL: i.TTL, LeasedUntil: i.LeasedUntil, Remaining: i.Remaining}
}

// ListQuery chooses rows of [Store.List].
type ListQuery struct {
	After string // names greater than this, byte for byte
	Limit int    // at most this many; 0 means 1000
}
