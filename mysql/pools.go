package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fencepost/fencepost"
)

// pool is one kind of pool that the package opens by itself.
type pool struct {
	connections     int
	multiStatements bool
}

var (
	dataPool = pool{connections: 0}
	// The others carry this package's own statements, two or four to a packet, and what Exec lets through. In a pool that
	// callers' transactions use, the setting would turn a SQL injection of theirs into a worse one.
	leasePool  = pool{connections: 2, multiStatements: true}
	packetPool = pool{connections: 8, multiStatements: true}
)

func (p pool) open(cfg *mysql.Config) (*sql.DB, error) {
	own := cfg.Clone()
	own.MultiStatements = p.multiStatements
	own.InterpolateParams = own.InterpolateParams || p.multiStatements
	connector, err := mysql.NewConnector(own)
	if err != nil {
		return nil, badURL("its parameters: %v", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(p.connections)
	db.SetMaxIdleConns(4)
	db.SetConnMaxIdleTime(time.Minute)
	return db, nil
}

// OpenPool opens a pool for a URL as [Open] takes it. The caller closes it. No connection is made yet.
func OpenPool(_ context.Context, url string) (*sql.DB, error) {
	cfg, err := configOf(url)
	if err != nil {
		return nil, err
	}
	return dataPool.open(cfg)
}

const (
	urlForm     = "mysql://user:password@host:port/database"
	defaultPort = "3306"
	dialTimeout = 10 * time.Second
)

// configOf reads a URL. Its errors never repeat the URL or what its parser said: both can contain the password, or a
// piece of it that looks like a port.
func configOf(text string) (*mysql.Config, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, badURL("it cannot be parsed; write it like %s and percent-encode special characters in user and password", urlForm)
	}
	switch {
	case u.Scheme != "mysql" && u.Scheme != "mariadb":
		return nil, badURL("it must begin with mysql:// or mariadb://")
	case u.Opaque != "" || u.Host == "":
		return nil, badURL("it names no host; write it like %s", urlForm)
	case strings.Trim(u.Path, "/") == "":
		return nil, badURL("it names no database; write it like %s", urlForm)
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, badURL("the part after the question mark cannot be parsed")
	}
	for key := range query {
		if strings.EqualFold(key, "password") || strings.EqualFold(key, "user") {
			return nil, badURL("user and password belong before the host: %s", urlForm)
		}
	}
	// The driver's own parser reads the parameters, so that all of them work as its documentation says.
	cfg, err := mysql.ParseDSN("/?" + query.Encode())
	if err != nil {
		return nil, badURL("its parameters: %v", err)
	}
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(u.Hostname(), port)
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = strings.Trim(u.Path, "/")
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTimeout
	}
	cfg.Logger = quiet{}
	return cfg, nil
}

func badURL(format string, args ...any) error {
	return fmt.Errorf("%w: the database URL cannot be used: %s", fencepost.ErrInvalid, fmt.Sprintf(format, args...))
}

// quiet keeps the driver from writing to stderr what it also returns as an error.
type quiet struct{}

func (quiet) Print(...any) {}
