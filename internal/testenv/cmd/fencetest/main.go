// Fencetest runs go test with database servers that all packages share.
//
//	go run ./internal/testenv/cmd/fencetest -race ./...
//
// It starts one server of each kind, unless FENCEPOST_TEST_POSTGRES and the like name one that runs already, passes its
// arguments to go test, shows what go test shows without -v, and ends with a count of the skipped tests and a line for every
// server that is missing. With CI=true a skipped test or a missing server is a failure. The servers stop when it
// ends, however it ends. With --missing alone it prints the kinds of servers that it would not find.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"github.com/fencepost/fencepost/internal/testenv"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--missing" {
		for _, err := range missingServers() {
			fmt.Println(err.Kind)
		}
		return
	}
	os.Exit(run(os.Args[1:], os.Getenv("CI") == "true"))
}

func run(args []string, ci bool) int {
	missing := missingServers()
	if ci && len(missing) > 0 {
		warn(missing)
		return 1
	}
	servers, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := newReport(os.Stdout)
	code, err := test(args, servers, r)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	r.summary()
	warn(missing)
	if ci && code == 0 && len(r.skipped) > 0 {
		fmt.Fprintln(os.Stderr, "FAIL: tests were skipped, and in CI none may be")
		code = 1
	}
	return code
}

func missingServers() []*testenv.MissingError {
	var missing []*testenv.MissingError
	for _, kind := range append(testenv.Kinds(), testenv.KindPgBouncer) {
		if err, ok := errors.AsType[*testenv.MissingError](testenv.Missing(kind)); ok {
			missing = append(missing, err)
		}
	}
	return missing
}

func warn(missing []*testenv.MissingError) {
	for _, err := range missing {
		fmt.Fprintln(os.Stderr, "!!! NOT TESTED:", err)
	}
}

// start starts what is installed, all at once, and returns the environment that names it.
func start() ([]string, error) {
	var (
		mu     sync.Mutex
		all    sync.WaitGroup
		env    []string
		failed []error
	)
	for _, kind := range testenv.Kinds() {
		if os.Getenv(kind.EnvVar()) != "" || testenv.Missing(kind) != nil {
			continue
		}
		all.Go(func() {
			s, err := testenv.Start(kind)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
				return
			}
			env = append(env, kind.EnvVar()+"="+s.URL)
		})
	}
	all.Wait()
	return env, errors.Join(failed...)
}

// test runs go test and returns its exit code. A signal goes on to it and to the tests, which run in a process group of
// their own: go test alone would wait for them to finish.
func test(args, servers []string, r *report) (int, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Env = append(os.Environ(), servers...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			_ = syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal))
		}
	}()
	if err := r.read(out); err != nil {
		return 1, err
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}
