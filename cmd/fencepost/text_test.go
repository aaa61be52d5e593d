package main

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/fencepost/fencepost"
)

func TestHarmlessShowsWhatDoesNotPrint(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain é 🔒":      "plain é 🔒",
		"a\x1b[31mb\x07": `a\x1b[31mb\a`,
		"line\nline\r\t": `line\nline\r\t`,
		"\u202eabc":      `\u202eabc`,
		"a\xffb":         `a\xffb`,
		"\u0085":         `\u0085`,
		"\ufffd":         "\ufffd",
		"":               "",
	} {
		if got := harmless(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

func TestAShellReadsAQuotedTextAsItIs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a b", "it's", "$(id)", "`id`", `\`, `"`, "a\nb", "*", "~", "!x", "''", "é🔒", "-n"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "x="+shellQuote(text)+`; printf '%s' "$x"`).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q is read as %q, %v", text, out, err)
		}
	}
}

func TestRedactingFindsPasswords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ url, text, want string }{
		{"postgres://u:hunter22@h/d", "cannot connect to postgres://u:hunter22@h/d", "cannot connect to postgres://u:***@h/d"},
		{"postgres://u:hunter22@h/d", "password hunter22 is wrong", "password *** is wrong"},
		{"postgres://u:hunter%2022@h/d", "password hunter 22 is wrong, hunter%2022", "password *** is wrong, ***"},
		{"postgres://u@h/d?password=hunter22", "hunter22", "***"},
		{"mysql://u:p%zz@ss@h/d", "mysql://u:p%zz@ss@h/d", "mysql://u:***@h/d"},
		{"sqlite:x.db", "see mysql://other:pw@h", "see mysql://other:***@h"},
		{"postgres://u:pw@h/d", "a shower of pwords at 12:30", "a shower of pwords at 12:30"},
		{"postgres://u:hunter22@h/d", "invalid name", "invalid name"},
	} {
		if got := (&place{url: tc.url}).redact(tc.text); got != tc.want {
			t.Errorf("%s: %q became %q, want %q", tc.url, tc.text, got, tc.want)
		}
	}
}

func TestErrorsHaveTheirExitCodes(t *testing.T) {
	t.Parallel()
	lost := errors.New("broken pipe")
	for _, tc := range []struct {
		err  error
		code int
		name string
	}{
		{&fencepost.HeldError{Lease: "j"}, 75, "held"},
		{fmt.Errorf("waiting ended: %w; last answer: %w", lost, &fencepost.HeldError{Lease: "j"}), 75, "held"},
		{fmt.Errorf("%w: row locked", fencepost.ErrBusy), 75, "held"},
		{&fencepost.StaleError{Lease: "j", Reason: fencepost.ReasonExpired}, 76, "stale"},
		{&fencepost.StaleError{Lease: "j", Reason: fencepost.ReasonLocalDeadline, Err: fencepost.ErrUnavailable}, 76, "stale"},
		{fmt.Errorf("%w: %w", fencepost.ErrUnknown, lost), 74, "unknown"},
		{fmt.Errorf("%w: %w", fencepost.ErrUnknown, fencepost.ErrUnavailable), 74, "unknown"},
		{fmt.Errorf("%w: %w", fencepost.ErrUnavailable, lost), 69, "unavailable"},
		{fmt.Errorf("%w: no", fencepost.ErrInvalid), 64, "invalid"},
		{usagef("no"), 64, "invalid"},
		{lost, 1, "failed"},
	} {
		if f := describe(tc.err); f.exit != tc.code || f.Error != tc.name {
			t.Errorf("%v: %+v", tc.err, f)
		}
	}
	if got := message(errors.New("one\n  two\r\n\tthree\x1b")); got != `one; two; three\x1b` {
		t.Errorf("%q", got)
	}
}
