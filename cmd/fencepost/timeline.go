package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// timeline prints the demo as it happens; with JSON it prints nothing.
type timeline struct {
	out    io.Writer
	quiet  bool
	colour bool
}

func newTimeline(out io.Writer, quiet bool) *timeline {
	t := &timeline{out: out, quiet: quiet}
	if f, ok := out.(*os.File); ok {
		t.colour = term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return t
}

// The colours of the actors.
const (
	bold   = "1"
	green  = "32"
	blue   = "34"
	yellow = "33"
)

func (t *timeline) paint(code, text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (t *timeline) title(text string) {
	if !t.quiet {
		fmt.Fprintf(t.out, "\n%s\n", t.paint(bold, text))
	}
}

func (t *timeline) line(m moment) {
	if t.quiet {
		return
	}
	who, text := m.Who, m.Text
	switch m.Who {
	case "A":
		who = t.paint(blue, "A   ")
	case "B":
		who = t.paint(yellow, "B   ")
	}
	switch m.What {
	case saidRefused:
		text = t.paint(green, text)
	case "result":
		text = t.paint(bold, text)
	}
	fmt.Fprintf(t.out, "%6.2fs  %s  %s\n", float64(m.AtMS)/1000, who, text)
}
