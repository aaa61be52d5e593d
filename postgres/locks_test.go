package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

// Heartbeats that queue behind the row locks of long transactions lose their leases.
func TestRenewalsDoNotQueueBehindLocks(t *testing.T) {
	store, pool := openStore(t)
	guarded, locked, other := acquire(t, store, "guarded", long), acquire(t, store, "locked", long), acquire(t, store, "other", long)
	guarding := begin(t, pool, pgx.TxOptions{})
	if err := store.Guard(t.Context(), guarding, guarded.Token); err != nil {
		t.Fatal(err)
	}
	run(t, begin(t, pool, pgx.TxOptions{}), "SELECT FROM fencepost_leases WHERE lease_name = 'locked' FOR UPDATE")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	renewals, err := store.Renew(ctx, []fencepost.Token{guarded.Token, locked.Token, other.Token})
	if err != nil {
		t.Fatal(err)
	}
	for i, before := range []fencepost.Grant{guarded, locked, other} {
		r := renewals[i]
		if before.Token.Name == "locked" {
			if !errors.Is(r.Err, fencepost.ErrBusy) || errors.Is(r.Err, fencepost.ErrStale) {
				t.Errorf("the locked lease: %v, want busy", r.Err)
			}
			continue
		}
		if r.Err != nil || !r.LeasedUntil.After(before.LeasedUntil) {
			t.Errorf("%s: %+v, was leased until %v", before.Token.Name, r, before.LeasedUntil)
		}
	}
	run(t, guarding, "SELECT 1")
	if err := guarding.Commit(t.Context()); err != nil {
		t.Errorf("the guarded transaction, after the renewal of its lease: %v", err)
	}
}

// The end of the lease comes in the middle of a fenced write: nobody gets it before the write has committed, and who tries is told at once.
func TestAnAcquisitionNeverQueuesBehindAGuard(t *testing.T) {
	store, pool := openStore(t)
	token := acquire(t, store, "job", long).Token
	guarding := begin(t, pool, pgx.TxOptions{})
	if err := store.Guard(t.Context(), guarding, token); err != nil {
		t.Fatal(err)
	}
	expire(t, pool, "job")
	for range 3 {
		_, err := store.Acquire(t.Context(), request("job", long))
		if held := wantHeld(t, err, true); held.Fence != token.Fence || held.Remaining != 0 {
			t.Errorf("refused as %+v", held)
		}
	}
	if err := guarding.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	acquire(t, store, "job", long)
}

func TestAPreemptionWaitsForAFencedWriteAndNoLongerThanItsCaller(t *testing.T) {
	store, pool := openStore(t)
	run(t, pool, "CREATE TABLE work (done boolean NOT NULL)", "INSERT INTO work VALUES (false)")
	token := acquire(t, store, "job", long).Token
	guarding := begin(t, pool, pgx.TxOptions{})
	if err := store.Guard(t.Context(), guarding, token); err != nil {
		t.Fatal(err)
	}
	preempt := func(ctx context.Context) error {
		_, err := store.Preempt(ctx, fencepost.PreemptRequest{Name: "job", Fence: 1, Owner: "operator", Actor: "operator", Reason: "it hangs"})
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- preempt(ctx) }()
	awaitBlocked(t, pool, "preempted AS")
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) || errors.Is(err, fencepost.ErrStale) {
		t.Errorf("the preemption that was given up: %v", err)
	}
	// What it left behind on the server must not preempt for nobody.
	eventually(t, "the end of the statement on the server", func() bool {
		return !read[bool](t, pool, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE '%preempted AS%' AND pid <> pg_backend_pid())")
	})

	done := make(chan error, 1)
	go func() { done <- preempt(t.Context()) }()
	awaitBlocked(t, pool, "preempted AS")
	// It goes on waiting beyond the bound of a single statement.
	run(t, guarding, "UPDATE work SET done = true", "SELECT pg_sleep(1.5)")
	if err := guarding.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the preemption that waited: %v", err)
	}
	if !read[bool](t, pool, "SELECT done FROM work") || inspect(t, store, "job").Fence != 2 {
		t.Error("the write that came first is lost, or the lease was not preempted")
	}
}

// A process that died while its statement waited cannot cancel it: the server gives up soon, and a living process asks again.
func TestAWaitingStatementEndsWithoutItsClient(t *testing.T) {
	for text, op := range map[string]func(context.Context, *postgres.Store, fencepost.Token) error{
		"SET wanted": func(ctx context.Context, s *postgres.Store, _ fencepost.Token) error {
			_, err := s.Want(ctx, "job")
			return err
		},
		"released AS": func(ctx context.Context, s *postgres.Store, t fencepost.Token) error {
			_, err := s.Release(ctx, t)
			return err
		},
		"preempted AS": func(ctx context.Context, s *postgres.Store, t fencepost.Token) error {
			_, err := s.Preempt(ctx, fencepost.PreemptRequest{Name: "job", Fence: t.Fence, Owner: "operator"})
			return err
		},
	} {
		t.Run(text, func(t *testing.T) {
			store, pool := openStore(t)
			token := acquire(t, store, "job", long).Token
			holding := begin(t, pool, pgx.TxOptions{})
			run(t, holding, "SELECT FROM fencepost_leases WHERE lease_name = 'job' FOR UPDATE")
			done := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { done <- op(ctx, store, token) }()
			awaitBlocked(t, pool, text)
			first := read[time.Time](t, pool, "SELECT query_start FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()", text)
			eventually(t, "a second try", func() bool {
				return read[bool](t, pool, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query_start > $1 AND query LIKE '%' || $2 || '%' AND pid <> pg_backend_pid())", first, text)
			})
			if err := holding.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// Lease names are few and stay: whoever asks for a new one while another creates it has to get an answer all the same.
func TestANameThatIsBeingCreatedIsWaitedFor(t *testing.T) {
	store, pool := openStore(t)
	creating := begin(t, pool, pgx.TxOptions{})
	run(t, creating, "INSERT INTO fencepost_leases (lease_name, owner_token, fence_token, leased_until, ttl_ms) VALUES ('job', 'first', 1, clock_timestamp() + interval '1 h', 3600000)")
	refused := make(chan error, 1)
	go func() {
		_, err := store.Acquire(t.Context(), request("job", long))
		refused <- err
	}()
	awaitBlocked(t, pool, "created AS")
	if err := creating.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held := wantHeld(t, <-refused, false); held.Fence != 1 {
		t.Errorf("refused as %+v", held)
	}
}

// Another program takes a lease over by a plain UPDATE, without the locks that this package takes first: because the fence is part of a key, it has to
// wait for a guard all the same, while one that changes no key does not.
func TestATakeoverByAnotherProgramWaitsForAGuard(t *testing.T) {
	store, pool := openStore(t)
	token := acquire(t, store, "job", long).Token
	guarding := begin(t, pool, pgx.TxOptions{})
	if err := store.Guard(t.Context(), guarding, token); err != nil {
		t.Fatal(err)
	}
	run(t, pool, "UPDATE fencepost_leases SET leased_until = leased_until + interval '1 s' WHERE lease_name = 'job'")
	done := make(chan error, 1)
	go func() {
		_, err := pool.Exec(t.Context(), "UPDATE fencepost_leases SET owner_token = 'by hand', fence_token = fence_token + 1 WHERE lease_name = 'job'")
		done <- err
	}()
	awaitBlocked(t, pool, "by hand")
	if err := guarding.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantStale(t, store.Check(t.Context(), token), fencepost.ReasonSuperseded)
}
