package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandExplainsItself(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if cmd.Hidden || cmd.HasSubCommands() || cmd.Name() == "help" {
			return
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		help := c.ok(append(path, "--help")...).stdout
		for _, part := range []string{"Exit codes:", "Examples:", "fencepost " + strings.Join(path, " ")} {
			if !strings.Contains(help, part) {
				t.Errorf("%s --help has no %q", cmd.CommandPath(), part)
			}
		}
		if !strings.Contains(help, fmt.Sprintf("%5d  usage", exitUsage)) {
			t.Errorf("%s --help does not say the exit code of a wrong call", cmd.CommandPath())
		}
		if again := c.ok(append([]string{"help"}, path...)...).stdout; again != help {
			t.Errorf("help %s differs from its --help", strings.Join(path, " "))
		}
	}
	visit((&app{}).root())
	c.nothingWasMade()
}

func TestVersion(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	type version struct{ Version, Go string }
	if v := decode[version](c.ok("version", "--json")); v.Version == "" || !strings.HasPrefix(v.Go, "go1.") {
		t.Errorf("%+v", v)
	}
	if !strings.HasPrefix(c.ok("version").stdout, "fencepost ") {
		t.Error(c.ok("version").stdout)
	}
}

func TestOneJSONValueWhateverHappens(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.acquire("job")
	for _, args := range [][]string{
		{"acquire", "job"}, {"acquire", "new"}, {"acquire", ""}, {"nonsense"}, {"ls", "--bogus"}, {"ls"}, {"show", "job"}, {"events"}, {"doctor"}, {"version"},
		{"migrate", "up"}, {"migrate", "status"}, {"migrate", "sql"}, {"migrate"}, {"run", "j", "--", "sh", "-c", "echo noise; exit 3"}, {"run", "j", "--", "nonsense"}, {"run", "job", "--", "true"},
	} {
		decode[map[string]any](c.run(append([]string{"--json"}, args...)...))
		if args[0] != "run" {
			decode[map[string]any](c.run(append(args, "--json")...))
		}
	}
}
