package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// newInnoDB prepares what MariaDB and MySQL have in common: a directory and a file of statements that give the user of the
// tests every right.
func newInnoDB(kind Kind) (*Server, error) {
	dir, err := serverDir(kind)
	if err != nil {
		return nil, err
	}
	s := &Server{Kind: kind, User: "fencepost", Password: password(), database: "fencepost", dir: dir}
	// Both hosts: a row for any host loses against an anonymous one for localhost. The server runs the file at every
	// start, before it listens to clients.
	var b strings.Builder
	for _, host := range []string{"%", "localhost"} {
		fmt.Fprintf(&b, "CREATE USER IF NOT EXISTS '%s'@'%s' IDENTIFIED BY '%s';\n", s.User, host, s.Password)
		fmt.Fprintf(&b, "GRANT ALL ON *.* TO '%s'@'%s' WITH GRANT OPTION;\n", s.User, host)
	}
	fmt.Fprintf(&b, "CREATE DATABASE IF NOT EXISTS %s;\n", s.database)
	return s, os.WriteFile(filepath.Join(dir, "init.sql"), []byte(b.String()), 0o644)
}

func launchInnoDB(s *Server, program, options, settings []string) (*process, error) {
	truncateLog(s.dir)
	pidFile := filepath.Join(s.dir, "pid")
	_ = os.Remove(pidFile)
	argv := slices.Concat(program, []string{"--no-defaults"}, options)
	argv = append(argv, "--datadir="+filepath.Join(s.dir, "data"), "--init-file="+filepath.Join(s.dir, "init.sql"),
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.Port), "--socket="+filepath.Join(s.dir, "s"),
		"--pid-file="+pidFile, "--max-connections=500", "--innodb-buffer-pool-size=64M")
	for _, setting := range settings {
		argv = append(argv, "--"+setting)
	}
	p, err := begin(s.dir, crash[s.Kind], argv)
	if err != nil {
		return nil, err
	}
	return p, await(s, p, func() bool { return wrotePID(pidFile, p) && answers(s) })
}

// wrotePID says whether the server has bound its port, which it does before it writes the file. Without it another server on
// the same port could answer for ours.
func wrotePID(file string, p *process) bool {
	b, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(b)) == strconv.Itoa(p.cmd.Process.Pid)
}
