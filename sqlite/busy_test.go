package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

func init() {
	roles["lock"] = holdWriteLock
	roles["contend"] = contend
}

// holdWriteLock takes the write lock of the file until it is told to let go.
func holdWriteLock(args []string, in *bufio.Scanner) error {
	db, err := sqlite.OpenPool(context.Background(), "sqlite:"+args[0])
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	fmt.Println("locked")
	in.Scan()
	return tx.Commit()
}

// SQLite refuses a transaction that read first and then writes at once, whatever the busy timeout, and a statement that waited too long. Neither
// may reach a caller who has time.
func TestOperationsOutlastAnotherProcessesWriteLock(t *testing.T) {
	pools := map[string]func(t *testing.T, path string) *sqlite.Store{
		"Open": func(t *testing.T, path string) *sqlite.Store { return openStore(t, path) },
		"a pool without busy timeout": func(t *testing.T, path string) *sqlite.Store {
			store, err := sqlite.New(t.Context(), applicationPool(t, path, "deferred", "journal_mode(DELETE)", "busy_timeout(0)"))
			if err != nil {
				t.Fatal(err)
			}
			return store
		},
	}
	for name, open := range pools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newFile(t)
			store := open(t, path)
			mustExec(t, store.DB(), "CREATE TABLE results (what TEXT)")
			grant := acquire(t, store, "job", "A", time.Hour)
			free := acquire(t, store, "to release", "A", time.Hour)
			acquire(t, store, "two seconds", "A", 2*time.Second)

			locker := startProcess(t, "lock", path)
			locker.hear()
			operations := map[string]func(ctx context.Context) error{
				"Acquire": func(ctx context.Context) error {
					_, err := store.Acquire(ctx, fencepost.AcquireRequest{Name: "new", Owner: "A", TTL: time.Hour})
					return err
				},
				"Renew": func(ctx context.Context) error {
					renewals, err := store.Renew(ctx, []fencepost.Token{grant.Token})
					return errors.Join(err, renewals[0].Err)
				},
				"Release": func(ctx context.Context) error {
					released, err := store.Release(ctx, free.Token)
					if err == nil && !released.Changed {
						err = errors.New("not released")
					}
					return err
				},
				"Exec": func(ctx context.Context) error {
					_, err := store.Exec(ctx, grant.Token, "INSERT INTO results VALUES ('by Exec')")
					return err
				},
				"Tx": func(ctx context.Context) error {
					return store.Tx(ctx, grant.Token, func(tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, "INSERT INTO results VALUES ('by Tx')")
						return err
					})
				},
				"Record": func(ctx context.Context) error {
					return store.Record(ctx, fencepost.Event{Lease: "job", Kind: fencepost.EventLost, Fence: 1})
				},
			}
			type answer struct {
				name string
				err  error
			}
			answers := make(chan answer, len(operations))
			for name, operate := range operations {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					answers <- answer{name, operate(ctx)}
				}()
			}
			waitExpired(t, applicationPool(t, path, "deferred", "busy_timeout(30000)"), "two seconds")
			select {
			case early := <-answers:
				t.Errorf("%s ended while another process held the write lock: %v", early.name, early.err)
			default:
			}
			locker.say("let go")
			locker.end()
			for range operations {
				if a := <-answers; a.err != nil {
					t.Errorf("%s: %v", a.name, a.err)
				}
			}
			if n := number(t, store.DB(), "SELECT count(*) FROM results"); n != 2 {
				t.Errorf("%d results, want 2", n)
			}
		})
	}
}

// In WAL mode a reader waits for nobody. It must not wait in the process either, behind an operation that waits for the lock: a
// held lease is answered as held, and not as a database that cannot be asked.
func TestReadsDoNotWaitBehindAWriteThatWaits(t *testing.T) {
	path := newFile(t)
	store := openStore(t, path)
	token := acquire(t, store, "job", "A", time.Hour).Token
	_, stop := watch(t, store, "job") // has a connection of its own
	defer stop()
	unlock := lockFile(t, path)
	const writing = 3
	begun, done := make(chan struct{}, writing), make(chan error, writing)
	for i := range writing {
		go func() {
			begun <- struct{}{}
			_, err := store.Acquire(t.Context(), fencepost.AcquireRequest{Name: "new-" + strconv.Itoa(i), Owner: "A", TTL: time.Hour})
			done <- err
		}()
	}
	for range writing {
		<-begun
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for range 100 { // the writers come to their wait meanwhile
		if err := store.Check(ctx, token); err != nil {
			t.Fatalf("Check: %v", err)
		}
		if _, err := store.Acquire(ctx, fencepost.AcquireRequest{Name: "job", Owner: "B", TTL: time.Hour}); !errors.Is(err, fencepost.ErrHeld) {
			t.Fatalf("Acquire: %v; want ErrHeld", err)
		}
		if list, err := store.List(ctx, fencepost.ListQuery{}); err != nil || len(list) != 1 {
			t.Fatalf("List: %v, %v", list, err)
		}
		if _, err := store.Events(ctx, fencepost.EventQuery{}); err != nil {
			t.Fatalf("Events: %v", err)
		}
	}
	select {
	case err := <-done:
		t.Errorf("a writer ended while the file was locked: %v", err)
	default:
	}
	unlock()
	for range writing {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

const (
	contenders    = 8
	contendRounds = 125 // of up to four operations each
)

// contend takes a few leases again and again against other processes, and writes under each.
func contend(args []string, in *bufio.Scanner) error {
	ctx := context.Background()
	path, me := args[0], args[1]
	store, err := sqlite.Open(ctx, "sqlite:"+path)
	if err != nil {
		return err
	}
	defer store.Close()
	fmt.Println("ready")
	in.Scan()
	for round := range contendRounds {
		name := "job-" + strconv.Itoa(round%3)
		grant, err := store.Acquire(ctx, fencepost.AcquireRequest{Name: name, Owner: me + "-" + strconv.Itoa(round), Holder: me, TTL: time.Minute})
		if errors.Is(err, fencepost.ErrHeld) {
			fmt.Println("held")
			continue
		}
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		if renewals, err := store.Renew(ctx, []fencepost.Token{grant.Token}); err != nil || renewals[0].Err != nil {
			return fmt.Errorf("renew: %w", errors.Join(err, renewals[0].Err))
		}
		if _, err := store.Exec(ctx, grant.Token, "INSERT INTO work VALUES (?, ?, ?)", name, grant.Token.Fence, grant.Token.Owner); err != nil {
			return fmt.Errorf("exec: %w", err)
		}
		if _, err := store.Release(ctx, grant.Token); err != nil {
			return fmt.Errorf("release: %w", err)
		}
		fmt.Println(name, grant.Token.Fence)
	}
	return nil
}

func TestProcessesContendWithoutErrorsAndWithOneHolderPerFence(t *testing.T) {
	path := newFile(t)
	store := openStore(t, path)
	mustExec(t, store.DB(), "CREATE TABLE work (name TEXT, fence INTEGER, owner TEXT)")
	processes := make([]*process, contenders)
	for i := range processes {
		processes[i] = startProcess(t, "contend", path, "process-"+strconv.Itoa(i))
	}
	for _, p := range processes {
		p.hear()
	}
	for _, p := range processes {
		p.say("go")
	}
	granted, held := map[string]int{}, 0
	for _, p := range processes {
		for _, line := range p.end() {
			if line == "held" {
				held++
				continue
			}
			if granted[line]++; granted[line] > 1 {
				t.Errorf("granted twice: %s", line)
			}
		}
	}
	if len(granted)+held != contenders*contendRounds || len(granted) == 0 {
		t.Errorf("%d granted, %d held, of %d", len(granted), held, contenders*contendRounds)
	}
	t.Logf("%d granted, %d held", len(granted), held)
	if n := number(t, store.DB(), "SELECT count(DISTINCT name || ' ' || fence) FROM work"); int(n) != len(granted) {
		t.Errorf("%d fences wrote, %d were granted", n, len(granted))
	}
	leases, err := store.List(t.Context(), fencepost.ListQuery{})
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, l := range leases {
		if strings.HasPrefix(l.Name, "job-") {
			sum += l.Fence
		}
	}
	if int(sum) != len(granted) {
		t.Errorf("the fences grew by %d, %d were granted: a refused try used one up", sum, len(granted))
	}
}
