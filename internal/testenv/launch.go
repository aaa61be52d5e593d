package testenv

import (
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// launchTimeout is far above what a start takes (0.2 to 4 s): a busy machine must not look like a broken server.
const launchTimeout = 2 * time.Minute

// errPortTaken says that somebody else bound the port between our look and the server's.
var errPortTaken = errors.New("testenv: the port is taken")

// firstLaunch launches a new server on a random port, and on another one when that was taken meanwhile.
func firstLaunch(s *Server) (*Server, error) {
	s.Host = "127.0.0.1"
	for range 10 {
		var err error
		if s.Port, err = freePort(); err != nil {
			return nil, err
		}
		s.URL = s.URLFor(s.database)
		s.process, err = s.launch(s)
		switch {
		case err == nil:
			return s, nil
		case !errors.Is(err, errPortTaken):
			return nil, err
		}
	}
	return nil, fmt.Errorf("testenv: found no port for %s: %w", s.Kind, errPortTaken)
}

// freePort picks a port below the range that the kernel gives to outgoing connections: a server that restarts must find its
// port free again.
func freePort() (int, error) {
	for range 100 {
		port := 15000 + mathrand.IntN(17000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errPortTaken
}

// await polls until ready says yes and explains an early end of the process by its log.
func await(s *Server, p *process, ready func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(launchTimeout)
	defer deadline.Stop()
	for {
		select {
		case <-p.done:
			tail := s.LogTail()
			if strings.Contains(strings.ToLower(tail), "address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("testenv: %s ended while starting: %v; its log ends with:\n%s", s.Kind, p.cmd.ProcessState, tail)
		case <-deadline.C:
			_ = p.stop(crash[s.Kind], 10*time.Second)
			return fmt.Errorf("testenv: %s did not answer within %v; its log ends with:\n%s", s.Kind, launchTimeout, s.LogTail())
		case <-tick.C:
			if ready() && !p.exited() {
				return nil
			}
		}
	}
}

// truncateLog empties the log before a launch, so that an old line does not explain a new failure.
func truncateLog(dir string) { _ = os.Remove(filepath.Join(dir, "log")) }

// external describes a server that somebody else runs.
func external(kind Kind, address string) (*Server, error) {
	s, err := parse(kind, address)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		if answers(s) {
			return s, nil
		}
		<-tick.C
	}
	return nil, fmt.Errorf("testenv: no %s server answers at %s, which %s names", kind, s.Addr(), kind.EnvVar())
}
