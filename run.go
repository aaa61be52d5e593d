package fencepost

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// RunStatus says how far a run is, or how it ended.
type RunStatus string

// The statuses of a run.
const (
	RunRunning   RunStatus = "running"
	RunSucceeded RunStatus = "succeeded"
	RunFailed    RunStatus = "failed"
	RunPartial   RunStatus = "partial"   // ended before all was done; its progress is where the next run goes on
	RunAbandoned RunStatus = "abandoned" // its executor lost the lease, died or was told to leave; ReplacedBy says who came next
	RunStalled   RunStatus = "stalled"   // stopped because it ran too long, or made no progress for too long
	RunSkipped   RunStatus = "skipped"   // a slot of the schedule that was passed over; nothing was executed
)

// Valid reports whether s is one of the statuses.
func (s RunStatus) Valid() bool {
	switch s {
	case RunRunning, RunSucceeded, RunFailed, RunPartial, RunAbandoned, RunStalled, RunSkipped:
		return true
	}
	return false
}

// Again reports whether a slot whose last attempt ended like this is still to be done: nobody said that it succeeded or failed.
func (s RunStatus) Again() bool { return s == RunAbandoned || s == RunStalled }

// Run is one execution of a job under one token, as the database has it on its books. All times are the database's, UTC.
type Run struct {
	Seq         int64  // grows in the order of the starts
	ID          string // chosen by who starts it, so that a second try finds the first one's run
	Lease       string
	Owner       string // the owner token that it runs, or ran, under: a secret of its holder
	Fence       int64
	Holder      string
	Attempt     int       // of this slot; without a slot, of this job since a run ended by itself; the first is 1
	Slot        time.Time // of the schedule, whole milliseconds; zero for a run that belongs to none
	Missed      int       // slots before this one that nobody ran
	Status      RunStatus
	Progress    []byte // JSON, the last that was reported; nil when there is none
	Result      []byte // JSON; nil when there is none
	Error       string // why it failed
	StartedAt   time.Time
	UpdatedAt   time.Time // of the start, the last progress or the end
	FinishedAt  time.Time // zero while it runs
	ReplacedBy  int64     // the fence that took over from an abandoned run; 0 when there was none
	AdoptedFrom int64     // the dead letter that this run was made of; 0 for an execution
	Actor       string    // who adopted it
	// Lost says that the run is running on the books but its token is stale: its executor is refused already, and the next takeover
	// or start marks it abandoned. It is judged by the database's clock when the run is read.
	Lost bool
}

// Token is what the run's writes carry.
func (r Run) Token() Token { return Token{r.Lease, r.Owner, r.Fence} }

// By reports whether the run belongs to a token.
func (r Run) By(t Token) bool { return r.Token() == t }

// MaxRunIDBytes is the longest ID of a run.
const MaxRunIDBytes = 64

// ValidateRunID reports, as [ErrInvalid], an ID that a run cannot have: it is 1 to [MaxRunIDBytes] letters, digits, dots, dashes and underscores.
func ValidateRunID(id string) error {
	if id == "" || len(id) > MaxRunIDBytes {
		return invalidf("the run id %q has %d bytes; it must have 1 to %d", id, len(id), MaxRunIDBytes)
	}
	for _, r := range id {
		if r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' && r != '.' {
			return invalidf("the run id %q may contain letters, digits, dots, dashes and underscores only", id)
		}
	}
	return nil
}

// DeadLetter is a completion that was refused, kept whole so that finished work is not thrown away silently.
type DeadLetter struct {
	ID      int64
	RunID   string
	Lease   string
	Fence   int64  // that the completion carried
	Current int64  // the newest fence when it was refused; 0 when not known
	Reason  Reason // why it was refused
	Holder  string // of the refused token
	Slot    time.Time
	Status  RunStatus // that the completion asked for
	Result  []byte    // JSON; nil when there is none
	Error   string
	At      time.Time // when it was kept, by the database's clock
	// Set when somebody adopted it.
	AdoptedBy string
	AdoptedAs string // the ID of the run that was made of it
	AdoptedAt time.Time
}

// Digest tells two completions of one run apart: the same one is kept once, however often it is refused.
func (d DeadLetter) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00", d.Status, len(d.Result))
	h.Write(d.Result)
	h.Write([]byte{0})
	h.Write([]byte(d.Error))
	return hex.EncodeToString(h.Sum(nil))
}

// RunReason says why an operation on a run was refused although its token was not.
type RunReason string

// The reasons of a [RunError].
const (
	RunUnknown   RunReason = "unknown_run"    // there is no run of that ID
	RunNotYours  RunReason = "other_token"    // the run belongs to another token
	RunFinished  RunReason = "finished"       // the run has ended before, and not as asked for now
	RunOpen      RunReason = "run_open"       // the token has another run that is not finished
	RunSlotTaken RunReason = "slot_taken"     // the slot was run, skipped or tried often enough
	RunNotDue    RunReason = "slot_not_due"   // the slot is in the future by the database's clock
	DeadUnknown  RunReason = "unknown_letter" // there is no dead letter of that ID
	DeadAdopted  RunReason = "adopted"        // the dead letter was adopted before
)

// RunError is a refusal that the token is not to blame for. errors.Is(err, ErrSlot) holds for [RunSlotTaken] and [RunNotDue],
// errors.Is(err, ErrInvalid) for the other reasons. Nothing was written.
type RunError struct {
	Reason RunReason
	Lease  string
	Run    string        // the run that is in the way or was asked for; empty where there is none
	Status RunStatus     // of that run
	Slot   time.Time     // for RunSlotTaken, RunNotDue
	In     time.Duration // for RunNotDue: until the slot is due, by the database's clock
	Letter int64         // for DeadUnknown, DeadAdopted
}

func (e *RunError) Error() string {
	slot := e.Slot.UTC().Format(time.RFC3339Nano)
	switch e.Reason {
	case RunUnknown:
		return fmt.Sprintf("run %q is not known here; check the id and the database", e.Run)
	case RunNotYours:
		return fmt.Sprintf("run %q belongs to another token of lease %q; only the token that started a run can write to it", e.Run, e.Lease)
	case RunFinished:
		return fmt.Sprintf("run %q of lease %q has ended before as %s; its outcome is not changed", e.Run, e.Lease, e.Status)
	case RunOpen:
		return fmt.Sprintf("run %q of lease %q is still running under this token; finish it first", e.Run, e.Lease)
	case RunSlotTaken:
		return fmt.Sprintf("slot %s of %q is taken by run %q (%s)", slot, e.Lease, e.Run, e.Status)
	case RunNotDue:
		return fmt.Sprintf("slot %s of %q is due in %v by the database's clock", slot, e.Lease, e.In.Round(time.Millisecond))
	case DeadUnknown:
		return fmt.Sprintf("there is no dead letter %d; see the list of them", e.Letter)
	case DeadAdopted:
		return fmt.Sprintf("dead letter %d was adopted before, as run %q", e.Letter, e.Run)
	}
	return string(e.Reason)
}

// Is makes errors.Is(err, ErrSlot) and errors.Is(err, ErrInvalid) hold as the reason says.
func (e *RunError) Is(target error) bool {
	if e.Reason == RunSlotTaken || e.Reason == RunNotDue {
		return target == ErrSlot
	}
	return target == ErrInvalid
}
