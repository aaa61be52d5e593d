package mysql

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost"
)

// literal is a value as SQL text. Only the functions below make one, and what they make has no character that could end a
// literal: statements need no placeholders, so each is one packet and one round trip whatever the caller's driver settings are.
type literal string

// bytesLiteral is a binary string: the connection's character set and the SQL mode do not matter to it.
func bytesLiteral(s string) literal { return literal("x'" + hex.EncodeToString([]byte(s)) + "'") }

func intLiteral(n int64) literal { return literal(strconv.FormatInt(n, 10)) }

// tokensLiteral is a JSON array of [name, owner, fence], with the strings in hexadecimal.
func tokensLiteral(tokens []fencepost.Token) literal {
	var b strings.Builder
	b.WriteString("'[")
	for i, t := range tokens {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`["` + hex.EncodeToString([]byte(t.Name)) + `","` + hex.EncodeToString([]byte(t.Owner)) + `",` + strconv.FormatInt(t.Fence, 10) + `]`)
	}
	b.WriteString("]'")
	return literal(b.String())
}

// values are the named values of a statement, without the colon that marks them in the .sql files.
type values map[string]literal

var namedValue = regexp.MustCompile(`:[a-z_]+`)

// fill puts values into a statement. A value that is missing is a fault of this package, found by its first test.
func fill(statement string, v values) string {
	return namedValue.ReplaceAllStringFunc(statement, func(name string) string {
		value, ok := v[name[1:]]
		if !ok {
			panic(fmt.Sprintf("mysql: no value for %s in %q", name, statement))
		}
		return string(value)
	})
}

func tokenValues(t fencepost.Token) values {
	return values{"name": bytesLiteral(t.Name), "owner": bytesLiteral(t.Owner), "fence": intLiteral(t.Fence)}
}
