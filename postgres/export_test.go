package postgres

import (
	"testing"
	"time"
)

// SetOldTransaction makes transactions count as old sooner, for a test that runs alone.
func SetOldTransaction(t *testing.T, age time.Duration) {
	before := oldTransaction
	oldTransaction = age
	t.Cleanup(func() { oldTransaction = before })
}
