package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/fencepost/fencepost"
)

// server is what a session says about its server and itself, as SHOW VARIABLES names it: that works on both servers, whichever
// of the variables they have, and needs no right.
type server map[string]string

func readServer(ctx context.Context, via link) (server, error) {
	type variable struct{ name, value string }
	found, err := read(ctx, via, defaultStatements().with("server", nil), func(rows *sql.Rows) (v variable, err error) {
		err = rows.Scan(&v.name, &v.value)
		return v, err
	})
	s := server{}
	for _, v := range found {
		s[v.name] = v.value
	}
	return s, err
}

func (s server) on(variable string) bool { return isOn(s[variable]) }

func isOn(value string) bool {
	switch strings.ToUpper(value) {
	case "", "0", "OFF":
		return false
	}
	return true
}

func (s server) mariaDB() bool { return strings.Contains(strings.ToLower(s["version"]), "mariadb") }

// usable says why leases cannot work on the server with these sessions.
func (s server) usable() error {
	for _, variable := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		if s.on(variable) {
			return readOnly(variable)
		}
	}
	switch {
	case s.on("transaction_read_only"), s.on("tx_read_only"):
		return fmt.Errorf("%w: sessions of this pool are read-only (transaction_read_only is on): leases need sessions that may write", fencepost.ErrUnavailable)
	case !s.on("autocommit"):
		return fmt.Errorf("%w: sessions of this pool do not commit by themselves (autocommit is off): remove autocommit=0 from the DSN or the server's init_connect", fencepost.ErrInvalid)
	case s["completion_type"] != "" && s["completion_type"] != "NO_CHAIN":
		return fmt.Errorf("%w: completion_type is %s, so that a commit of this pool's sessions begins the next transaction: set it to NO_CHAIN", fencepost.ErrInvalid, s["completion_type"])
	case s.on("log_bin") && s["binlog_format"] == "STATEMENT":
		return fmt.Errorf("%w: binlog_format is STATEMENT, which cannot log what skips locked rows: set it to ROW or MIXED", fencepost.ErrUnavailable)
	}
	return nil
}

// readOnly is the refusal to believe a replica: what it says of a lease may be old.
func readOnly(variable string) error {
	return fmt.Errorf("%w: the server is read-only (%s is on), so it is a replica or closed for writing; connect to the primary", fencepost.ErrUnavailable, variable)
}
