package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

// Whoever traces fenced writes hears of every one once, and how it ended.
func TestFencedWritesAreTold(t *testing.T) {
	store, _ := openStore(t)
	token := acquire(t, store, "job", long).Token
	stale := token
	stale.Fence++
	var heard []string
	ctx := fencepost.WithWriteHook(t.Context(), func(ctx context.Context, write string, token fencepost.Token) (context.Context, func(error)) {
		return ctx, func(err error) {
			outcome := "fine"
			switch {
			case errors.Is(err, fencepost.ErrStale):
				outcome = "stale"
			case err != nil:
				outcome = "failed"
			}
			heard = append(heard, fmt.Sprintf("%s of %d: %s", write, token.Fence, outcome))
		}
	})
	for _, token := range []fencepost.Token{token, stale} {
		store.Exec(ctx, token, "SELECT 1")
		postgres.Exec(ctx, store.Pool(), token, "SELECT 1")
		store.Tx(ctx, token, func(pgx.Tx) error { return nil })
		postgres.Tx(ctx, store.Pool(), token, func(pgx.Tx) error { return nil })
		store.StartRun(ctx, fencepost.RunStart{Token: token, ID: "one"})
		store.ReportRun(ctx, fencepost.RunReport{Token: token, ID: "one"})
		store.FinishRun(ctx, fencepost.RunFinish{Token: token, ID: "one", Status: fencepost.RunFailed})
		store.AdoptLetter(ctx, fencepost.Adoption{Token: token, Letter: 1, RunID: "two"})
		store.Prune(ctx, fencepost.PruneRequest{Token: token, Lease: "job", Limit: 1})
	}
	func() {
		defer func() { recover() }()
		store.Tx(ctx, token, func(pgx.Tx) error { panic("a bug") })
	}()
	want := []string{
		"exec of 1: fine", "exec of 1: fine", "tx of 1: fine", "tx of 1: fine", "start_run of 1: fine", "report_run of 1: fine", "finish_run of 1: fine",
		"adopt_letter of 1: failed", "prune of 1: fine",
		"exec of 2: stale", "exec of 2: stale", "tx of 2: stale", "tx of 2: stale", "start_run of 2: stale", "report_run of 2: stale", "finish_run of 2: stale",
		"adopt_letter of 2: stale", "prune of 2: stale",
		"tx of 1: failed",
	}
	if !slices.Equal(heard, want) {
		t.Errorf("heard\n%q, want\n%q", heard, want)
	}
}
