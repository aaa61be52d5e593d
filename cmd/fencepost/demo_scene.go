package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// demoTTL is short, so that the pause is, and long enough for a busy machine.
const demoTTL = 2 * time.Second

// scene is one run of A, who is paused, and B, who takes over.
type scene struct {
	lease  string
	fenced bool
}

// moment is one line of the timeline.
type moment struct {
	AtMS int64  `json:"at_ms"`
	Who  string `json:"who"`
	What string `json:"what"`
	said
}

// outcome is how a scene ended.
type outcome struct {
	Lease     string           `json:"lease"`
	Timeline  []moment         `json:"events"`
	Fences    map[string]int64 `json:"fences"`
	ExitCodes map[string]int   `json:"exit_codes"`
	Reason    string           `json:"refusal_reason,omitempty"`
	Current   int64            `json:"current_fence,omitempty"`
	Result    string           `json:"result"`
	Winner    string           `json:"winner"`
}

// complaints says what is not as it was promised.
func (o *outcome) complaints(fenced bool) (all []string) {
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	title, winner, exit := "plain lease", "A", 0
	if fenced {
		title, winner, exit = "fenced lease", "B", exitStale
		expect(o.Reason == "superseded" && o.Current == 2, "%s: A was refused with reason %q and current fence %d", title, o.Reason, o.Current)
	}
	expect(o.Fences["A"] == 1 && o.Fences["B"] == 2, "%s: the fences are %v", title, o.Fences)
	expect(o.ExitCodes["A"] == exit && o.ExitCodes["B"] == 0, "%s: the exit codes are %v", title, o.ExitCodes)
	expect(o.Winner == winner, "%s: the result is %q", title, o.Result)
	return all
}

// stage is a scene while it is played.
type stage struct {
	*demo
	scene
	began time.Time
	out   *outcome
}

// play runs a scene: every step waits for what the processes say, never for a guessed time.
func (d *demo) play(ctx context.Context, sc scene) (*outcome, error) {
	if err := d.db.exec(ctx, d.statement("demo_reset")); err != nil {
		return nil, err
	}
	s := &stage{d, sc, time.Now(), &outcome{Lease: sc.lease, Fences: map[string]int64{}, ExitCodes: map[string]int{}}}
	a, err := s.start(ctx, "A")
	if err != nil {
		return nil, err
	}
	defer a.kill()
	if err := s.listen(ctx, a, saidScans); err != nil {
		return nil, err
	}
	if err := a.signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	s.note("", said{What: "paused", Text: fmt.Sprintf("SIGSTOP to A (pid %d), in the middle of its work", a.pid())})
	b, err := s.start(ctx, "B")
	if err != nil {
		return nil, err
	}
	defer b.kill()
	// B is granted the lease when the database's clock says that A's has run out: that is the end of the pause.
	if err := s.listen(ctx, b, saidScans); err != nil {
		return nil, err
	}
	if err := s.finish(ctx, b); err != nil {
		return nil, err
	}
	if err := a.signal(syscall.SIGCONT); err != nil {
		return nil, err
	}
	s.note("", said{What: "resumed", Text: "SIGCONT to A, which knows nothing of all this"})
	if err := s.finish(ctx, a); err != nil {
		return nil, err
	}
	return s.out, s.judge(ctx)
}

// listen notes what a worker says until it says a certain thing.
func (s *stage) listen(ctx context.Context, w *worker, until string) error {
	for {
		line, err := w.hear(ctx)
		if err != nil {
			return err
		}
		s.note(w.name, line)
		switch line.What {
		case saidAcquired:
			s.out.Fences[w.name] = line.Fence
		case saidRefused:
			s.out.Reason, s.out.Current = line.Reason, line.Current
		}
		if line.What == until {
			return nil
		}
	}
}

// finish lets a worker end its work, and waits for the end of its process.
func (s *stage) finish(ctx context.Context, w *worker) error {
	if err := w.goOn(); err != nil {
		return err
	}
	for {
		err := s.listen(ctx, w, "")
		if errors.Is(err, errSilent) {
			break
		}
		if err != nil {
			return err
		}
	}
	code, err := w.wait()
	if err != nil {
		return err
	}
	s.out.ExitCodes[w.name] = code
	s.note(w.name, said{What: "exited", Text: fmt.Sprintf("ends with exit code %d", code)})
	return nil
}

// judge reads who won.
func (s *stage) judge(ctx context.Context) error {
	result, err := s.db.text(ctx, s.statement("demo_read"))
	if err != nil {
		return err
	}
	s.out.Result, s.out.Winner = result, result[:min(1, len(result))]
	s.note("", said{What: "result", Text: fmt.Sprintf("the table says: %q", result)})
	return nil
}

func (s *stage) note(who string, line said) {
	m := moment{AtMS: time.Since(s.began).Milliseconds(), Who: who, What: line.What, said: line}
	if who == "" {
		m.Who = "demo"
	}
	s.out.Timeline = append(s.out.Timeline, m)
	s.show.line(m)
}
