package fencepost

import (
	"context"
	"time"
)

// RunStore is what a database does for the books of runs. The stores of postgres, mysql and sqlite are also RunStores; the
// suite storetest.Runs says whether an implementation keeps the promises. Package run is what programs use.
//
// StartRun, ReportRun, FinishRun, AdoptLetter and Prune are fenced writes: one round trip that commits only while the token is the newest of its name and its lease
// live by the database's clock, judged and locked as in every fenced write; else a *[StaleError], nothing written, and the refusal recorded as an
// event. What a takeover means for the run of the token before, the database itself writes, in the transaction of the takeover: the open run
// becomes [RunAbandoned], ReplacedBy the new fence. Where the database has no triggers, StartRun does it.
//
// All times are the database's. Errors are those of [Store]; [RunError] is added. JSON is kept byte for byte.
type RunStore interface {
	// StartRun puts a run on the books. A run of the same ID and token that is there already is returned as it stands: the answer to a try whose
	// reply was lost. An open run of an older token becomes abandoned in the same transaction.
	//
	// A *RunError refuses: another run of this token is open (RunOpen); the ID is another token's (RunNotYours); the slot is not due by the
	// database's clock (RunNotDue); the slot has an attempt that does not allow another one (its status is not Again), or r.Attempts of them (RunSlotTaken).
	StartRun(ctx context.Context, r RunStart) (Run, error)

	// ReportRun replaces the progress of an open run of the token. A *RunError refuses: RunUnknown, RunNotYours, RunFinished.
	ReportRun(ctx context.Context, r RunReport) error

	// FinishRun ends an open run of the token. A run that this very token has ended before with the same status, result and error is
	// returned with already true, also when the token has become stale since. Otherwise a stale token is a *StaleError; a run that was ended
	// differently a *RunError (RunFinished), or RunUnknown, RunNotYours.
	FinishRun(ctx context.Context, r RunFinish) (run Run, already bool, err error)

	// FindRun returns the run of an ID, payloads included.
	FindRun(ctx context.Context, id string) (run Run, found bool, err error)

	// ListRuns returns runs, the newest first.
	ListRuns(ctx context.Context, q RunQuery) ([]Run, error)

	// LastSlot returns the database's time and the newest attempt of the newest slot of a lease, without payloads.
	LastSlot(ctx context.Context, lease string) (LastSlot, error)

	// KeepLetter stores a refused completion and returns its ID; the same completion of the same run (by [DeadLetter.Digest]) has one ID. It is no
	// fenced write: its token is stale.
	KeepLetter(ctx context.Context, d DeadLetter) (id int64, err error)

	// FindLetter returns a dead letter, payload included.
	FindLetter(ctx context.Context, id int64) (letter DeadLetter, found bool, err error)

	// ListLetters returns dead letters, the newest first.
	ListLetters(ctx context.Context, q LetterQuery) ([]DeadLetter, error)

	// AdoptLetter makes a run of a dead letter of the token's lease: a new run of the present token that has the letter's status, result,
	// error and slot (its next attempt), is finished at once, and says of which letter it was made, and by whom. The letter is
	// marked, and an [EventAdopted] recorded, in the same transaction. The run is returned. A second try with the same RunID gives the same run. A *RunError
	// refuses: DeadUnknown (also for a letter of another lease), DeadAdopted.
	AdoptLetter(ctx context.Context, a Adoption) (Run, error)

	// DropLetter deletes a dead letter and records an [EventDropped] with the actor. A *RunError says DeadUnknown.
	DropLetter(ctx context.Context, id int64, actor string) error

	// Prune deletes at most p.Limit of the oldest finished runs, or of the oldest events, of one lease and returns how many. It never deletes an open run,
	// the newest run of the lease, or the newest attempt of its newest slot.
	Prune(ctx context.Context, p PruneRequest) (int64, error)
}

// RunStart puts a run on the books.
type RunStart struct {
	Token    Token
	ID       string
	Holder   string
	Slot     time.Time // whole milliseconds; zero for a run without
	Attempts int       // how many attempts the slot may have; 0 means 1
	Missed   int       // slots before this one that nobody ran
	Skip     bool      // record the slot as skipped: the run is finished at once, with the status skipped
	Reason   string    // with Skip: why; kept as Error
}

// RunReport is the progress of a run.
type RunReport struct {
	Token    Token
	ID       string
	Progress []byte // JSON
}

// RunFinish is the completion of a run.
type RunFinish struct {
	Token  Token
	ID     string
	Status RunStatus // any but running and skipped
	Result []byte    // JSON; nil when there is none
	Error  string
}

// LastSlot is where the schedule of a job stands.
type LastSlot struct {
	Now   time.Time // of the database
	Found bool      // false: no slot was ever recorded
	Run   Run       // the newest attempt of the newest slot
}

// RunQuery chooses runs of [RunStore.ListRuns].
type RunQuery struct {
	Lease    string      // only this lease; empty means all
	Status   []RunStatus // only these; none means all
	Before   int64       // Seq less than this; 0 means from the newest
	Limit    int         // at most this many; 0 means 1000
	Payloads bool        // with Progress and Result
}

// LetterQuery chooses letters of [RunStore.ListLetters].
type LetterQuery struct {
	Lease    string // only this lease; empty means all
	Before   int64  // ID less than this; 0 means from the newest
	Limit    int    // at most this many; 0 means 1000
	Adopted  bool   // also those that were adopted
	Payloads bool   // with Result
}

// Adoption makes a run of a dead letter.
type Adoption struct {
	Token  Token // of the letter's lease
	Letter int64
	RunID  string // of the run that is made of it
	Holder string
	Actor  string // who decided
}

// PruneRequest chooses what [RunStore.Prune] deletes.
type PruneRequest struct {
	Token     Token         // of the job that prunes, not of Lease
	Lease     string        // whose runs or events
	Events    bool          // events instead of runs
	OlderThan time.Duration // finished (events: happened) longer ago than this; 0 means whatever the age
	Keep      int           // beyond the newest so many of the lease; 0 means no number. A row goes when either limit says so
	Limit     int           // at most this many rows; at least 1
}
