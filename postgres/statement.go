package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fencepost/fencepost"
)

// fenceable begin the statements that take part in a transaction like any write. CALL and DO are not among them: what they run
// may commit.
var fenceable = []string{"INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "SELECT", "CREATE", "ALTER", "DROP", "TRUNCATE", "REFRESH", "COMMENT", "GRANT", "REVOKE"}

// validateStatement accepts one statement. A server that gets several at once, by the simple protocol, would obey a COMMIT among them, and what
// follows it would not be fenced.
func validateStatement(text string) error {
	rest := skipBlank(text)
	word := rest[:len(rest)-len(strings.TrimLeftFunc(rest, isLetter))]
	if !slices.Contains(fenceable, strings.ToUpper(word)) {
		return fmt.Errorf("%w: a statement that begins with %q cannot be fenced; it must be one of %s",
			fencepost.ErrInvalid, word, strings.Join(fenceable, ", "))
	}
	previous := byte(' ')
	for rest != "" {
		c := rest[0]
		next := rest[1:]
		switch {
		case c == '\'' && (previous == 'e' || previous == 'E'):
			next = skipEscaped(rest[1:])
		case c == '\'' || c == '"':
			next = skipTo(rest[1:], rest[:1]) // a doubled quote is skipped as two texts
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "/*"):
			next = skipBlank(rest)
		case c == '$':
			if mark := dollarQuote.FindString(rest); mark != "" {
				next = skipTo(rest[len(mark):], mark)
			}
		case c == ';' && skipBlank(next) != "":
			return fmt.Errorf("%w: one statement at a time can be fenced; use Tx for several", fencepost.ErrInvalid)
		}
		previous, rest = c, next
	}
	return nil
}

var dollarQuote = regexp.MustCompile(`^\$([A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$`)

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// skipBlank skips white space and comments, which nest.
func skipBlank(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\r\n\f\v")
		switch {
		case strings.HasPrefix(s, "--"):
			s = skipTo(s, "\n")
		case strings.HasPrefix(s, "/*"):
			s = skipComment(s)
		default:
			return s
		}
	}
}

func skipComment(s string) string {
	for depth := 0; s != ""; {
		switch {
		case strings.HasPrefix(s, "/*"):
			depth, s = depth+1, s[2:]
		case strings.HasPrefix(s, "*/"):
			depth, s = depth-1, s[2:]
			if depth == 0 {
				return s
			}
		default:
			s = s[1:]
		}
	}
	return s
}

// skipEscaped skips the rest of an E'...' text.
func skipEscaped(s string) string {
	for s != "" {
		switch s[0] {
		case '\\':
			s = s[min(2, len(s)):]
		case '\'':
			return s[1:]
		default:
			s = s[1:]
		}
	}
	return s
}

// skipTo skips to after the end mark, or to the end of s.
func skipTo(s, end string) string {
	_, rest, _ := strings.Cut(s, end)
	return rest
}
