// Package postgres keeps leases in PostgreSQL 13 and newer, through github.com/jackc/pgx/v5, and fences the writes of transactions
// on the same database.
//
//	pool, err := pgxpool.New(ctx, url)
//	store, err := postgres.New(ctx, pool)
//	client := fencepost.New(store, fencepost.Options{TTL: 30 * time.Second})
//	lease, err := client.TryAcquire(ctx, "admin:reconciliation")
//	n, err := postgres.Exec(ctx, pool, lease.Token(), "UPDATE ...")
//
// The tables come from `fencepost migrate up` or [Migrate]. Every lease operation is one statement and one round trip. Expiry is
// judged by clock_timestamp() of the server, read after any wait for a lock. Every table is named with its schema: the search_path does not
// matter. Every isolation level will do as the default of the user's sessions: what the server asks to be repeated is repeated.
//
// A fenced write locks the lease's row in a mode (FOR KEY SHARE) that a takeover and a preemption conflict with and a renewal does not:
// while it is in progress a takeover is refused as busy, a preemption waits, and the holder's renewals go on. A
// process that pauses inside a fenced transaction would therefore block the takeover for ever. [Tx] limits how long its transaction may idle to the
// lease's TTL; set idle_in_transaction_session_timeout for your own transactions that use [Guard].
//
// The books of runs are fenced writes of the same kind: one batch of the guard and the statements, one round trip. A trigger ends the run of a
// token in the transaction that raises the fence, with the rights of the tables' owner: a takeover by any program needs none of its own on the
// runs. Deleting (pruning, dropping dead letters) needs the right DELETE, which nothing else does.
//
// Behind a transaction-mode pooler everything works but LISTEN: waiters then find a released lease by polling.
package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// DefaultSchema holds the tables unless [WithSchema] says otherwise.
const DefaultSchema = "public"

// Store keeps leases in a PostgreSQL database. It is safe for concurrent use.
type Store struct {
	pool     *pgxpool.Pool
	owned    bool
	place    place
	common   link
	beat     *beat
	listener *listener
}

var (
	_ fencepost.Store = (*Store)(nil)
	_ fencepost.Waker = (*Store)(nil)
)

// place says where the tables are.
type place struct {
	names  sqlstore.Names
	schema string // as it is, without quotes
}

// Option changes where the tables are.
type Option func(*place)

// WithPrefix sets what the names of the tables begin with; the default is fencepost_.
func WithPrefix(prefix string) Option { return func(p *place) { p.names.Prefix = prefix } }

// WithSchema sets the schema of the tables; the default is [DefaultSchema]. Any name will do, it is quoted. Two schemas of one database
// keep separate leases.
func WithSchema(schema string) Option { return func(p *place) { p.schema = schema } }

// longestIdentifier is where the server cuts names, in bytes: two that differ only after it would be one.
const longestIdentifier = 63

func placeOf(opts []Option) (place, error) {
	p := place{names: sqlstore.Names{Prefix: sqlstore.DefaultPrefix}, schema: DefaultSchema}
	for _, opt := range opts {
		opt(&p)
	}
	if err := validateIdentifier("schema", p.schema); err != nil {
		return p, err
	}
	p.names.Schema = pgx.Identifier{p.schema}.Sanitize()
	return p, p.names.Validate()
}

// New returns a store on the caller's pool, after checking once that it can work: the schema is there and new enough, the user has the
// rights, the server is a writable primary. Otherwise it returns an error that says what to do, matching [fencepost.ErrUnavailable] or
// [fencepost.ErrInvalid]. It never creates or changes tables. The pool stays the caller's.
//
// Renewals use one connection of their own, opened with the pool's settings and hooks at the first renewal and closed after a minute
// without one, so that jobs that use up the pool cannot starve them. Waiters share another, while there are any.
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	p, err := placeOf(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, place: p, common: pooled(pool), beat: newBeat(pool), listener: newListener(pool, p.channel())}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Open is [New] for a URL as [OpenPool] takes it. The store owns the pool that it opens.
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

// Close closes what the store itself opened: its connections for renewals and waiters and, with [Open], its pool. It waits for a
// renewal on its way.
func (s *Store) Close() error {
	s.listener.close()
	s.beat.close()
	if s.owned {
		s.pool.Close()
	}
	return nil
}

// Pool returns the pool that fenced writes of this store use.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// ready says why the database cannot carry leases.
func (s *Store) ready(ctx context.Context) error {
	c, err := readCondition(ctx, s.common, s.place)
	if err != nil {
		return err
	}
	return c.usable(s.place)
}

func validateIdentifier(what, name string) error {
	if name == "" || len(name) > longestIdentifier {
		return fmt.Errorf("%w: the %s name %q must have 1 to %d bytes", fencepost.ErrInvalid, what, name, longestIdentifier)
	}
	for _, r := range name {
		if r < ' ' || r == 0xFFFD {
			return fmt.Errorf("%w: the %s name %q contains a character that no name can have", fencepost.ErrInvalid, what, name)
		}
	}
	return nil
}
