package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// seal keeps all commits of a connection back but one. SQLite ends a transaction by itself when a statement's conflict rule is
// ROLLBACK, and when a writing statement is interrupted or finds the disk full; a function that goes on after such an error
// would write without a transaction, and so without its fence.
type seal struct {
	inForce bool        // false with a driver that has no hooks
	open    atomic.Bool // the one commit may come
	broken  atomic.Bool // the transaction has been rolled back, or a commit was kept back
}

// sealConn must be called inside of the transaction. It takes the connection's hooks for commits and rollbacks, and remove frees them.
func sealConn(conn *sql.Conn) (s *seal, remove func(), err error) {
	s = &seal{}
	onHooks := func(do func(sqlite.HookRegisterer)) error {
		return conn.Raw(func(c any) error {
			if hooks, ok := c.(sqlite.HookRegisterer); ok {
				do(hooks)
			}
			return nil
		})
	}
	err = onHooks(func(hooks sqlite.HookRegisterer) {
		s.inForce = true
		hooks.RegisterRollbackHook(func() { s.broken.Store(true) })
		hooks.RegisterCommitHook(func() int32 {
			if s.open.Load() && !s.broken.Load() {
				return 0
			}
			s.broken.Store(true)
			return 1
		})
	})
	return s, func() {
		onHooks(func(hooks sqlite.HookRegisterer) {
			hooks.RegisterRollbackHook(nil)
			hooks.RegisterCommitHook(nil)
		})
	}, err
}

// explain adds to an error of the function or the commit what SQLite does not say: that the seal was broken, and nothing was kept.
func (s *seal) explain(err error) error {
	if err == nil && s.broken.Load() {
		return errors.New("nothing was written: a statement ended the transaction; end it by an error from the function instead")
	}
	if err != nil && s.broken.Load() && code(err) == sqlite3.SQLITE_CONSTRAINT {
		return fmt.Errorf("nothing was written: an earlier statement had ended the transaction, and this one would have been outside of it: %w", err)
	}
	return err
}
