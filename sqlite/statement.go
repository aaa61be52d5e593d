package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost"
)

// fenceable begin the statements that take part in a transaction like any write.
var fenceable = []string{"INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "CREATE", "ALTER", "DROP"}

// validateStatement accepts one writing statement. The driver runs all statements of a text, and a COMMIT among them would end the
// transaction that the fence is in.
func validateStatement(text string) error {
	word, rest := firstWord(text)
	if !slices.Contains(fenceable, word) {
		return fmt.Errorf("%w: only one statement that writes can be fenced (%s), not one that begins with %q",
			fencepost.ErrInvalid, strings.Join(fenceable, ", "), word)
	}
	if word == "CREATE" {
		kind, after := firstWord(rest)
		if kind == "TEMP" || kind == "TEMPORARY" {
			kind, _ = firstWord(after)
		}
		if kind == "TRIGGER" { // its body is several statements
			return fmt.Errorf("%w: a trigger cannot be created by a fenced statement; use a migration", fencepost.ErrInvalid)
		}
	}
	for rest != "" {
		switch c := rest[0]; {
		case c == '\'' || c == '"' || c == '`':
			rest = skipTo(rest[1:], string(c)) // a doubled quote is skipped as two texts
		case c == '[':
			rest = skipTo(rest[1:], "]")
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "/*"):
			rest = skipBlank(rest)
		case c == ';':
			if rest = skipBlank(rest[1:]); rest != "" && rest[0] != ';' {
				return fmt.Errorf("%w: one statement at a time can be fenced; use Tx for several", fencepost.ErrInvalid)
			}
		default:
			rest = rest[1:]
		}
	}
	return nil
}

// firstWord returns the first word of s in capitals, and what follows it.
func firstWord(s string) (word, rest string) {
	s = skipBlank(s)
	rest = strings.TrimLeftFunc(s, isLetter)
	return strings.ToUpper(s[:len(s)-len(rest)]), rest
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// skipBlank skips white space and comments.
func skipBlank(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\r\n\f")
		switch {
		case strings.HasPrefix(s, "--"):
			s = skipTo(s, "\n")
		case strings.HasPrefix(s, "/*"):
			s = skipTo(s[2:], "*/")
		default:
			return s
		}
	}
}

// skipTo skips to after the end mark, or to the end of s.
func skipTo(s, end string) string {
	_, rest, _ := strings.Cut(s, end)
	return rest
}
