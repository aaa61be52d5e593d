package fencepost

import "time"

// EventKind names what happened to a lease.
type EventKind string

// The kinds of events. The database writes acquired, taken_over, released and preempted in the transaction that
// changes the lease; clients add lost and stale_refused, which only they can know of, as well as they can.
const (
	EventAcquired     EventKind = "acquired"      // a new, free or released lease was granted
	EventTakenOver    EventKind = "taken_over"    // an expired lease was granted to another
	EventReleased     EventKind = "released"      // the holder gave the lease back
	EventPreempted    EventKind = "preempted"     // a live lease was taken away by an authorised actor
	EventLost         EventKind = "lost"          // a holder learned, or had to assume, that its lease is gone
	EventStaleRefused EventKind = "stale_refused" // a fenced write was refused
	EventAdopted      EventKind = "adopted"       // a dead letter was made a run, by an actor
	EventDropped      EventKind = "dropped"       // a dead letter was thrown away, by an actor
	EventRenewFailed  EventKind = "renew_failed"  // for observers only: a renewal was not confirmed and is tried again
)

// Event is one entry of the lease's history.
type Event struct {
	ID     int64 // grows per lease in the order of the changes
	Lease  string
	Kind   EventKind
	Fence  int64     // of the token that the event is about
	Holder string    // label of that token's holder
	Actor  string    // who preempted; else empty
	Reason string    // why, where there is a why
	At     time.Time // by the database's clock, UTC
}

// EventQuery chooses events of [Store.Events].
type EventQuery struct {
	Lease string // only this lease; empty means all
	After int64  // ids greater than this
	Limit int    // at most this many; 0 means 1000
	Last  bool   // the newest Limit events instead of the first ones after After
}
