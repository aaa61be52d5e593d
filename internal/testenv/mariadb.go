package testenv

var mariadbPrograms = []string{"mariadbd", "mariadb-install-db"}

func startMariaDB(settings []string) (*Server, error) {
	programs, err := find(KindMariaDB, mariadbPrograms...)
	if err != nil {
		return nil, err
	}
	s, err := newInnoDB(KindMariaDB)
	if err != nil {
		return nil, err
	}
	err = templates[KindMariaDB].fill(KindMariaDB, s.dir, func(home, data string) error {
		return run(home, []string{programs[1], "--no-defaults", "--datadir=" + data, "--skip-test-db",
			"--auth-root-authentication-method=normal", "--skip-name-resolve"})
	})
	if err != nil {
		return nil, err
	}
	s.launch = func(s *Server) (*process, error) { return launchInnoDB(s, []string{programs[0]}, nil, settings) }
	return firstLaunch(s)
}
