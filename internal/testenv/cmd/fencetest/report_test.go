package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func lines(events ...event) string {
	var b strings.Builder
	for _, e := range events {
		line, _ := json.Marshal(e)
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func TestReport(t *testing.T) {
	var b strings.Builder
	r := newReport(&b)
	err := r.read(strings.NewReader(lines(
		event{Action: "build-output", Output: "broken.go:1: no\n"},
		event{"output", "p", "TestA", "=== RUN   TestA\n"},
		event{"output", "p", "TestA", "chatter\n"},
		event{"pass", "p", "TestA", ""},
		event{"output", "p", "TestB", "    b_test.go:3: mysql is not installed\n"},
		event{"output", "p", "TestB", "--- SKIP: TestB (0.00s)\n"},
		event{"skip", "p", "TestB", ""},
		event{"output", "p", "TestC", "    c_test.go:4: wrong\n"},
		event{"output", "p", "TestC", "--- FAIL: TestC (0.00s)\n"},
		event{"fail", "p", "TestC", ""},
		event{"output", "p", "TestD", "panic: lost\n"},
		event{"output", "p", "", "FAIL\tp\t1.0s\n"},
		event{"fail", "p", "", ""},
		event{"output", "q", "", "PASS\n"},
		event{"output", "q", "", "ok  \tq\t0.1s\n"},
		event{"pass", "q", "", ""},
	) + "not JSON\n"))
	if err != nil {
		t.Fatal(err)
	}
	r.summary()
	want := `broken.go:1: no
    c_test.go:4: wrong
--- FAIL: TestC (0.00s)
FAIL	p	1.0s
panic: lost
ok  	q	0.1s
not JSON
1 passed, 1 failed, 1 skipped
skipped: p TestB: b_test.go:3: mysql is not installed
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
