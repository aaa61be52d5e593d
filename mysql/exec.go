package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Exec runs one INSERT, UPDATE, DELETE or REPLACE as a fenced write, for tables with the default names, and returns the rows affected as
// the driver counts them. It commits only while the token is the newest of its name and its lease live; otherwise it returns a
// *[fencepost.StaleError], writes nothing, and records the refusal as an event. The statement may run more than once, but commits at most
// once; an outcome that is not known is [fencepost.ErrUnknown].
//
// On a pool whose DSN has multiStatements=true (and interpolateParams=true, if there are args) it is one packet and one round trip: the
// transaction, the guard, the statement and the commit. On other pools it is a transaction of four round trips. A statement that
// contains a semicolon, also inside a text, takes the second way; several statements are refused.
func Exec(ctx context.Context, db *sql.DB, t fencepost.Token, stmt string, args ...any) (rowsAffected int64, err error) {
	return fenced{db, defaultStatements()}.exec(ctx, packetsOf(db), t, stmt, args)
}

// Exec is [Exec] for the pool and the tables of this store. A store from [Open] does it in one round trip.
func (s *Store) Exec(ctx context.Context, t fencepost.Token, stmt string, args ...any) (rowsAffected int64, err error) {
	return fenced{s.ops, s.texts}.exec(ctx, s.packets, t, stmt, args)
}

func (f fenced) exec(ctx context.Context, packets *packets, t fencepost.Token, stmt string, args []any) (n int64, err error) {
	if err := t.Validate(); err != nil {
		return 0, err
	}
	stmt, err = oneWrite(stmt)
	if err != nil {
		return 0, err
	}
	err = sqlstore.Retry(ctx, again, func() error {
		if packets.possible(stmt) {
			n, err = f.packet(ctx, t, stmt, args)
			if !errors.Is(err, errNoPackets) {
				return err
			}
		}
		n, err = f.plain(ctx, t, stmt, args)
		if err == nil {
			packets.learn(stmt)
		}
		return err
	})
	f.note(ctx, t, err)
	return n, err
}

// errNoPackets says that the packet was not understood, and nothing of it was applied.
var errNoPackets = errors.New("several statements in one packet are not possible here")

// packet sends the whole transaction at once. The server stops at the first statement that fails, and the guard fails when the
// token is stale: what follows is not run then, and the connection is rolled back.
func (f fenced) packet(ctx context.Context, t fencepost.Token, stmt string, args []any) (n int64, err error) {
	v := tokenValues(t)
	v["statement"] = literal(stmt)
	text := f.texts.with("exec", v)
	linkErr := pooled(f.db)(ctx, func(conn *sql.Conn) error {
		var raw error
		// The error that Raw returns decides whether the connection goes back to the pool, nothing else.
		if connErr := conn.Raw(func(driverConn any) error {
			n, err, raw = sendPacket(ctx, driverConn, text, args)
			return raw
		}); connErr != nil && raw == nil {
			err = connErr
		}
		if errors.Is(err, driver.ErrBadConn) {
			return err // nothing was sent: another connection
		}
		return nil
	})
	if err == nil {
		err = linkErr
	}
	if serverCode(err) == codeOutOfRange {
		// The guard, or the statement itself. A token that was stale then is so now.
		info, found, lookErr := f.look(ctx, t.Name)
		if lookErr != nil {
			return 0, lookErr
		}
		if refusal := t.Refusal(info, found); refusal != nil {
			return 0, refusal
		}
	}
	return n, err
}

func (f fenced) look(ctx context.Context, name string) (fencepost.LeaseInfo, bool, error) {
	return (&Store{common: pooled(f.db), texts: f.texts}).look(ctx, name)
}

// results is how many answers a whole packet has; the statement's is the third.
const results = 4

// sendPacket returns, besides the outcome, an error when the connection must not be used again.
func sendPacket(ctx context.Context, driverConn any, text string, args []any) (n int64, err, broken error) {
	conn, ok := driverConn.(interface {
		driver.ExecerContext
		driver.NamedValueChecker
	})
	if !ok {
		return 0, errNoPackets, nil
	}
	named := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
		if err := conn.CheckNamedValue(&named[i]); err != nil {
			return 0, fmt.Errorf("%w: argument %d: %w", fencepost.ErrInvalid, i+1, err), nil
		}
	}
	result, err := conn.ExecContext(ctx, text, named)
	if errors.Is(err, driver.ErrSkip) {
		return 0, errNoPackets, nil // arguments, and a driver that was not told to put them in
	}
	if err == nil {
		all, ok := result.(mysql.Result)
		if ok && len(all.AllRowsAffected()) == results {
			return all.AllRowsAffected()[results-2], nil, nil
		}
		err = fmt.Errorf("%w: the statement is not complete, or more than one", fencepost.ErrInvalid)
	} else if serverCode(err) == 0 {
		return 0, judge(err, true), driver.ErrBadConn
	}
	if undo(ctx, conn) != nil {
		broken = driver.ErrBadConn // the server rolls back when the connection is closed
	}
	switch code := serverCode(err); {
	case code == codeSyntax:
		err = fmt.Errorf("%w: %w", errNoPackets, err)
	case code == codeCommitFailed:
		err = unknown(err)
	}
	return 0, err, broken
}

// undoTimeout bounds the rollback after a failed packet.
const undoTimeout = time.Second

func undo(ctx context.Context, conn driver.ExecerContext) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	_, err := conn.ExecContext(ctx, "ROLLBACK AND NO CHAIN NO RELEASE", nil)
	return err
}

// plain is the same as a transaction of several round trips.
func (f fenced) plain(ctx context.Context, t fencepost.Token, stmt string, args []any) (n int64, err error) {
	err = f.once(ctx, t, func(tx *sql.Tx) error {
		var result sql.Result
		var err error
		if strings.Contains(stmt, ";") {
			// A prepared statement is always one, also where the driver lets several through.
			prepared, prepareErr := tx.PrepareContext(ctx, stmt)
			if prepareErr != nil {
				return prepareErr
			}
			defer prepared.Close()
			result, err = prepared.ExecContext(ctx, args...)
		} else {
			result, err = tx.ExecContext(ctx, stmt, args...)
		}
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	}, nil)
	return n, err
}
