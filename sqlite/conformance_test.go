package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
	"github.com/fencepost/fencepost/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) fencepost.Store {
		s, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "leases.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}
