package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func startMySQL(settings []string) (*Server, error) {
	program, options, err := findMySQL()
	if err != nil {
		return nil, err
	}
	s, err := newInnoDB(KindMySQL)
	if err != nil {
		return nil, err
	}
	options = append(options, "--mysqlx=OFF", "--secure-file-priv=NULL")
	err = templates[KindMySQL].fill(KindMySQL, s.dir, func(home, data string) error {
		argv := slices.Concat(program, []string{"--no-defaults"}, options, []string{"--initialize-insecure", "--datadir=" + data})
		return run(home, argv)
	})
	if err != nil {
		return nil, err
	}
	s.launch = func(s *Server) (*process, error) { return launchInnoDB(s, program, options, settings) }
	return firstLaunch(s)
}

// findMySQL returns the command that runs Oracle's mysqld and the options that the place where it stands needs.
func findMySQL() (program, options []string, err error) {
	if _, only := os.LookupEnv(SearchEnvVar); !only {
		for _, home := range mysqlHomes() {
			if program, options, ok := foreignMySQL(home); ok {
				return program, options, nil
			}
		}
	}
	for _, dir := range usualPlaces() {
		mysqld := filepath.Join(dir, "mysqld")
		if !executable(mysqld) {
			continue
		}
		// MariaDB installs its own server under this name too.
		out, err := exec.Command(mysqld, "--no-defaults", "--version").CombinedOutput()
		if err == nil && !strings.Contains(string(out), "MariaDB") {
			return []string{mysqld}, nil, nil
		}
	}
	return nil, nil, &MissingError{Kind: KindMySQL, Want: "mysqld of MySQL, not of MariaDB"}
}

// mysqlHomes lists where `make deps` unpacks MySQL: a cache directory of the user, or of the machine when root installed
// it, because the account that runs the servers cannot enter root's home.
func mysqlHomes() []string {
	homes := []string{"/var/cache/fencepost/mysql-9"}
	if cache, err := os.UserCacheDir(); err == nil {
		homes = append([]string{filepath.Join(cache, "fencepost", "mysql-9")}, homes...)
	}
	return homes
}

// foreignMySQL describes a mysqld unpacked from a newer distribution than the one that runs: it needs the dynamic linker and
// the libraries that came with it.
func foreignMySQL(home string) (program, options []string, ok bool) {
	mysqld := filepath.Join(home, "usr/sbin/mysqld")
	linkers, _ := filepath.Glob(filepath.Join(home, "usr/lib/*/ld-linux*.so.*"))
	if len(linkers) == 0 || !executable(mysqld) || !reachable(mysqld) {
		return nil, nil, false
	}
	libraries := filepath.Dir(linkers[0]) + ":" + filepath.Join(home, "usr/lib/mysql/private")
	program = []string{linkers[0], "--library-path", libraries, mysqld}
	options = []string{
		"--lc-messages-dir=" + filepath.Join(home, "usr/share/mysql"),
		"--character-sets-dir=" + filepath.Join(home, "usr/share/mysql/charsets"),
		"--plugin-dir=" + filepath.Join(home, "usr/lib/mysql/plugin"),
	}
	return program, options, true
}
