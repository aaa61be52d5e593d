package testenv

import (
	"crypto/rand"
	"strings"
	"testing"
)

// DatabaseName returns a name for a database of this test alone: lower-case letters, digits and underscores, at most 50
// bytes, safe without quotes on every engine, unique also across processes that share a server.
func DatabaseName(t testing.TB) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, t.Name())
	return "t_" + clean[:min(len(clean), 30)] + "_" + strings.ToLower(rand.Text()[:16])
}
