package mysql

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/fencepost/fencepost"
)

var awkward = []string{
	"", "job", "it's", `a\`, `\'; DROP TABLE x; -- `, "\x00\x01\x1a", "\xbf\x27", "🔒", "e\u0301", "名前", `"`, "`", "?", ":name", "%_", "x'41'", strings.Repeat("😀", 50),
}

// What a caller passes must not be able to end a literal.
func TestLiteralsCannotBeLeft(t *testing.T) {
	form := regexp.MustCompile(`^x'([0-9a-f]{2})*'$`)
	list := regexp.MustCompile(`^'\[(\["[0-9a-f]*","[0-9a-f]*",-?[0-9]+\],?)*\]'$`)
	for _, text := range awkward {
		if l := string(bytesLiteral(text)); !form.MatchString(l) {
			t.Errorf("%q became %s", text, l)
		}
		l := string(tokensLiteral([]fencepost.Token{{Name: text, Owner: text, Fence: 1}, {Name: text, Owner: text, Fence: 1<<63 - 1}}))
		if !list.MatchString(l) || !json.Valid([]byte(strings.Trim(l, "'"))) {
			t.Errorf("%q became %s", text, l)
		}
	}
	for _, n := range []int64{0, -1, 1<<63 - 1, -1 << 63} {
		if l := string(intLiteral(n)); !regexp.MustCompile(`^-?[0-9]+$`).MatchString(l) {
			t.Errorf("%d became %s", n, l)
		}
	}
}

// A value that looks like the name of another one stays a value.
func TestValuesAreFilledInOnce(t *testing.T) {
	v := values{"a": literal("':b'"), "b": literal("2")}
	if got := fill("SELECT :a, :b, '+00:00'", v); got != "SELECT ':b', 2, '+00:00'" {
		t.Error(got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a value that is missing was left out silently")
		}
	}()
	fill("SELECT :missing", v)
}

// Both servers must read every statement the way its file says.
func TestStatementsSetTheZoneTheyRead(t *testing.T) {
	for name, text := range defaultStatements() {
		if !strings.Contains(text, "SYSDATE") && !strings.Contains(text, "fencepost_leases") {
			continue
		}
		if strings.Contains(text, "NOW(") && name != "clock_shift" || strings.Contains(text, "CURRENT_TIMESTAMP") {
			t.Errorf("%s reads the clock of the statement's start", name)
		}
		if !strings.Contains(text, "SYSDATE") {
			continue
		}
		if !strings.Contains(text, "/*M! SET STATEMENT time_zone='+00:00'") || !strings.Contains(text, "SET_VAR(time_zone='+00:00')") {
			t.Errorf("%s reads SYSDATE in the session's zone", name)
		}
		if strings.Contains(text, "--") {
			t.Errorf("%s travels with its comments:\n%s", name, text)
		}
	}
}
