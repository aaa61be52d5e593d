// Package storetest says whether a [fencepost.Store] keeps the promises of the protocol.
//
// [Run] is the suite for every store. [Fencing] is the suite for databases whose own transactions can carry a fenced write.
// [Memory] is the reference that the suite compares with.
package storetest

import "context"

// FenceSetter is implemented by a store under test that can raise the fence of a name to any higher value, by means that the protocol does not have:
// the suite uses it to look at fences near the limits of the number types on the way. Without it those tests are skipped.
type FenceSetter interface {
	SetFence(ctx context.Context, name string, fence int64) error
}
