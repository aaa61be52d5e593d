package storetest_test

import (
	"testing"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/storetest"
)

func TestTheReferencePassesItsOwnSuite(t *testing.T) {
	storetest.Run(t, func(*testing.T) fencepost.Store { return storetest.NewMemory() })
}
