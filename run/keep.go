package run

import (
	"context"
	"time"

	"github.com/fencepost/fencepost"
)

// RetentionLease is the lease of the job that prunes the books.
const RetentionLease = "fencepost:retention"

// Limit says what is kept. A row goes when either limit says so; zero means no such limit.
type Limit struct {
	Age   time.Duration // by the database's clock
	Count int           // per lease
}

// Retention says how long runs and events are kept. Open runs, the newest run of a lease and its newest slot stay in any case; dead letters are
// never pruned: somebody has to adopt or drop them.
type Retention struct {
	Runs, Events Limit
	Batch        int // rows per statement; default 500
}

const defaultBatch = 500

// Pruned is what a retention did.
type Pruned struct {
	Runs   int64 `json:"runs"`   // deleted
	Events int64 `json:"events"` // deleted
}

// LeaseLister lists leases: a *[fencepost.Client] or a store.
type LeaseLister interface {
	List(ctx context.Context, q fencepost.ListQuery) ([]fencepost.LeaseInfo, error)
}

// Keep prunes runs and events of all leases, in small batches, each a fenced write of t: use it as the function of a singleton job with the
// lease [RetentionLease]. It stops at the first error; what was deleted until then is in Pruned. A lost lease is a
// *[fencepost.StaleError].
func (h *History) Keep(ctx context.Context, t fencepost.Token, leases LeaseLister, r Retention) (Pruned, error) {
	var kept Pruned
	if r.Batch == 0 {
		r.Batch = defaultBatch
	}
	for _, l := range []Limit{r.Runs, r.Events} {
		if l.Age < 0 || l.Count < 0 || r.Batch < 0 {
			return kept, invalidf("limits of the retention cannot be negative: age %v, count %d, batch %d", l.Age, l.Count, r.Batch)
		}
	}
	if r.Runs == (Limit{}) && r.Events == (Limit{}) {
		return kept, invalidf("the retention has no limit: give an age or a count for runs or events")
	}
	after := ""
	for {
		page, err := leases.List(ctx, fencepost.ListQuery{After: after})
		if err != nil || len(page) == 0 {
			return kept, err
		}
		for _, lease := range page {
			after = lease.Name
			n, err := h.prune(ctx, t, lease.Name, false, r.Runs, r.Batch)
			kept.Runs += n
			if err != nil {
				return kept, err
			}
			n, err = h.prune(ctx, t, lease.Name, true, r.Events, r.Batch)
			kept.Events += n
			if err != nil {
				return kept, err
			}
		}
	}
}

func (h *History) prune(ctx context.Context, t fencepost.Token, lease string, events bool, l Limit, batch int) (total int64, err error) {
	if l == (Limit{}) {
		return 0, nil
	}
	for {
		n, err := h.store.Prune(ctx, fencepost.PruneRequest{Token: t, Lease: lease, Events: events, OlderThan: l.Age, Keep: l.Count, Limit: batch})
		total += n
		if err != nil || n < int64(batch) {
			return total, err
		}
		if err := context.Cause(ctx); err != nil {
			return total, err
		}
	}
}
