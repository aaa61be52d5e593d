package mysql

import (
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/fencepost/fencepost"
)

// packets remembers whether a pool lets several statements travel in one packet: its DSN cannot be asked.
type packets struct{ no atomic.Bool }

// possible reports whether a statement may be sent in a packet with others. One with a semicolon may hide a second statement, and
// only the server could tell.
func (p *packets) possible(stmt string) bool { return !p.no.Load() && !strings.Contains(stmt, ";") }

// learn is told of a statement that was refused in a packet and went through alone.
func (p *packets) learn(stmt string) {
	if p.possible(stmt) {
		p.no.Store(true)
	}
}

var packetsByPool sync.Map // weak.Pointer[sql.DB] -> *packets

func packetsOf(db *sql.DB) *packets {
	key := weak.Make(db)
	known, seen := packetsByPool.LoadOrStore(key, &packets{})
	if !seen {
		runtime.AddCleanup(db, func(key weak.Pointer[sql.DB]) { packetsByPool.Delete(key) }, key)
	}
	return known.(*packets)
}

// oneWrite refuses what could end the transaction that fences it, and returns the statement without a semicolon at its end.
func oneWrite(stmt string) (string, error) {
	stmt = strings.TrimRight(strings.TrimSpace(stmt), "; \t\r\n")
	switch verb := strings.ToUpper(firstWord(stmt)); verb {
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH":
		return stmt, nil
	case "":
		return "", fmt.Errorf("%w: there is no statement to run", fencepost.ErrInvalid)
	default:
		return "", fmt.Errorf("%w: Exec runs one INSERT, UPDATE, DELETE, REPLACE or WITH, not %s: use Tx for other work, but no statement in it may commit by itself",
			fencepost.ErrInvalid, verb)
	}
}

// firstWord skips comments, but none that the server would execute.
func firstWord(stmt string) string {
	for {
		stmt = strings.TrimLeft(stmt, " \t\r\n(")
		var found bool
		switch {
		case strings.HasPrefix(stmt, "/*!"), strings.HasPrefix(stmt, "/*M!"):
			return "a comment that is executed"
		case strings.HasPrefix(stmt, "/*"):
			_, stmt, found = strings.Cut(stmt, "*/")
		case strings.HasPrefix(stmt, "--"), strings.HasPrefix(stmt, "#"):
			_, stmt, found = strings.Cut(stmt, "\n")
		default:
			end := strings.IndexFunc(stmt, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '_' })
			if end < 0 {
				end = len(stmt)
			}
			if end == 0 && stmt != "" {
				return "text that begins with " + stmt[:1]
			}
			return stmt[:end]
		}
		if !found {
			return ""
		}
	}
}
