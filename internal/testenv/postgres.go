package testenv

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var postgresPrograms = []string{"initdb", "postgres"}

func startPostgres(settings []string) (*Server, error) {
	programs, err := find(KindPostgres, postgresPrograms...)
	if err != nil {
		return nil, err
	}
	dir, err := serverDir(KindPostgres)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Kind: KindPostgres, User: "fencepost", Password: password(), database: "postgres", query: "sslmode=disable", dir: dir,
	}
	err = templates[KindPostgres].fill(KindPostgres, dir, func(home, data string) error {
		secret := filepath.Join(home, "secret")
		if err := os.WriteFile(secret, []byte(s.Password+"\n"), 0o644); err != nil {
			return err
		}
		return run(home, []string{programs[0], "--pgdata=" + data, "--username=" + s.User, "--pwfile=" + secret,
			"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"})
	})
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	s.launch = func(s *Server) (*process, error) { return launchPostgres(s, programs[1], data, settings) }
	return firstLaunch(s)
}

func launchPostgres(s *Server, program, data string, settings []string) (*process, error) {
	truncateLog(s.dir)
	argv := []string{program, "-D", data, "-p", strconv.Itoa(s.Port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + s.dir,
		"-c", "max_connections=500", "-c", "shared_buffers=64MB"}
	for _, setting := range settings {
		argv = append(argv, "-c", setting)
	}
	p, err := begin(s.dir, crash[KindPostgres], argv)
	if err != nil {
		return nil, err
	}
	return p, await(s, p, func() bool { return postmasterReady(data, p) && answers(s) })
}

// postmasterReady reads the server's own lock file: it names the process id in line 1 and the state in line 8. Without it another
// server on the same port could answer for ours.
func postmasterReady(data string, p *process) bool {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(b), "\n")
	return len(lines) > 7 && lines[0] == strconv.Itoa(p.cmd.Process.Pid) && strings.TrimSpace(lines[7]) == "ready"
}
