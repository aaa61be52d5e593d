// Package fencepost gives out fenced leases on the database a team already has.
//
// A lease decides who may start a singleton job. A fence decides who may still finish it: the token that
// TryAcquire or Acquire hands out travels to every write, and the database itself refuses a write whose token is no longer the newest.
//
//	client := fencepost.New(store, fencepost.Options{TTL: 30 * time.Second})
//	err := client.Do(ctx, "admin:reconciliation", func(ctx context.Context, l *fencepost.Lease) error {
//		_, err := postgres.Exec(ctx, pool, l.Token(), "UPDATE ...")
//		return err
//	})
//
// This package holds the protocol and knows no database. The packages postgres, mysql and sqlite each provide a [Store]
// and the fenced writes Guard, Tx and Exec.
//
// Three clocks appear in the documentation. The database's clock alone decides whether a lease has expired. The holder's
// monotonic clock, counted from before a request was sent, can only make the holder stop earlier. Wall clocks of
// clients decide nothing.
package fencepost

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxNameBytes is the longest lease name, in bytes of UTF-8.
const MaxNameBytes = 200

// MaxHolderBytes is the longest holder label that is kept; a longer one is cut at a character boundary.
const MaxHolderBytes = 255

// Limits of a TTL unless [Options] says otherwise.
const (
	DefaultMinTTL = time.Second
	DefaultMaxTTL = 24 * time.Hour
)

// Token is what every write carries: it names one acquisition. It is a value, handed out once; it is never read again
// from the database, because a stale holder would read its successor's.
type Token struct {
	Name  string // the lease's name
	Owner string // random, new at every acquisition
	Fence int64  // grows at every takeover and preemption of Name, never reused
}

// String names the lease and its fence. The owner token is left out: who can read a log must not be able to act as the holder.
func (t Token) String() string {
	return strconv.Quote(t.Name) + " fence " + strconv.FormatInt(t.Fence, 10)
}

// LogValue logs the name and the fence, never the owner token.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(slog.String("lease", t.Name), slog.Int64("fence", t.Fence))
}

// Validate reports, as [ErrInvalid], a token that no acquisition can have handed out. It asks no database.
func (t Token) Validate() error {
	if err := ValidateName(t.Name); err != nil {
		return err
	}
	if t.Owner == "" {
		return invalidf("the owner token is empty; pass the one that the acquisition handed out")
	}
	if len(t.Owner) > MaxHolderBytes || !printable(t.Owner) {
		return invalidf("the owner token is not one that an acquisition hands out: at most %d bytes of UTF-8 without control characters", MaxHolderBytes)
	}
	if t.Fence < 1 {
		return invalidf("the fence token is %d; fences start at 1", t.Fence)
	}
	return nil
}

// ValidateName reports, as [ErrInvalid], a name that cannot be a lease's: names are 1 to [MaxNameBytes] bytes of UTF-8
// without control characters, and are compared byte for byte on every database.
func ValidateName(name string) error {
	switch {
	case name == "":
		return invalidf("the lease name is empty; it must be 1 to %d bytes", MaxNameBytes)
	case len(name) > MaxNameBytes:
		return invalidf("the lease name has %d bytes; at most %d are allowed", len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return invalidf("the lease name %q is not valid UTF-8", name)
	case !printable(name):
		return invalidf("the lease name %q contains a control character", name)
	}
	return nil
}

func printable(s string) bool {
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// ValidateTTL reports, as [ErrInvalid], a TTL outside [lowest, highest] or not in whole milliseconds: that is what every
// database keeps, and a grant must not differ from what was asked.
func ValidateTTL(ttl, lowest, highest time.Duration) error {
	switch {
	case ttl <= 0:
		return invalidf("the TTL is %v; it must be positive", ttl)
	case ttl < lowest:
		return invalidf("the TTL is %v; at least %v is needed", ttl, lowest)
	case ttl > highest:
		return invalidf("the TTL is %v; at most %v is allowed", ttl, highest)
	case ttl%time.Millisecond != 0:
		return invalidf("the TTL is %v; whole milliseconds are needed", ttl)
	}
	return nil
}

// NextFence is fence + 1, or [ErrInvalid] where that would overflow: a fence is never reused, so the name is used up.
func NextFence(fence int64) (int64, error) {
	if fence == math.MaxInt64 {
		return 0, invalidf("the fence is %d, the last there is", fence)
	}
	return fence + 1, nil
}

// newOwner returns a new owner token: at least 128 random bits, so that two acquisitions never share one, also when
// host name, pid and label are the same.
func newOwner() string { return rand.Text() }

// HolderLabel makes any label storable: valid UTF-8, no control characters, at most [MaxHolderBytes].
func HolderLabel(label string) string {
	clean := make([]byte, 0, len(label))
	for _, r := range label { // an invalid byte arrives as U+FFFD
		if unicode.IsControl(r) {
			r = utf8.RuneError
		}
		if len(clean)+utf8.RuneLen(r) > MaxHolderBytes {
			break
		}
		clean = utf8.AppendRune(clean, r)
	}
	return string(clean)
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
