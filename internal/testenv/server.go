package testenv

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Server is a running database server, or a pooler in front of one.
type Server struct {
	Kind     Kind
	Host     string
	Port     int
	User     string // has every right, also to create databases, users and triggers
	Password string
	URL      string // postgres://, mariadb:// or mysql://, with user, password and a database that exists

	database string // the one in URL
	query    string // the part of URL after the question mark
	dir      string // empty for a server that this process did not start
	process  *process
	launch   func(*Server) (*process, error)
}

// Addr is host:port, as net.Dial wants it.
func (s *Server) Addr() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// URLFor is URL with another database, which need not exist yet.
func (s *Server) URLFor(database string) string { return s.urlVia(s.Addr(), database) }

// URLVia is URL with another address: that of a proxy in front of the server.
func (s *Server) URLVia(addr, database string) string { return s.urlVia(addr, database) }

func (s *Server) urlVia(addr, database string) string {
	scheme := string(s.Kind)
	if s.Kind == KindPgBouncer {
		scheme = string(KindPostgres)
	}
	u := url.URL{
		Scheme: scheme, User: url.UserPassword(s.User, s.Password), Host: addr, Path: "/" + database, RawQuery: s.query,
	}
	return u.String()
}

// Start starts a server outside any test. It runs until this process ends; [*Server.Stop] ends it earlier. The error is a
// [*MissingError] when its programs are not installed.
func Start(kind Kind, settings ...string) (*Server, error) {
	switch kind {
	case KindPostgres:
		return startPostgres(settings)
	case KindMariaDB:
		return startMariaDB(settings)
	case KindMySQL:
		return startMySQL(settings)
	}
	return nil, fmt.Errorf("testenv: there is no server program called %q", kind)
}

// Stop shuts the server down in an orderly way and keeps its data for [*Server.Restart]. Stopping twice is fine.
func (s *Server) Stop() error {
	if err := s.mustBeOurs("stop"); err != nil {
		return err
	}
	return s.process.stop(orderly[s.Kind], 30*time.Second)
}

// Kill ends the server at once, as a crash would, and keeps its data for [*Server.Restart]. What was committed is still
// there afterwards, what was in flight is rolled back by recovery.
func (s *Server) Kill() error {
	if err := s.mustBeOurs("kill"); err != nil {
		return err
	}
	return s.process.stop(crash[s.Kind], 30*time.Second)
}

// Restart stops the server if it runs and starts it again with the same data and the same port.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	p, err := s.launch(s)
	if err != nil {
		return err
	}
	s.process = p
	return nil
}

// Signal sends a signal to the server's main process. PostgreSQL serves each connection in a process of its own, which
// SIGSTOP to the main process does not stop: [*Server.Freeze] stops all of them.
func (s *Server) Signal(sig syscall.Signal) error {
	if err := s.mustBeOurs("signal"); err != nil {
		return err
	}
	return s.process.signal(sig)
}

// Freeze stops every process of the server with SIGSTOP: connections stay open and nothing answers, as when the machine
// is suspended. Needs Linux.
func (s *Server) Freeze() error {
	if err := s.mustBeOurs("freeze"); err != nil {
		return err
	}
	return s.process.signalAll(syscall.SIGSTOP)
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() error {
	if err := s.mustBeOurs("thaw"); err != nil {
		return err
	}
	return s.process.signalAll(syscall.SIGCONT)
}

// PID is the server's main process, or 0 for a server that this process did not start.
func (s *Server) PID() int {
	if s.process == nil {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// LogTail returns the end of the server's own log.
func (s *Server) LogTail() string {
	if s.dir == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

func (s *Server) mustBeOurs(verb string) error {
	if s.process == nil {
		return fmt.Errorf("testenv: cannot %s the %s server at %s: this process did not start it; use a private one",
			verb, s.Kind, s.Addr())
	}
	return nil
}

// discard ends the server without ceremony and removes its data.
func (s *Server) discard() {
	_ = s.process.stop(crash[s.Kind], 30*time.Second)
	_ = os.RemoveAll(s.dir)
}

// orderly is the signal that asks a server to finish. PostgreSQL's "fast" shutdown is SIGINT: SIGTERM would wait for its
// clients to leave.
var orderly = map[Kind]syscall.Signal{
	KindPostgres: syscall.SIGINT, KindMariaDB: syscall.SIGTERM, KindMySQL: syscall.SIGTERM, KindPgBouncer: syscall.SIGTERM,
}

// crash is the signal that ends a server without a checkpoint or a clean-up. PostgreSQL gets SIGQUIT: SIGKILL would leave
// its shared memory segment to the machine until somebody starts a server on the same data.
var crash = map[Kind]syscall.Signal{
	KindPostgres: syscall.SIGQUIT, KindMariaDB: syscall.SIGKILL, KindMySQL: syscall.SIGKILL, KindPgBouncer: syscall.SIGKILL,
}
