package sqlstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/internal/sqlstore"
)

var (
	errDeadlock = errors.New("deadlock")
	errFinal    = errors.New("final")
)

func isDeadlock(err error) bool { return errors.Is(err, errDeadlock) }

func TestRetryGoesOnWhileTheDatabaseAsksForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := sqlstore.Retry(t.Context(), isDeadlock, func() error {
			if n++; n < 10 {
				return errDeadlock
			}
			return nil
		})
		if err != nil || n != 10 {
			t.Errorf("%d tries, %v", n, err)
		}
	})
}

func TestRetryStopsAtWhatItMustNotRepeat(t *testing.T) {
	n := 0
	if err := sqlstore.Retry(t.Context(), isDeadlock, func() error { n++; return errFinal }); !errors.Is(err, errFinal) || n != 1 {
		t.Errorf("%d tries, %v", n, err)
	}
}

func TestRetryEndsWithItsContextAndSaysWhatTheDatabaseSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := sqlstore.Retry(ctx, isDeadlock, func() error { return errDeadlock }); !errors.Is(err, errDeadlock) {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}
