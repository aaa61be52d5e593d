package sqlstore

import (
	"context"
	"math/rand/v2"
	"time"
)

// Retry runs op until it succeeds or fails with something that again does not accept, while ctx lasts, with a growing pause
// that is different for every caller: deadlocks and serialization failures repeat when all retry in step. It returns
// the last error of op, so that the end of ctx does not hide what the database said.
func Retry(ctx context.Context, again func(error) bool, op func() error) error {
	pause := 2 * time.Millisecond
	for {
		err := op()
		if err == nil || !again(err) || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}
