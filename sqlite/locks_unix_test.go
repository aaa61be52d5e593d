//go:build linux || darwin

package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/sqlite"
)

func init() {
	roles["who locks"] = whoLocks
	roles["write at once"] = writeAtOnce
}

// whoLocks prints the process that has a lock on the bytes which every user of a SQLite file locks while it is connected, 0 for none.
func whoLocks(args []string, _ *bufio.Scanner) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: 0x40000000 + 2, Len: 510}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return err
	}
	if lock.Type == syscall.F_UNLCK {
		lock.Pid = 0
	}
	fmt.Println(lock.Pid)
	return nil
}

// writeAtOnce says what becomes of a write that does not wait.
func writeAtOnce(args []string, _ *bufio.Scanner) error {
	pool, err := poolOf(args[0], "immediate", "busy_timeout(0)")
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec("INSERT INTO results VALUES ('of another process')"); err != nil {
		fmt.Println("refused:", err)
		return nil
	}
	fmt.Println("written")
	return nil
}

// The system takes all of a process's locks on a file away when the process closes any descriptor of it. A look into the
// file before it was opened did that to the connections there were: an older SQLite in another process then took itself for
// the only user and removed the log at its end, and from then on both sides granted the same lease with the same fence.
func TestOpeningLeavesTheProcessesLocksInPlace(t *testing.T) {
	t.Run("of a connected store", func(t *testing.T) {
		path := newFile(t)
		openStore(t, path) // opens several pools on the file
		want := fmt.Sprint(os.Getpid())
		if got := startProcess(t, "who locks", path).hear(); got != want {
			t.Errorf("after Open the file is locked by process %s, want %s", got, want)
		}
		openStore(t, path)
		if got := startProcess(t, "who locks", path).hear(); got != want {
			t.Errorf("after Open again the file is locked by process %s, want %s", got, want)
		}
	})
	t.Run("of a transaction with a rollback journal", func(t *testing.T) {
		path := newFile(t)
		pool := applicationPool(t, path, "immediate", "busy_timeout(30000)", "journal_mode(DELETE)")
		store, err := sqlite.New(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, pool, "CREATE TABLE results (what TEXT)")
		token := acquire(t, store, "job", "A", time.Hour).Token
		tx := begin(t, pool)
		if err := store.Guard(t.Context(), tx, token); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if other, err := sqlite.OpenPool(ctx, "sqlite:"+path); err == nil { // it would change the journal, so it waits
			other.Close()
		}
		if got := startProcess(t, "write at once", path).hear(); got == "written" {
			t.Error("another process wrote beside a guarded transaction")
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	})
}
