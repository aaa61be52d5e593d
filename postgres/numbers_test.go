package postgres_test

import (
	"errors"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// Fences are 64 bits wide everywhere: in columns, parameters, triggers and the error that a guard raises.
func TestFencesBeyondThirtyTwoAndFiftyThreeBits(t *testing.T) {
	for _, fence := range []int64{math.MaxInt32, math.MaxUint32, 1<<53 + 1, 1<<62 + 1, math.MaxInt64 - 1} {
		store, pool := openStore(t)
		run(t, pool, "CREATE TABLE work (n bigint NOT NULL)", "INSERT INTO work VALUES (0)")
		old := acquire(t, store, "job", long).Token
		if _, err := pool.Exec(t.Context(), "UPDATE fencepost_leases SET fence_token = $1, leased_until = NULL", fence); err != nil {
			t.Fatal(err)
		}
		token := acquire(t, store, "job", long).Token
		if token.Fence != fence+1 {
			t.Errorf("after %d came %d", fence, token.Fence)
		}
		if err := renew(t.Context(), store, token); err != nil {
			t.Error(err)
		}
		if _, err := store.Exec(t.Context(), token, "UPDATE work SET n = $1", token.Fence); err != nil {
			t.Error(err)
		}
		if err := store.Tx(t.Context(), token, func(pgx.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
		if n := read[int64](t, pool, "SELECT n FROM work"); n != token.Fence {
			t.Errorf("%d was written", n)
		}
		_, err := store.Exec(t.Context(), old, "UPDATE work SET n = 0")
		if stale, ok := errors.AsType[*fencepost.StaleError](err); !ok || stale.Current != token.Fence || stale.Presented != old.Fence || stale.Reason != fencepost.ReasonSuperseded {
			t.Errorf("%+v", err)
		}
		events, err := store.Events(t.Context(), fencepost.EventQuery{Lease: "job"})
		if err != nil {
			t.Fatal(err)
		}
		if e := events[len(events)-2]; e.Kind != fencepost.EventAcquired || e.Fence != token.Fence {
			t.Errorf("%+v", e)
		}
		if fence == math.MaxInt64-1 {
			// Used up: nobody may come after it, and nothing wraps around.
			if _, err := store.Release(t.Context(), token); err != nil {
				t.Error(err)
			}
			_, err := store.Acquire(t.Context(), request("job", long))
			if !errors.Is(err, fencepost.ErrInvalid) {
				t.Errorf("after the last fence: %v", err)
			}
			_, err = store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: token.Fence, Owner: "operator"})
			if !errors.Is(err, fencepost.ErrInvalid) {
				t.Errorf("a preemption of the last fence: %v", err)
			}
		}
	}
}

// Identity values that run out in some years stop everything then.
func TestNoColumnOfNumbersIsNarrow(t *testing.T) {
	_, pool := openStore(t)
	narrow := read[string](t, pool, `SELECT coalesce(string_agg(table_name || '.' || column_name, ' '), '') FROM information_schema.columns
		WHERE table_name IN ('fencepost_leases', 'fencepost_events') AND data_type IN ('smallint', 'integer', 'real', 'double precision', 'numeric')`)
	if narrow != "" {
		t.Error(narrow)
	}
}
