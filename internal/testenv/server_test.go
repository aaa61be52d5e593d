package testenv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestSharedServerIsOneServerAndLetsTestsCreateDatabasesAndTriggers(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		s := engines[kind].shared(t)
		if again := engines[kind].shared(t); again.Addr() != s.Addr() {
			t.Errorf("two servers: %s and %s", s.Addr(), again.Addr())
		}
		if !strings.HasPrefix(s.URL, string(kind)+"://") {
			t.Errorf("the URL begins with %q", strings.SplitAfter(s.URL, "://")[0])
		}
		name := fresh(t, s, admin(kind))
		db := open(t, s, s.Addr(), name)
		if kind == testenv.KindPostgres {
			must(t, db, `CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`)
			must(t, db, `CREATE TRIGGER same BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION same()`)
		} else {
			must(t, db, `CREATE TRIGGER same BEFORE UPDATE ON notes FOR EACH ROW SET NEW.id = OLD.id`)
		}
		must(t, db, insert(kind), 1, "one")
		if n := query[int](t, db, "SELECT count(*) FROM notes"); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
	})
}

// Settings that differ from what people run would let a test pass that fails in production.
func TestServersKeepTheirDefaults(t *testing.T) {
	want := map[testenv.Kind]map[string]string{
		testenv.KindPostgres: {
			"SHOW default_transaction_isolation": "read committed", "SHOW fsync": "on", "SHOW synchronous_commit": "on",
			"SHOW server_encoding": "UTF8",
		},
		testenv.KindMariaDB: {
			"SELECT @@tx_isolation": "REPEATABLE-READ", "SELECT @@innodb_flush_log_at_trx_commit": "1",
			"SELECT @@innodb_lock_wait_timeout": "50",
		},
		testenv.KindMySQL: {
			"SELECT @@transaction_isolation": "REPEATABLE-READ", "SELECT @@innodb_flush_log_at_trx_commit": "1",
			"SELECT @@log_bin": "1", "SELECT @@sync_binlog": "1", "SELECT @@innodb_lock_wait_timeout": "50",
		},
	}
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		s := engines[kind].shared(t)
		db := open(t, s, s.Addr(), admin(kind))
		for q, v := range want[kind] {
			if got := query[string](t, db, q); got != v {
				t.Errorf("%s is %q, want %q", q, got, v)
			}
		}
	})
}

func TestMySQLIsNotMariaDB(t *testing.T) {
	for kind, mariadb := range map[testenv.Kind]bool{testenv.KindMariaDB: true, testenv.KindMySQL: false} {
		s := engines[kind].shared(t)
		version := query[string](t, open(t, s, s.Addr(), admin(kind)), "SELECT version()")
		if strings.Contains(version, "MariaDB") != mariadb {
			t.Errorf("the %s server has version %s", kind, version)
		}
	}
}

func TestPrivateServerTakesSettings(t *testing.T) {
	setting := map[testenv.Kind][3]string{
		testenv.KindPostgres: {"fsync=off", "SHOW fsync", "off"},
		testenv.KindMariaDB:  {"innodb_lock_wait_timeout=3", "SELECT @@innodb_lock_wait_timeout", "3"},
		testenv.KindMySQL:    {"default_time_zone=+05:30", "SELECT @@time_zone", "+05:30"},
	}
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		t.Parallel()
		s := engines[kind].private(t, setting[kind][0])
		if got := query[string](t, open(t, s, s.Addr(), admin(kind)), setting[kind][1]); got != setting[kind][2] {
			t.Errorf("%s is %q, want %q", setting[kind][1], got, setting[kind][2])
		}
	})
}

func TestPrivateServersRunSideBySide(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		var both [2]*testenv.Server
		var wg sync.WaitGroup
		for i := range both {
			wg.Go(func() { both[i] = engines[kind].private(t) })
		}
		wg.Wait()
		if t.Failed() || t.Skipped() {
			return
		}
		name := fresh(t, both[0], admin(kind))
		if err := open(t, both[1], both[1].Addr(), name).PingContext(t.Context()); err == nil {
			t.Error("a database of one server exists on the other")
		}
	})
}

func TestCommittedRowsSurviveStopAndKill(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		t.Parallel()
		s := engines[kind].private(t)
		name := fresh(t, s, admin(kind))
		for i, end := range []func() error{s.Stop, s.Kill} {
			must(t, open(t, s, s.Addr(), name), insert(kind), i, "before")
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if c, err := net.Dial("tcp", s.Addr()); err == nil {
				c.Close()
				t.Error("somebody still listens")
			}
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			if n := query[int](t, open(t, s, s.Addr(), name), "SELECT count(*) FROM notes"); n != i+1 {
				t.Errorf("%d rows, want %d", n, i+1)
			}
		}
	})
}

func TestFrozenServerKeepsItsConnectionsAndGoesOn(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		t.Parallel()
		s := engines[kind].private(t)
		db := open(t, s, s.Addr(), admin(kind))
		db.SetMaxOpenConns(1)
		must(t, db, "SELECT 1")
		if err := s.Freeze(); err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() {
			_, err := db.ExecContext(context.WithoutCancel(t.Context()), "SELECT 2")
			answered <- err
		}()
		select {
		case err := <-answered:
			t.Errorf("a frozen server answered: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		if err := s.Thaw(); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Errorf("after the thaw: %v", err)
		}
	})
}

func TestSignalReachesTheMainProcess(t *testing.T) {
	s := testenv.PrivatePostgres(t)
	if err := s.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for syscall.Kill(s.PID(), 0) == nil {
		select {
		case <-t.Context().Done():
			t.Fatal("the server still runs")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := s.Signal(syscall.SIGINT); err == nil {
		t.Error("no error from signalling a server that has ended")
	}
}

func TestServersDoNotRunAsRoot(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind testenv.Kind) {
		s := engines[kind].shared(t)
		if s.PID() == 0 {
			s = engines[kind].private(t)
		}
		info, err := os.Stat(fmt.Sprintf("/proc/%d", s.PID()))
		if errors.Is(err, os.ErrNotExist) {
			t.Fatal("the server does not run")
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.Sys().(*syscall.Stat_t).Uid == 0 {
			t.Error("the server runs as root")
		}
	})
}

func TestStoppingAServerOfSomebodyElseIsRefused(t *testing.T) {
	s := &testenv.Server{Kind: testenv.KindPostgres, Host: "127.0.0.1", Port: 5432}
	for _, f := range []func() error{s.Stop, s.Kill, s.Restart, s.Freeze, s.Thaw} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "private") {
			t.Errorf("got %v, want a refusal that names private servers", err)
		}
	}
}

func TestDatabaseNamesAreSafeAndUnique(t *testing.T) {
	t.Run("Ünsafe name; DROP \"x\" 'y' with/much more than thirty bytes", func(t *testing.T) {
		a, b := testenv.DatabaseName(t), testenv.DatabaseName(t)
		if a == b {
			t.Errorf("%s twice", a)
		}
		if len(a) > 50 || strings.Trim(a, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("%q is not a plain name of at most 50 bytes", a)
		}
	})
}
