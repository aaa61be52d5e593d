package fencepost

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The errors a program can switch on with errors.Is. [HeldError] and [StaleError] carry the details.
var (
	// ErrHeld says that the lease is held by another; trying again later can succeed.
	ErrHeld = errors.New("held")
	// ErrStale says that the token is no longer the newest of its name, or has expired, or was released. Nothing was written.
	ErrStale = errors.New("stale")
	// ErrUnknown says that the link was lost, or the context ended, while the server may have been applying the operation:
	// it may have happened or not.
	ErrUnknown = errors.New("outcome unknown")
	// ErrInvalid says that a name, TTL, token or option cannot be used. Nothing was sent.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable says that the database could not be asked at all: not reachable, no schema, no rights. Nothing was changed.
	ErrUnavailable = errors.New("unavailable")
	// ErrBusy says that the lease's row is locked by another transaction, so that the operation changed nothing and should be
	// tried again soon. It means neither held nor lost.
	ErrBusy = errors.New("busy")
	// ErrSlot says that a slot of a schedule cannot be run now: it was run or skipped already, or is not due yet by the database's clock.
	ErrSlot = errors.New("slot")
)

// HeldError is the refusal of an acquisition: who holds the lease, and for how long. errors.Is(err, ErrHeld) holds.
type HeldError struct {
	Lease  string
	Holder string // the holder's label; may be empty
	Fence  int64  // the newest fence of the lease
	// Remaining is how long the lease lasts unless it is renewed or released, by the database's clock at the moment of the refusal.
	Remaining time.Duration
	// Wanted says that the row already tells its holder that somebody waits.
	Wanted bool
	// Busy says that the lease has run out, but its row is locked: by a fenced write that has not committed yet, or by another's
	// acquisition. Remaining is 0 then.
	Busy bool
}

func (e *HeldError) Error() string {
	if e.Busy {
		return fmt.Sprintf("lease %q is being written by another (fence %d); try again in a moment", e.Lease, e.Fence)
	}
	holder := "another"
	if e.Holder != "" {
		holder = fmt.Sprintf("%q", e.Holder)
	}
	return fmt.Sprintf("lease %q is held by %s (fence %d) for another %v; try again later or wait",
		e.Lease, holder, e.Fence, e.Remaining.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrHeld) hold.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Reason says why a token was refused.
type Reason string

// The reasons of a [StaleError].
const (
	// ReasonSuperseded: a higher fence was granted for the name, by takeover or preemption.
	ReasonSuperseded Reason = "superseded"
	// ReasonExpired: the token is the newest, but its lease has run out by the database's clock. Nobody has taken over yet.
	ReasonExpired Reason = "expired"
	// ReasonReleased: the token is the newest, and its holder gave it back.
	ReasonReleased Reason = "released"
	// ReasonUnknownName: no lease of that name was ever acquired in this database.
	ReasonUnknownName Reason = "unknown_name"
	// ReasonNotGranted: this database never granted that fence to that owner: a token from elsewhere, mistyped, or granted by a
	// primary that was lost before the grant was replicated.
	ReasonNotGranted Reason = "not_granted"
	// ReasonFinished: the run had been ended otherwise before, such as marked stalled: only a [DeadLetter] has this reason.
	ReasonFinished Reason = "finished"
	// ReasonLocalDeadline: the holder stopped by itself, because no renewal was confirmed in time. The database was not heard.
	ReasonLocalDeadline Reason = "local_deadline"
)

// StaleError is the refusal of a token. errors.Is(err, ErrStale) holds.
type StaleError struct {
	Lease     string
	Reason    Reason
	Presented int64  // the fence of the refused token
	Current   int64  // the newest fence of the name; 0 when not known
	Holder    string // label of the newest fence's holder; may be empty
	Err       error  // what made renewals fail, for ReasonLocalDeadline; else nil
}

func (e *StaleError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lease %q: fence %d is stale: ", e.Lease, e.Presented)
	switch e.Reason {
	case ReasonSuperseded:
		fmt.Fprintf(&b, "superseded by fence %d", e.Current)
		if e.Holder != "" {
			fmt.Fprintf(&b, " of %q", e.Holder)
		}
		b.WriteString("; stop, the work belongs to the successor")
	case ReasonExpired:
		b.WriteString("the lease has expired; acquire it again before going on")
	case ReasonReleased:
		b.WriteString("the lease was released; acquire it again before going on")
	case ReasonUnknownName:
		b.WriteString("no lease of that name was ever acquired here; check the name and the database")
	case ReasonNotGranted:
		fmt.Fprintf(&b, "never granted to this owner (the newest fence is %d); check owner, fence and database", e.Current)
	case ReasonLocalDeadline:
		b.WriteString("lease lost: no renewal was confirmed in time")
		if e.Err != nil {
			fmt.Fprintf(&b, ", renew failing: %v", e.Err)
		}
	default:
		b.WriteString(string(e.Reason))
	}
	return b.String()
}

// Is makes errors.Is(err, ErrStale) hold.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Unwrap returns what made the renewals fail, if that is known.
func (e *StaleError) Unwrap() error { return e.Err }
