package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/postgres"
	"github.com/fencepost/fencepost/run"
	"github.com/fencepost/fencepost/sqlite"
)

// store is what a test works on.
type store interface {
	fencepost.Store
	fencepost.RunStore
	Close() error
}

// scene is a client and a history on one database, and what the history told.
type scene struct {
	*testing.T
	store   store
	client  *fencepost.Client
	history *run.History
	told    []run.EventKind
}

// onEach runs a test on every database that keeps books of runs.
func onEach(t *testing.T, o run.Options, test func(*scene)) {
	open := map[string]func(t *testing.T) (store, error){
		"SQLite": func(t *testing.T) (store, error) {
			return sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "leases.db"))
		},
		"PostgreSQL": func(t *testing.T) (store, error) {
			return openPostgres(t, testenv.Postgres(t))
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			s := &scene{T: t}
			var err error
			if s.store, err = open(t); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.store.Close() })
			quiet := slog.New(slog.DiscardHandler)
			o.Logger, o.Observer = quiet, func(_ context.Context, e run.Event) { s.told = append(s.told, e.Kind) }
			s.client = fencepost.New(s.store, fencepost.Options{TTL: time.Hour, Logger: quiet})
			s.history = run.New(s.store, o)
			test(s)
		})
	}
}

// openPostgres opens a database of its own on a server.
func openPostgres(t *testing.T, server *testenv.Server) (store, error) {
	admin, err := postgres.OpenPool(t.Context(), server.URL)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	name := testenv.DatabaseName(t)
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	pool, err := postgres.OpenPool(t.Context(), server.URLFor(name))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := postgres.Migrate(t.Context(), pool); err != nil {
		return nil, err
	}
	return postgres.Open(t.Context(), server.URLFor(name))
}

func (s *scene) acquire(name string) *fencepost.Lease {
	s.Helper()
	l, err := s.client.TryAcquire(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { l.Release(context.Background()) })
	return l
}

func (s *scene) start(t fencepost.Token) *run.Run {
	s.Helper()
	r, err := s.history.Start(s.Context(), t, run.Spec{})
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// takeOver preempts the lease: its old holder learns nothing.
func (s *scene) takeOver(name string, fence int64) *fencepost.Lease {
	s.Helper()
	l, err := s.client.Preempt(s.Context(), name, fence, "test")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { l.Release(context.Background()) })
	return l
}

func TestARefusedResultIsKeptAndCanBeAdopted(t *testing.T) {
	onEach(t, run.Options{Holder: "host"}, func(s *scene) {
		old := s.start(s.acquire("job").Token())
		successor := s.takeOver("job", 1)
		next := s.start(successor.Token())

		// The context of a lost lease has ended: the result must not be lost with it.
		_, err := old.Finish(s.Context(), map[string]int{"total": 7})
		refused, ok := errors.AsType[*run.RefusedError](err)
		if !ok || !errors.Is(err, fencepost.ErrStale) || refused.Letter == 0 {
			s.Fatalf("the old completion: %v", err)
		}
		_, again := old.Finish(s.Context(), map[string]int{"total": 7})
		if second, ok := errors.AsType[*run.RefusedError](again); !ok || second.Letter != refused.Letter {
			s.Errorf("the same result is kept once more: %v", again)
		}
		d, err := s.history.Letter(s.Context(), refused.Letter)
		if err != nil || string(d.Result) != `{"total":7}` || d.Fence != 1 || d.Current != 2 || d.Reason != fencepost.ReasonSuperseded || d.RunID != old.ID() {
			s.Errorf("kept %+v, %v", d, err)
		}
		if left, err := s.history.Get(s.Context(), old.ID()); err != nil || left.Status != fencepost.RunAbandoned || left.ReplacedBy != 2 || left.Result != nil {
			s.Errorf("the old run: %+v, %v", left, err)
		}
		if out, err := next.Finish(s.Context(), 8); err != nil || out.Run.Status != fencepost.RunSucceeded {
			s.Errorf("the successor's completion: %+v, %v", out, err)
		}

		if _, err := s.history.Adopt(s.Context(), old.Token(), refused.Letter, "ann"); !errors.Is(err, fencepost.ErrStale) {
			s.Errorf("adopted by a stale token: %v", err)
		}
		if _, err := s.history.Adopt(s.Context(), successor.Token(), refused.Letter, ""); !errors.Is(err, fencepost.ErrInvalid) {
			s.Errorf("adopted by nobody: %v", err)
		}
		out, err := s.history.Adopt(s.Context(), successor.Token(), refused.Letter, "ann")
		if err != nil || out.Actor != "ann" || string(out.Result) != `{"total":7}` || out.Fence != 2 {
			s.Errorf("adopted %+v, %v", out, err)
		}
	})
}

func TestTheResultOfAnEndedContextIsKept(t *testing.T) {
	onEach(t, run.Options{}, func(s *scene) {
		old := s.start(s.acquire("job").Token())
		s.takeOver("job", 1)
		// The refusal arrives, and the context ends before the letter is written.
		ctx, cancel := context.WithCancel(s.Context())
		s.history = run.New(endingStore{s.store, cancel}, run.Options{Logger: slog.New(slog.DiscardHandler)})
		attached, err := s.history.Attach(old.Token(), old.ID())
		if err != nil {
			s.Fatal(err)
		}
		_, err = attached.Finish(ctx, "late")
		if refused, ok := errors.AsType[*run.RefusedError](err); !ok || refused.Letter == 0 {
			s.Errorf("got %v", err)
		}
	})
}

// endingStore ends a context with the answer to a completion, as the loss of a lease does.
type endingStore struct {
	fencepost.RunStore
	end func()
}

func (e endingStore) FinishRun(ctx context.Context, r fencepost.RunFinish) (fencepost.Run, bool, error) {
	defer e.end()
	return e.RunStore.FinishRun(ctx, r)
}

// losingStore loses the replies to what the database has applied.
type losingStore struct {
	fencepost.RunStore
	lose int
}

func (l *losingStore) lost(err error) error {
	if err == nil && l.lose > 0 {
		l.lose--
		return fencepost.ErrUnknown
	}
	return err
}

func (l *losingStore) StartRun(ctx context.Context, r fencepost.RunStart) (fencepost.Run, error) {
	out, err := l.RunStore.StartRun(ctx, r)
	return out, l.lost(err)
}

func (l *losingStore) FinishRun(ctx context.Context, r fencepost.RunFinish) (fencepost.Run, bool, error) {
	out, already, err := l.RunStore.FinishRun(ctx, r)
	return out, already, l.lost(err)
}

func TestALostReplyIsResolvedByAskingAgain(t *testing.T) {
	onEach(t, run.Options{}, func(s *scene) {
		losing := &losingStore{RunStore: s.store}
		history := run.New(losing, run.Options{Logger: slog.New(slog.DiscardHandler)})
		token := s.acquire("job").Token()
		losing.lose = 1
		r, err := history.Start(s.Context(), token, run.Spec{})
		if err != nil {
			s.Fatal(err)
		}
		losing.lose = 1
		out, err := r.Finish(s.Context(), 1)
		if err != nil || !out.Already {
			s.Errorf("the completion: %+v, %v", out, err)
		}
		if runs, err := history.List(s.Context(), fencepost.RunQuery{}); err != nil || len(runs) != 1 {
			s.Errorf("%d runs, %v", len(runs), err)
		}
		// Lost again and again: said as unknown, and the retry later tells.
		r, err = history.Start(s.Context(), token, run.Spec{})
		if err != nil {
			s.Fatal(err)
		}
		losing.lose = 3
		if _, err := r.Finish(s.Context(), 2); !errors.Is(err, fencepost.ErrUnknown) {
			s.Errorf("got %v", err)
		}
		losing.lose = 0
		if out, err := r.Finish(s.Context(), 2); err != nil || !out.Already {
			s.Errorf("the retry: %+v, %v", out, err)
		}
	})
}

func TestAStalledRunsLateResultIsKept(t *testing.T) {
	onEach(t, run.Options{}, func(s *scene) {
		r := s.start(s.acquire("job").Token())
		if _, err := r.End(s.Context(), fencepost.RunStalled, nil, "no progress for 5m"); err != nil {
			s.Fatal(err)
		}
		_, err := r.Finish(s.Context(), "late")
		refused, ok := errors.AsType[*run.RefusedError](err)
		if !ok || refused.Letter == 0 {
			s.Fatalf("got %v", err)
		}
		if d, err := s.history.Letter(s.Context(), refused.Letter); err != nil || d.Reason != fencepost.ReasonFinished || string(d.Result) != `"late"` {
			s.Errorf("kept %+v, %v", d, err)
		}
	})
}

func TestAContradictionAfterSuccessIsRefused(t *testing.T) {
	onEach(t, run.Options{}, func(s *scene) {
		r := s.start(s.acquire("job").Token())
		if _, err := r.Finish(s.Context(), 1); err != nil {
			s.Fatal(err)
		}
		_, err := r.Fail(s.Context(), errors.New("no"), nil)
		if e, ok := errors.AsType[*fencepost.RunError](err); !ok || e.Reason != fencepost.RunFinished || e.Status != fencepost.RunSucceeded {
			s.Errorf("got %v", err)
		}
		if letters, err := s.history.Letters(s.Context(), fencepost.LetterQuery{}); err != nil || len(letters) != 0 {
			s.Errorf("%d letters, %v", len(letters), err)
		}
	})
}

func TestBadInputIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	onEach(t, run.Options{MaxPayload: 100}, func(s *scene) {
		r := s.start(s.acquire("job").Token())
		for what, v := range map[string]any{
			"too large":  strings.Repeat("x", 99), // 101 bytes with its quotes
			"not JSON":   json.RawMessage("{"),
			"not UTF-8":  json.RawMessage("\"\xff\""),
			"a function": func() {},
		} {
			if err := r.Progress(s.Context(), v); !errors.Is(err, fencepost.ErrInvalid) {
				s.Errorf("progress %s: %v", what, err)
			}
			if _, err := r.Finish(s.Context(), v); !errors.Is(err, fencepost.ErrInvalid) {
				s.Errorf("result %s: %v", what, err)
			}
		}
		if left, err := s.history.Get(s.Context(), r.ID()); err != nil || left.Status != fencepost.RunRunning || left.Progress != nil {
			s.Errorf("the run: %+v, %v", left, err)
		}
		if err := r.Progress(s.Context(), strings.Repeat("x", 98)); err != nil {
			s.Errorf("the longest progress: %v", err)
		}
		unknown, err := s.history.Attach(r.Token(), "unknown")
		if err != nil {
			s.Fatal(err)
		}
		if _, err := unknown.Finish(s.Context(), nil); !errors.Is(err, fencepost.ErrInvalid) {
			s.Errorf("an unknown run: %v", err)
		}
		for _, spec := range []run.Spec{{ID: "with space"}, {Slot: time.Unix(0, 1)}, {Attempts: -1}, {Missed: -1}} {
			if _, err := s.history.Start(s.Context(), r.Token(), spec); !errors.Is(err, fencepost.ErrInvalid) {
				s.Errorf("%+v: %v", spec, err)
			}
		}
		if _, err := r.End(s.Context(), fencepost.RunSkipped, nil, ""); !errors.Is(err, fencepost.ErrInvalid) {
			s.Errorf("ended as skipped: %v", err)
		}
	})
}

func TestWorkGoesOnFromTheLastCheckpoint(t *testing.T) {
	onEach(t, run.Options{}, func(s *scene) {
		resume := func(want string) {
			s.Helper()
			c, found, err := s.history.Resume(s.Context(), "job")
			if err != nil {
				s.Fatal(err)
			}
			if got := string(c.Run.Progress); got != want || found != (want != "") {
				s.Errorf("goes on from %q (found %v), want %q", got, found, want)
			}
		}
		lease := s.acquire("job")
		resume("")
		first := s.start(lease.Token())
		if err := first.Progress(s.Context(), map[string]int{"page": 3}); err != nil {
			s.Fatal(err)
		}
		resume("") // it is still at work
		lease = s.takeOver("job", 1)
		resume(`{"page":3}`)
		c, _, _ := s.history.Resume(s.Context(), "job")
		var at struct{ Page int }
		if err := c.Decode(&at); err != nil || at.Page != 3 {
			s.Errorf("decoded %+v, %v", at, err)
		}
		s.start(lease.Token()) // abandoned before its first progress
		lease = s.takeOver("job", 2)
		resume(`{"page":3}`)
		failed := s.start(lease.Token())
		if err := failed.Progress(s.Context(), "bad"); err != nil {
			s.Fatal(err)
		}
		if _, err := failed.Fail(s.Context(), errors.New("no"), nil); err != nil {
			s.Fatal(err)
		}
		resume(`{"page":3}`)
		partial := s.start(lease.Token())
		if err := partial.Progress(s.Context(), 5); err != nil {
			s.Fatal(err)
		}
		if _, err := partial.Partial(s.Context(), nil); err != nil {
			s.Fatal(err)
		}
		resume("5")
		if _, err := s.start(lease.Token()).Finish(s.Context(), nil); err != nil {
			s.Fatal(err)
		}
		resume("")
	})
}

func TestRetentionPrunesInBatchesUnderItsOwnLease(t *testing.T) {
	onEach(t, run.Options{}, func(s *scene) {
		job := s.acquire("job").Token()
		for range 7 {
			if _, err := s.start(job).Finish(s.Context(), nil); err != nil {
				s.Fatal(err)
			}
		}
		keeper := s.acquire(run.RetentionLease)
		pruned, err := s.history.Keep(s.Context(), keeper.Token(), s.client, run.Retention{Runs: run.Limit{Count: 2}, Batch: 2})
		if err != nil || pruned.Runs != 5 || pruned.Events != 0 {
			s.Errorf("pruned %+v, %v", pruned, err)
		}
		if _, err := s.history.Keep(s.Context(), keeper.Token(), s.client, run.Retention{}); !errors.Is(err, fencepost.ErrInvalid) {
			s.Errorf("without limits: %v", err)
		}
		s.takeOver(run.RetentionLease, 1)
		pruned, err = s.history.Keep(s.Context(), keeper.Token(), s.client, run.Retention{Runs: run.Limit{Count: 1}})
		if !errors.Is(err, fencepost.ErrStale) || pruned.Runs != 0 {
			s.Errorf("a stale keeper pruned %+v, %v", pruned, err)
		}
	})
}

func TestTheObserverIsTold(t *testing.T) {
	onEach(t, run.Options{}, func(s *scene) {
		r := s.start(s.acquire("job").Token())
		if err := r.Progress(s.Context(), 1); err != nil {
			s.Fatal(err)
		}
		s.takeOver("job", 1)
		r.Finish(s.Context(), 1)
		want := []run.EventKind{run.Started, run.Progressed, run.Refused, run.Kept}
		if len(s.told) != len(want) {
			s.Fatalf("told %v, want %v", s.told, want)
		}
		for i := range want {
			if s.told[i] != want[i] {
				s.Errorf("told %v, want %v", s.told, want)
			}
		}
	})
}
