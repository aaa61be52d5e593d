package testenv

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

//go:embed watchdog.sh
var watchdogScript string

// guardian is the process that outlives this one by a moment to stop its servers. Deferred functions and cleanups do not run after
// a panic in another goroutine, a test timeout or SIGKILL; the end of a pipe is seen in all of those cases.
type guardian struct {
	dir string // holds the directories of all servers of this process

	mu   sync.Mutex
	pipe io.Writer
}

var watchdog = sync.OnceValues(func() (*guardian, error) {
	dir, err := os.MkdirTemp(shortTempDir(), "fencepost-")
	if err != nil {
		return nil, err
	}
	// The unprivileged account must get through to its own directories.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	// A file, not an argument of the shell: a list of processes should stay readable.
	script := filepath.Join(dir, "watchdog.sh")
	if err := os.WriteFile(script, []byte(watchdogScript), 0o644); err != nil {
		return nil, err
	}
	// No output is inherited: `go test` would wait for it to be closed after the tests have ended.
	cmd := exec.Command("/bin/sh", script, dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("testenv: start the watchdog: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return &guardian{dir: dir, pipe: pipe}, nil
})

func (g *guardian) tell(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Fprintf(g.pipe, format+"\n", args...)
}

// shortTempDir is the temporary directory, or /tmp when the unprivileged account cannot reach it or when it is so long
// that the path of a socket below it would pass the kernel's limit of 107 bytes.
func shortTempDir() string {
	dir := os.TempDir()
	if len(dir) > 40 || !reachable(dir) {
		return "/tmp"
	}
	return dir
}
