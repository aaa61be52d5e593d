package testenv

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// parse reads the URL of a server. Errors do not repeat it: it may hold a password.
func parse(kind Kind, address string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User == nil {
		return nil, fmt.Errorf("testenv: %s is not a URL of the form %s://user:password@host:port/database", kind.EnvVar(), kind)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return nil, fmt.Errorf("testenv: %s has no port number", kind.EnvVar())
	}
	password, _ := u.User.Password()
	s := &Server{
		Kind: kind, Host: u.Hostname(), Port: port, User: u.User.Username(), Password: password,
		database: strings.TrimPrefix(u.Path, "/"), query: u.RawQuery,
	}
	s.URL = s.URLFor(s.database)
	return s, nil
}
