package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// output is stdout: one JSON value, or people's text.
type output struct {
	stdout  io.Writer
	json    bool
	written bool
}

// print writes v as JSON, or else calls text with a writer whose columns are aligned.
func (o *output) print(v any, text func(w io.Writer)) error {
	if o.json {
		return o.value(v)
	}
	o.written = true
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	text(w)
	w.Flush()
	_, err := io.WriteString(o.stdout, b.String())
	return err
}

// value writes one JSON value on a line of its own. Fences are written digit by digit, never as floating-point numbers.
func (o *output) value(v any) error {
	o.written = true
	b, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = o.stdout.Write(b)
	return err
}

func marshal(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// harmless makes a text that others chose safe for a terminal: what does not print is shown as an escape, so that a label cannot move the
// cursor, recolour the screen, reverse a line or begin a new one.
func harmless(s string) string {
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// shellQuote makes a text one word for a POSIX shell, whatever is in it.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// instant is a time of the database in JSON, in UTC; null where there is none.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// showTime is a time of the database for people.
func showTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// orDash shows an empty cell of a table.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return harmless(s)
}

// lineHandler writes the library's warnings as lines like the program's own errors.
type lineHandler struct {
	to    io.Writer
	attrs []slog.Attr
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (h *lineHandler) Handle(ctx context.Context, r slog.Record) error {
	if ctx.Err() != nil {
		return nil // what ended it is said by itself
	}
	var b strings.Builder
	b.WriteString("fencepost: " + r.Message)
	separator := ": "
	add := func(attr slog.Attr) bool {
		fmt.Fprintf(&b, "%s%s %v", separator, attr.Key, attr.Value.Resolve())
		separator = ", "
		return true
	}
	for _, attr := range h.attrs {
		add(attr)
	}
	r.Attrs(add)
	_, err := io.WriteString(h.to, harmless(b.String())+"\n")
	return err
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lineHandler{to: h.to, attrs: append(append([]slog.Attr{}, h.attrs...), attrs...)}
}

func (h *lineHandler) WithGroup(string) slog.Handler { return h }
