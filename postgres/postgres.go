// Package postgres keeps leases in PostgreSQL, and fences the writes of transactions on the same database.
//
// Expiry is judged by clock_timestamp() of the server, read after any wait for a lock. Every table is named with its schema: the
// search_path does not matter.
//
// A fenced transaction that is held up by a paused process would block the takeover for ever. [Tx] therefore sets
// idle_in_transaction_session_timeout to what the lease has left, at least a second; set it for your own transactions that use [Guard].
//
// Behind a transaction-mode pooler everything works but LISTEN: waiters then find a released lease by polling.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// DefaultSchema holds the tables unless [WithSchema] says otherwise.
const DefaultSchema = "public"

// Store is a fencepost.Store on PostgreSQL.
type Store struct {
	pool  *pgxpool.Pool
	owned bool
	place place
	// unprepared is set once a pooler was met that mixes up prepared statements.
	unprepared atomic.Bool
	renewals   renewalLink
	listener   listener
}

var (
	_ fencepost.Store = (*Store)(nil)
	_ fencepost.Waker = (*Store)(nil)
)

// place says where the tables are.
type place struct {
	names  sqlstore.Names
	schema string // unquoted
}

// Option changes where the tables are.
type Option func(*place)

// WithPrefix sets the prefix of the tables' names; the default is fencepost_.
func WithPrefix(prefix string) Option { return func(p *place) { p.names.Prefix = prefix } }

// WithSchema sets the schema of the tables; the default is public. Any name will do. Two schemas of one database keep separate leases.
func WithSchema(schema string) Option { return func(p *place) { p.schema = schema } }

func placeOf(opts []Option) (place, error) {
	p := place{names: sqlstore.Names{Prefix: sqlstore.DefaultPrefix}, schema: DefaultSchema}
	for _, opt := range opts {
		opt(&p)
	}
	if p.schema == "" || len(p.schema) > 63 {
		return p, fmt.Errorf("%w: the schema name %q must have 1 to 63 bytes", fencepost.ErrInvalid, p.schema)
	}
	p.names.Schema = pgx.Identifier{p.schema}.Sanitize()
	return p, p.names.Validate()
}

// channel is where releases are notified.
func (p place) channel() string {
	channel := p.names.Prefix + "released_" + p.schema
	return channel[:min(len(channel), 63)]
}

// Open connects to the database of a postgres:// URL and returns a store that owns its pool. The URL may carry pgxpool's parameters,
// such as pool_max_conns. Errors are those of [OpenPool] and [New].
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	pool, err := OpenPool(ctx, url)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, pool, opts...)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// OpenPool connects to the database of a postgres:// URL. A URL that cannot be used is a fencepost.ErrInvalid, a server that cannot be
// reached or refuses the user a fencepost.ErrUnavailable. The password is in no error.
func OpenPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: the PostgreSQL URL cannot be used: %s", fencepost.ErrInvalid, withoutSecrets(url, err))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", fencepost.ErrUnavailable, withoutSecrets(url, err))
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("%w: %w", fencepost.ErrUnavailable, redacted{withoutSecrets(url, err), err})
	}
	return pool, nil
}

// New returns a store on the caller's pool, which stays the caller's. Renewals use one connection of their own, opened
// with the pool's settings, so that a job that holds the whole pool cannot starve them; waiters share another.
//
// A missing schema, missing rights and a standby are fencepost.ErrUnavailable with what to do. New creates nothing: that is for [Migrate].
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	p, err := placeOf(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, place: p}
	s.renewals.config, s.listener.config = pool.Config, pool.Config
	s.listener.channel = p.channel()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// usable says why the database cannot carry leases.
func (s *Store) usable(ctx context.Context) error {
	standby, readOnly := false, ""
	err := s.queryRow(ctx, "usable", nil, &standby, &readOnly)
	if err != nil {
		return s.classify(ctx, err, false)
	}
	if standby {
		return fmt.Errorf("%w: this server is a standby; connect to the primary", fencepost.ErrUnavailable)
	}
	if readOnly == "on" {
		return fmt.Errorf("%w: transactions are read-only here (default_transaction_read_only); leases need to write", fencepost.ErrUnavailable)
	}
	m := migrations(s.place)
	knows, err := m.Newest()
	if err != nil {
		return err
	}
	var has int64
	if err := s.queryRow(ctx, "schema_version", nil, &has); err != nil {
		return s.classify(ctx, err, false)
	}
	if has < knows {
		return fmt.Errorf("%w: the schema has version %d, this program needs %d; run fencepost migrate up", fencepost.ErrUnavailable, has, knows)
	}
	var missing []string
	if err := s.queryRow(ctx, "missing_rights", []any{s.place.names.Table("leases"), s.place.names.Table("events")}, &missing); err != nil {
		return s.classify(ctx, err, false)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: the user lacks rights: %s", fencepost.ErrUnavailable, joined(missing))
	}
	return nil
}

// Close ends what the store runs and closes what it opened. A caller's pool stays open.
func (s *Store) Close() error {
	s.listener.close()
	s.renewals.close()
	if s.owned {
		s.pool.Close()
	}
	return nil
}

// Pool returns the pool that fenced writes use.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

var texts sync.Map // of [schema, prefix, name] to the rendered statement

// text returns the statement of sql/NAME.sql.
func (p place) text(name string) string {
	key := [3]string{p.names.Schema, p.names.Prefix, name}
	if text, ok := texts.Load(key); ok {
		return text.(string)
	}
	raw, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic("postgres: no statement " + name) // misspelt in this package
	}
	text := p.names.Render(string(raw))
	texts.Store(key, text)
	return text
}

// queryRow reads one row; pgx.ErrNoRows when there is none.
func (s *Store) queryRow(ctx context.Context, name string, args []any, into ...any) error {
	found := false
	err := s.each(ctx, s.pool, name, args, func(rows pgx.Rows) error {
		found = true
		return rows.Scan(into...)
	})
	if err == nil && !found {
		return pgx.ErrNoRows
	}
	return err
}

// querier is a pool, a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// each runs a statement and hands every row to scan, to the very end: only there does the server say that it committed.
func (s *Store) each(ctx context.Context, on querier, name string, args []any, scan func(pgx.Rows) error) error {
	text := s.place.text(name)
	err := eachRow(ctx, on, text, s.mode(args), scan)
	if mixedUp(err) {
		// Refused while it was prepared, so not applied: once more, without a name that a pooler can mix up or a plan that has aged.
		if !errors.Is(err, errPlanAged) {
			s.unprepared.Store(true)
		}
		err = eachRow(ctx, on, text, append([]any{pgx.QueryExecModeExec}, args...), scan)
	}
	return err
}

func (s *Store) mode(args []any) []any {
	if s.unprepared.Load() {
		return append([]any{pgx.QueryExecModeExec}, args...)
	}
	return args
}

func eachRow(ctx context.Context, on querier, text string, args []any, scan func(pgx.Rows) error) error {
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
