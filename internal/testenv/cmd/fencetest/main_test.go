package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestSkippedTestFailsInCIOnly(t *testing.T) {
	if missing := missingServers(); len(missing) > 0 {
		t.Skip(missing[0])
	}
	for _, kind := range testenv.Kinds() {
		t.Setenv(kind.EnvVar(), "named, so that none is started")
	}
	t.Setenv("GOFLAGS", "")
	for _, c := range []struct {
		body string
		ci   bool
		code int
	}{
		{"", true, 0},
		{"", false, 0},
		{`t.Skip("no server")`, true, 1},
		{`t.Skip("no server")`, false, 0},
		{`t.Run("part", func(t *testing.T) { t.Skip("no server") })`, true, 1},
		{`t.Fail()`, true, 1},
		{`t.Fail()`, false, 1},
		{`does not compile`, false, 1},
	} {
		t.Chdir(t.TempDir())
		write(t, "go.mod", "module sample\n\ngo 1.26.0\n")
		write(t, "sample_test.go", "package sample\n\nimport \"testing\"\n\nfunc TestSample(t *testing.T) { "+c.body+" }\n")
		if code := run([]string{"./..."}, c.ci); code != c.code {
			t.Errorf("%q with CI %v ends with %d, want %d", c.body, c.ci, code, c.code)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Clean(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
