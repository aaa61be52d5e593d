// Package mysql keeps leases on MySQL 8 and 9 and on MariaDB 10.6 and newer, through github.com/go-sql-driver/mysql.
//
//	db, err := sql.Open("mysql", dsn)
//	store, err := mysql.New(ctx, db)
//	client := fencepost.New(store, fencepost.Options{TTL: 30 * time.Second})
//	lease, err := client.TryAcquire(ctx, "admin:reconciliation")
//	err = mysql.Tx(ctx, db, lease.Token(), func(tx *sql.Tx) error { ... })
//
// The tables come from `fencepost migrate up` or [Migrate]. Every lease operation is one statement in one packet; no option of the
// caller's DSN (clientFoundRows, parseTime, loc, interpolateParams, multiStatements) and no setting of the session (zone, SQL mode,
// isolation, SET timestamp) changes what it does. Expiry is judged by the server's SYSDATE in UTC.
//
// A fenced write locks one record of a unique index that a takeover has to change and a renewal does not: while it is in
// progress a takeover is refused as busy, a preemption waits, and the holder's renewals go on. In a SERIALIZABLE
// transaction the server also locks the row that the guard reads, so that renewals of that one lease are answered with
// [fencepost.ErrBusy] until the transaction ends.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Store keeps leases in a MySQL or MariaDB database. It is safe for concurrent use.
type Store struct {
	db      *sql.DB
	common  link
	beat    *beat
	texts   statements
	names   sqlstore.Names
	ops     *sql.DB   // what common takes its connections from
	packets *packets  // whether several statements may travel in one packet there
	opened  []*sql.DB // what Close closes
}

var _ fencepost.Store = (*Store)(nil)

// Option changes how a store is set up.
type Option func(*options)

type options struct {
	names     sqlstore.Names
	leasePool *sql.DB
}

// WithPrefix sets what the names of the tables begin with; the default is "fencepost_".
func WithPrefix(prefix string) Option { return func(o *options) { o.names.Prefix = prefix } }

// WithLeasePool gives renewals a pool of their own, which callers' transactions cannot use up; two connections are enough. The pool
// stays the caller's. Without it, [New] keeps one connection of the common pool for renewals, from the first renewal until ten
// minutes after the last, if that pool is bounded and has at least two.
func WithLeasePool(db *sql.DB) Option { return func(o *options) { o.leasePool = db } }

func settings(opts []Option) (options, error) {
	o := options{names: sqlstore.Names{Prefix: sqlstore.DefaultPrefix}}
	for _, opt := range opts {
		opt(&o)
	}
	return o, o.names.Validate()
}

// New returns a store on a pool of github.com/go-sql-driver/mysql, after checking once that it can work: the schema is there and new
// enough, the server is a writable primary, sessions commit by themselves. Otherwise it returns an error that says what to do,
// matching [fencepost.ErrUnavailable] or [fencepost.ErrInvalid]. It never creates or changes tables. The pool stays the caller's.
func New(ctx context.Context, db *sql.DB, opts ...Option) (*Store, error) {
	o, err := settings(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{
		db: db, ops: db, common: pooled(db), packets: packetsOf(db), beat: newBeat(db, o.leasePool), texts: renderStatements(o.names), names: o.names,
	}
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Open is [New] for a URL like mysql://user:password@host:port/database or mariadb://...; the parameters after a question mark are
// those of github.com/go-sql-driver/mysql. It opens what it needs, with a pool of its own for renewals; [Store.Close] closes that.
// A URL that cannot be used is [fencepost.ErrInvalid]. The password never appears in an error.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	cfg, err := configOf(url)
	if err != nil {
		return nil, err
	}
	s, pools, err := openStore(ctx, cfg, opts)
	if err != nil {
		for _, db := range pools {
			db.Close()
		}
		return nil, err
	}
	s.opened = pools
	return s, nil
}

// openStore returns the pools that it opened also when it fails.
func openStore(ctx context.Context, cfg *mysql.Config, opts []Option) (s *Store, pools []*sql.DB, err error) {
	for _, p := range []pool{dataPool, leasePool, packetPool} {
		db, err := p.open(cfg)
		if err != nil {
			return nil, pools, err
		}
		pools = append(pools, db)
	}
	s, err = New(ctx, pools[0], append([]Option{WithLeasePool(pools[1])}, opts...)...)
	if err == nil {
		s.ops, s.common, s.packets = pools[2], pooled(pools[2]), packetsOf(pools[2])
	}
	return s, pools, err
}

// Close closes what the store itself opened: with [Open] its pools, with [New] the connection it kept for renewals. It waits
// for a renewal on its way.
func (s *Store) Close() error {
	s.beat.close()
	var errs []error
	for _, db := range s.opened {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

// DB is the pool that fenced writes of this store use.
func (s *Store) DB() *sql.DB { return s.db }

func (s *Store) check(ctx context.Context) error {
	server, err := readServer(ctx, s.common)
	if err != nil {
		return err
	}
	if err := server.usable(); err != nil {
		return err
	}
	return s.checkSchema(ctx)
}

// checkSchema runs, without any effect, the statements that need the newest columns and the most rights.
func (s *Store) checkSchema(ctx context.Context) error {
	if _, err := read(ctx, s.common, s.texts.with("inspect", values{"name": bytesLiteral("")}), scanLease); err != nil {
		return err
	}
	has, err := appliedVersion(ctx, s.common, s.texts)
	switch code := serverCode(err); {
	case code == codeNoTable, code == codeTableDenied:
		// Created by another tool from the printed schema, or not ours to read: what follows tells whether it fits.
	case err != nil:
		return err
	case has < newestVersion():
		return fmt.Errorf("%w: the schema of %s has version %d, this program needs %d: run `fencepost migrate up`",
			fencepost.ErrUnavailable, s.names.Table("leases"), has, newestVersion())
	}
	nobody := values{"name": bytesLiteral(""), "owner": bytesLiteral(""), "holder": bytesLiteral(""), "ttl_ms": intLiteral(0)}
	if _, err := s.common.write(ctx, s.texts.with("acquire", nobody)); err != nil {
		return err
	}
	_, err = read(ctx, s.common, s.texts.with("events", values{"after": intLiteral(0), "limit": intLiteral(0)}), scanEvent)
	return err
}

// millis is a TTL as the database keeps it.
func millis(ttl time.Duration) literal { return intLiteral(ttl.Milliseconds()) }
