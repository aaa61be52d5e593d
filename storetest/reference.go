package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/fencepost/fencepost"
)

// seedVariable repeats a random sequence that failed.
const seedVariable = "FENCEPOST_TEST_SEED"

var referenceTests = []test{
	{"RandomSequencesGiveTheSameAnswers", func(f *fixture) {
		seed := rand.Uint64()
		if text := os.Getenv(seedVariable); text != "" {
			var err error
			if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
				f.Fatalf("%s: %v", seedVariable, err)
			}
		}
		w := &walk{fixture: f, model: NewMemory(), rand: rand.New(rand.NewPCG(seed, 0)), tokens: map[string][]fencepost.Token{}}
		for step := range 600 {
			w.step()
			if f.Failed() {
				for _, line := range w.log {
					f.Log(line)
				}
				f.Fatalf("step %d differs from the reference; repeat it with %s=%d", step, seedVariable, seed)
			}
		}
		w.compareEvents()
		if f.Failed() {
			f.Fatalf("repeat it with %s=%d", seedVariable, seed)
		}
	}},
}

// walk takes the same random steps on a store and on the reference.
type walk struct {
	*fixture
	model  *Memory
	rand   *rand.Rand
	tokens map[string][]fencepost.Token // every token that was ever granted, per name
	log    []string
}

var walkedNames = []string{"a", "b", "A", "b "}

// step does one random thing to both and compares the answers and the row.
func (w *walk) step() {
	name := walkedNames[w.rand.IntN(len(walkedNames))]
	switch n := w.rand.IntN(100); {
	case n < 30:
		w.walkAcquire(name, w.owner(), long)
	case n < 38:
		w.walkAcquire(name, w.token(name).Owner, long) // an owner of before, or the holder, asks again
	case n < 44:
		if w.walkAcquire(name, w.owner(), short) {
			w.awaitExpiry(name)
			awaitExpiry(w.T, w.model, name)
		}
	case n < 58:
		w.walkRenew()
	case n < 76:
		w.walkRelease(name)
	case n < 84:
		w.walkPreempt(name)
	case n < 92:
		w.compare("Check", name, func(s fencepost.Store) (string, error) {
			return "", s.Check(w.ctx(), w.token(name))
		})
	default:
		w.compare("Want", name, func(s fencepost.Store) (string, error) {
			marked, err := s.Want(w.ctx(), name)
			return fmt.Sprint(marked), err
		})
	}
	w.compareRow(name)
}

// token picks a token of name: mostly the newest, sometimes an old one or one that was never granted. It depends on the
// state of the walk only, so that asking twice gives the same.
func (w *walk) token(name string) fencepost.Token {
	granted := w.tokens[name]
	if len(granted) == 0 {
		return fencepost.Token{Name: name, Owner: "nobody", Fence: 1}
	}
	newest := granted[len(granted)-1]
	switch n := len(w.log) % 10; {
	case n < 6:
		return newest
	case n < 8:
		return granted[len(w.log)*7919%len(granted)]
	case n == 8:
		return fencepost.Token{Name: name, Owner: "nobody", Fence: newest.Fence}
	default:
		return fencepost.Token{Name: name, Owner: newest.Owner, Fence: newest.Fence + 1}
	}
}

// compare runs op on both and compares what it says. It reports the store's error.
func (w *walk) compare(what, name string, op func(fencepost.Store) (string, error)) error {
	w.Helper()
	got, err := op(w.Store)
	want, wantErr := op(w.model)
	w.log = append(w.log, fmt.Sprintf("%s %q: %s, %s", what, name, want, refusal(wantErr)))
	if got != want || refusal(err) != refusal(wantErr) {
		w.Errorf("%s %q:\n got %s, %s\nwant %s, %s", what, name, got, refusal(err), want, refusal(wantErr))
	}
	return err
}

// refusal is an error without what depends on the moment.
func refusal(err error) string {
	if held, ok := errors.AsType[*fencepost.HeldError](err); ok {
		still := *held
		still.Remaining = 0
		return fmt.Sprintf("%+v", still)
	}
	if stale, ok := errors.AsType[*fencepost.StaleError](err); ok {
		return fmt.Sprintf("%+v", *stale)
	}
	return fmt.Sprint(err)
}

func (w *walk) walkAcquire(name, owner string, ttl time.Duration) (granted bool) {
	r := fencepost.AcquireRequest{Name: name, Owner: owner, Holder: "holder " + owner, TTL: ttl}
	var token fencepost.Token
	err := w.compare("Acquire for "+owner, name, func(s fencepost.Store) (string, error) {
		g, err := s.Acquire(w.ctx(), r)
		token = g.Token
		return fmt.Sprint(g.Token, g.TTL, g.TakenOver), err
	})
	known := w.tokens[name]
	if err != nil || len(known) > 0 && known[len(known)-1] == token {
		return false
	}
	w.tokens[name] = append(known, token)
	return true
}

func (w *walk) walkRenew() {
	var tokens []fencepost.Token
	for range w.rand.IntN(6) {
		tokens = append(tokens, w.token(walkedNames[w.rand.IntN(len(walkedNames))]))
	}
	w.compare(fmt.Sprintf("Renew %v", tokens), "", func(s fencepost.Store) (string, error) {
		renewals, err := s.Renew(w.ctx(), tokens)
		text := ""
		for _, r := range renewals {
			text += fmt.Sprintf("[%v %s]", !r.LeasedUntil.IsZero(), refusal(r.Err))
		}
		return text, err
	})
}

func (w *walk) walkRelease(name string) {
	token := w.token(name)
	w.compare(fmt.Sprint("Release ", token), name, func(s fencepost.Store) (string, error) {
		out, err := s.Release(w.ctx(), token)
		return fmt.Sprint(out.Changed, out.Changed && out.Wanted), err
	})
}

func (w *walk) walkPreempt(name string) {
	r := w.preemption(name, w.token(name).Fence, long*time.Duration(w.rand.IntN(2)))
	var token fencepost.Token
	err := w.compare(fmt.Sprintf("Preempt fence %d with TTL %v", r.Fence, r.TTL), name, func(s fencepost.Store) (string, error) {
		g, err := s.Preempt(w.ctx(), r)
		token = g.Token
		return fmt.Sprint(g.Token, g.TTL, g.LeasedUntil.IsZero()), err
	})
	if err == nil {
		w.tokens[name] = append(w.tokens[name], token)
	}
}

func (w *walk) compareRow(name string) {
	w.Helper()
	row := func(s fencepost.Store) string {
		i, found, err := s.Inspect(w.ctx(), name)
		if err != nil {
			w.Fatal(err)
		}
		if i.State() == fencepost.StateFree {
			i.TTL, i.Wanted = 0, false // mean nothing now
		}
		return fmt.Sprintf("found %v: %q %q fence %d holder %q TTL %v %s wanted %v", found, i.Name, i.Owner, i.Fence, i.Holder, i.TTL, i.State(), i.Wanted)
	}
	if got, want := row(w.Store), row(w.model); got != want {
		w.Errorf("the row is\n     %s\nwant %s", got, want)
	}
}

func (w *walk) compareEvents() {
	q := fencepost.EventQuery{Limit: 10_000}
	got := w.events(q)
	want, err := w.model.Events(w.ctx(), q)
	if err != nil {
		w.Fatal(err)
	}
	if len(got) != len(want) {
		w.Errorf("%d events, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if told(got[i]) != told(want[i]) {
			w.Fatalf("event %d: %+v\n    want %+v", i, told(got[i]), told(want[i]))
		}
	}
}
