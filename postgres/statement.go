package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost"
)

// fenceable begin the statements that stay within the transaction they are sent in. CALL and DO are not among them, because what they
// run may commit, nor is anything that the server runs in transactions of its own.
var fenceable = []string{"INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "SELECT"}

func validateStatement(text string) error {
	word := strings.ToUpper(firstWord(text))
	if slices.Contains(fenceable, word) {
		return nil
	}
	if word == "" {
		return fmt.Errorf("%w: there is no statement to run", fencepost.ErrInvalid)
	}
	return fmt.Errorf("%w: Exec runs one %s, not %s: use Tx for other work, but nothing in it may commit or roll back",
		fencepost.ErrInvalid, strings.Join(fenceable, ", "), word)
}

// firstWord skips white space and comments.
func firstWord(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n\f\v(")
		switch {
		case strings.HasPrefix(text, "--"):
			_, text, _ = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			text = skipComment(text)
		default:
			end := strings.IndexFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' })
			switch {
			case end < 0:
				return text
			case end == 0:
				return text[:1]
			}
			return text[:end]
		}
	}
}

// skipComment skips a comment; they nest.
func skipComment(text string) string {
	for depth := 0; text != ""; {
		switch {
		case strings.HasPrefix(text, "/*"):
			depth, text = depth+1, text[2:]
		case strings.HasPrefix(text, "*/"):
			depth, text = depth-1, text[2:]
			if depth == 0 {
				return text
			}
		default:
			text = text[1:]
		}
	}
	return ""
}
