package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// A completion that comes while a takeover is in progress waits for it, and is refused.
func TestACompletionDuringATakeoverIsRefused(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			store := atLevel(t, level)
			token := acquire(t, store, "job", long).Token
			start(t, store, token, "one")
			takeover := begin(t, store.Pool(), pgx.TxOptions{})
			run(t, takeover, "UPDATE fencepost_leases SET fence_token = 2, owner_token = 'next' WHERE lease_name = 'job'")
			done := make(chan error, 1)
			go func() { _, _, err := finish(t, store, token, "one"); done <- err }()
			awaitBlocked(t, store.Pool(), "fencepost_guard")
			if err := takeover.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantStale(t, <-done, fencepost.ReasonSuperseded)
			if r := find(t, store, "one"); r.Status != fencepost.RunAbandoned || r.ReplacedBy != 2 || r.Result != nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A completion that has passed the guard keeps the takeover out until it is committed, and stands.
func TestATakeoverWaitsForACompletion(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			store := atLevel(t, level)
			token := acquire(t, store, "job", long).Token
			start(t, store, token, "one")
			gate := begin(t, store.Pool(), pgx.TxOptions{})
			run(t, gate, "SELECT FROM fencepost_runs WHERE run_id = 'one' FOR UPDATE")
			done := make(chan error, 1)
			go func() { _, _, err := finish(t, store, token, "one"); done <- err }()
			awaitBlocked(t, store.Pool(), "fencepost_runs AS r SET status")
			expire(t, store.Pool(), "job")
			_, err := store.Acquire(t.Context(), request("job", long))
			wantHeld(t, err, true)
			gate.Rollback(t.Context())
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			acquire(t, store, "job", long)
			if r := find(t, store, "one"); r.Status != fencepost.RunSucceeded || r.ReplacedBy != 0 {
				t.Errorf("%+v", r)
			}
			// It was finished: the token that is stale by now is told so.
			if _, already, err := finish(t, store, token, "one"); err != nil || !already {
				t.Errorf("%v, %v", already, err)
			}
			if n := read[int](t, store.Pool(), "SELECT count(*)::int FROM fencepost_events WHERE kind = 'stale_refused'"); n != 0 {
				t.Errorf("%d refusals recorded", n)
			}
		})
	}
}

// A takeover that was waiting while the run was started ends that run too, also where its snapshot is older than the run.
func TestATakeoverEndsARunThatItsSnapshotDoesNotShow(t *testing.T) {
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			store := atLevel(t, level)
			token := acquire(t, store, "job", long).Token
			starting := begin(t, store.Pool(), pgx.TxOptions{})
			if err := store.Guard(t.Context(), starting, token); err != nil {
				t.Fatal(err)
			}
			taken := make(chan error, 1)
			go func() {
				_, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: token.Fence, Owner: "operator", TTL: long})
				taken <- err
			}()
			awaitBlocked(t, store.Pool(), "preempted AS")
			start(t, store, token, "one")
			if err := starting.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-taken; err != nil {
				t.Fatal(err)
			}
			if r := find(t, store, "one"); r.Status != fencepost.RunAbandoned || r.ReplacedBy != token.Fence+1 {
				t.Errorf("%+v", r)
			}
			if n := read[int](t, store.Pool(), "SELECT count(*)::int FROM fencepost_runs"); n != 1 {
				t.Errorf("%d runs on the books", n)
			}
		})
	}
}

// Losing the reply to a completion loses nothing: the second try learns that the first one was it.
func TestACompletionWhoseReplyIsLost(t *testing.T) {
	direct, pool := openStore(t)
	store, proxy := viaProxy(t, pool, nil)
	token := acquire(t, direct, "job", long).Token
	const rounds = 20
	for round := range rounds {
		id := string(rune('a' + round))
		proxy.DropNextReply("fencepost_runs (run_id")
		if _, err := store.StartRun(t.Context(), fencepost.RunStart{Token: token, ID: id}); !errors.Is(err, fencepost.ErrUnknown) {
			t.Fatalf("the start whose reply was lost: %v", err)
		}
		start(t, store, token, id)
		proxy.DropNextReply("fencepost_runs AS r SET status")
		if _, already, err := finish(t, store, token, id); !errors.Is(err, fencepost.ErrUnknown) || already {
			t.Fatalf("the completion whose reply was lost: %v, %v", already, err)
		}
		if _, already, err := finish(t, store, token, id); err != nil || !already {
			t.Fatalf("the second try: %v, %v", already, err)
		}
	}
	if n := read[int](t, pool, "SELECT count(*)::int FROM fencepost_runs WHERE status = 'succeeded'"); n != rounds {
		t.Errorf("%d runs, want %d", n, rounds)
	}
}
