package run

import (
	"context"
	"encoding/json"

	"github.com/fencepost/fencepost"
)

// Checkpoint is where an earlier run came to.
type Checkpoint struct {
	Run fencepost.Run // with its Progress
}

// Decode reads the progress into v.
func (c Checkpoint) Decode(v any) error {
	if err := json.Unmarshal(c.Run.Progress, v); err != nil {
		return invalidf("the progress of run %q is not what this program reads: %v", c.Run.ID, err)
	}
	return nil
}

// resumePage is how many runs are looked at in one read.
const resumePage = 50

// Resume finds where the work of a lease goes on: the last progress of the newest run that ended partial, abandoned or stalled, or that is lost,
// and reported any. A run that succeeded after it leaves nothing to resume. Failed runs are passed over: their last word is not
// trusted, the one before is. The answer is of the moment: ask under the lease.
func (h *History) Resume(ctx context.Context, lease string) (Checkpoint, bool, error) {
	if err := fencepost.ValidateName(lease); err != nil {
		return Checkpoint{}, false, err
	}
	before := int64(0)
	for {
		page, err := h.store.ListRuns(ctx, fencepost.RunQuery{Lease: lease, Before: before, Limit: resumePage})
		if err != nil {
			return Checkpoint{}, false, err
		}
		for _, r := range page {
			before = r.Seq
			switch {
			case r.Status == fencepost.RunSucceeded:
				return Checkpoint{}, false, nil
			case r.Status == fencepost.RunPartial, r.Status.Again(), r.Status == fencepost.RunRunning && r.Lost:
				whole, found, err := h.store.FindRun(ctx, r.ID)
				if err != nil {
					return Checkpoint{}, false, err
				}
				if found && whole.Progress != nil {
					return Checkpoint{whole}, true, nil
				}
			}
		}
		if len(page) < resumePage {
			return Checkpoint{}, false, nil
		}
	}
}
