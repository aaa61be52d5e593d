package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/mysql"
)

// place is a new database with the schema on one of the servers.
type place struct {
	*testenv.Server
	database string
	url      string
	admin    *sql.DB // every right, and the database selected
}

// onBoth runs a test on both servers, with a database of its own on each.
func onBoth(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("MariaDB", func(t *testing.T) { test(t, newPlace(t, testenv.MariaDB(t))) })
	t.Run("MySQL", func(t *testing.T) { test(t, newPlace(t, testenv.MySQL(t))) })
}

func newPlace(t *testing.T, server *testenv.Server) place {
	t.Helper()
	p := emptyPlace(t, server)
	report, err := mysql.Migrate(t.Context(), p.admin)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Warnings) > 0 {
		t.Fatalf("migrating warned: %q", report.Warnings)
	}
	return p
}

func emptyPlace(t *testing.T, server *testenv.Server) place {
	t.Helper()
	p := place{Server: server, database: testenv.DatabaseName(t)}
	p.url = server.URLFor(p.database)
	root := p.pool(t, server.URL)
	p.run(t, root, "CREATE DATABASE "+p.database)
	p.admin = p.pool(t, p.url)
	return p
}

func (p place) pool(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := mysql.OpenPool(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// config is a DSN of the driver's own for the place, as a caller of New has it.
func (p place) config() *driver.Config {
	cfg := driver.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", p.Addr(), p.User, p.Password, p.database
	return cfg
}

func connect(t *testing.T, cfg *driver.Config) *sql.DB {
	t.Helper()
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func (p place) store(t *testing.T, db *sql.DB, opts ...mysql.Option) *mysql.Store {
	t.Helper()
	store, err := mysql.New(t.Context(), db, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func (p place) open(t *testing.T) *mysql.Store {
	t.Helper()
	store, err := mysql.Open(t.Context(), p.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

type execer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func (p place) run(t *testing.T, on execer, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := on.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// text is the first column of the first row.
func (p place) text(t *testing.T, query string, args ...any) string {
	t.Helper()
	var text sql.NullString
	if err := p.admin.QueryRowContext(t.Context(), query, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text.String
}

// alone is a pool of one connection, whose session's counters count what a store on it does and nothing else.
func (p place) alone(t *testing.T) *sql.DB {
	t.Helper()
	cfg := p.config()
	cfg.MultiStatements = true
	db := connect(t, cfg)
	db.SetMaxOpenConns(1)
	return db
}

// status sums counters of the only session of a pool.
func status(t *testing.T, alone *sql.DB, names ...string) (sum int64) {
	t.Helper()
	rows, err := alone.QueryContext(t.Context(), "SHOW SESSION STATUS")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(names, name) {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

var owners atomic.Int64

func request(name string, ttl time.Duration) fencepost.AcquireRequest {
	return fencepost.AcquireRequest{Name: name, Owner: fmt.Sprintf("owner-%d", owners.Add(1)), Holder: "holder", TTL: ttl}
}

func acquire(t *testing.T, s fencepost.Store, name string, ttl time.Duration) fencepost.Grant {
	t.Helper()
	grant, err := s.Acquire(t.Context(), request(name, ttl))
	if err != nil {
		t.Fatalf("acquiring %q: %v", name, err)
	}
	return grant
}

func renew(t *testing.T, s fencepost.Store, tok fencepost.Token) error {
	t.Helper()
	renewals, err := s.Renew(t.Context(), []fencepost.Token{tok})
	if err != nil {
		return err
	}
	return renewals[0].Err
}

// expire ends a lease as time would.
func (p place) expire(t *testing.T, name string) {
	t.Helper()
	p.run(t, p.admin, "UPDATE fencepost_leases SET leased_until = UTC_TIMESTAMP(6) - INTERVAL 1 MICROSECOND WHERE lease_name = '"+name+"'")
}

func wantStale(t *testing.T, err error, reason fencepost.Reason) {
	t.Helper()
	stale, ok := errors.AsType[*fencepost.StaleError](err)
	if !ok || stale.Reason != reason {
		t.Errorf("got %v, want stale: %s", err, reason)
	}
}

func wantHeld(t *testing.T, err error, busy bool) *fencepost.HeldError {
	t.Helper()
	held, ok := errors.AsType[*fencepost.HeldError](err)
	if !ok || held.Busy != busy {
		t.Fatalf("got %v, want held, busy %v", err, busy)
	}
	return held
}

// patience bounds what must happen.
const patience = 30 * time.Second

// eventually asks until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !so() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited %v for: %s", patience, what)
		}
	}
}

// counter counts what a client sends: one request is one write to the link.
type counter struct{ requests atomic.Int64 }

var networks atomic.Int64

// over makes the configuration use a link that counts.
func (c *counter) over(cfg *driver.Config) {
	network := fmt.Sprintf("counted%d", networks.Add(1))
	driver.RegisterDialContext(network, func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		return countedConn{conn, c}, err
	})
	cfg.Net = network
}

func (c *counter) during(do func()) int64 {
	before := c.requests.Load()
	do()
	return c.requests.Load() - before
}

type countedConn struct {
	net.Conn
	*counter
}

func (c countedConn) Write(b []byte) (int, error) {
	c.requests.Add(1)
	return c.Conn.Write(b)
}

func isMariaDB(p place) bool { return strings.Contains(string(p.Kind), "maria") }
