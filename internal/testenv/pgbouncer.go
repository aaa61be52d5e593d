package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var pgbouncerPrograms = []string{"pgbouncer"}

// PoolOptions configure [PgBouncer].
type PoolOptions struct {
	// PoolSize is how many connections to the server the pooler keeps for one database and user. 0 means 2: few enough
	// that clients meet each other's server connections all the time.
	PoolSize int
	// Settings are lines of pgbouncer.ini such as "server_idle_timeout=1".
	Settings []string
}

// PgBouncer puts a transaction-mode pooler in front of pg, for this test alone. Its URL serves every database of pg with
// the same user. Everything but the pool size is PgBouncer's default.
func PgBouncer(t testing.TB, pg *Server, opts PoolOptions) *Server {
	t.Helper()
	s, err := startPgBouncer(pg, opts)
	give(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of pgbouncer:\n%s", s.LogTail())
		}
		s.discard()
	})
	return s
}

// PgBouncerKeepsPrepared says whether the installed PgBouncer has max_prepared_statements (1.21 and later): older ones
// lose prepared statements between transactions, whatever they are told.
func PgBouncerKeepsPrepared(t testing.TB) bool {
	t.Helper()
	programs, err := find(KindPgBouncer, pgbouncerPrograms...)
	give(t, err)
	out, err := exec.Command(programs[0], "--version").CombinedOutput()
	give(t, err)
	version := regexp.MustCompile(`PgBouncer (\d+)\.(\d+)`).FindStringSubmatch(string(out))
	if version == nil {
		t.Fatalf("pgbouncer --version says %q", out)
	}
	major, _ := strconv.Atoi(version[1])
	minor, _ := strconv.Atoi(version[2])
	return major > 1 || minor >= 21
}

func startPgBouncer(pg *Server, opts PoolOptions) (*Server, error) {
	programs, err := find(KindPgBouncer, pgbouncerPrograms...)
	if err != nil {
		return nil, err
	}
	dir, err := serverDir(KindPgBouncer)
	if err != nil {
		return nil, err
	}
	if opts.PoolSize == 0 {
		opts.PoolSize = 2
	}
	s := &Server{
		Kind: KindPgBouncer, User: pg.User, Password: pg.Password, database: pg.database, query: "sslmode=disable", dir: dir,
	}
	users := fmt.Sprintf("\"%s\" \"%s\"\n", pg.User, strings.ReplaceAll(pg.Password, `"`, `""`))
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte(users), 0o644); err != nil {
		return nil, err
	}
	s.launch = func(s *Server) (*process, error) {
		truncateLog(s.dir)
		lines := []string{
			"[databases]", fmt.Sprintf("* = host=%s port=%d", pg.Host, pg.Port),
			"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", s.Port), "unix_socket_dir =",
			"auth_type = scram-sha-256", "auth_file = " + filepath.Join(dir, "users"), "max_client_conn = 500",
			"pool_mode = transaction", fmt.Sprintf("default_pool_size = %d", opts.PoolSize),
		}
		config := filepath.Join(dir, "pgbouncer.ini")
		text := strings.Join(append(lines, opts.Settings...), "\n") + "\n"
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			return nil, err
		}
		p, err := begin(dir, crash[KindPgBouncer], []string{programs[0], config})
		if err != nil {
			return nil, err
		}
		return p, await(s, p, func() bool { return strings.Contains(s.LogTail(), "process up") && answers(s) })
	}
	return firstLaunch(s)
}
