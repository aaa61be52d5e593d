package mysql_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/mysql"
)

func TestAdopt(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		store := p.open(t)
		p.run(t, p.admin,
			"CREATE TABLE locks (lease_name VARCHAR(191) CHARACTER SET utf8mb4 PRIMARY KEY, owner_token CHAR(36) NOT NULL, fence_token INT UNSIGNED NOT NULL, leased_until DATETIME NULL)",
			"INSERT INTO locks VALUES ('free', 'a', 41, NULL), ('ended', 'b', 7, '2020-01-01'), ('higher here', 'c', 1, NULL), ('lower here', 'd', 99, NULL), ('名前🔒', 'e', 3000000000, NULL)")
		for range 3 {
			g := acquire(t, store, "higher here", time.Hour)
			if _, err := store.Release(t.Context(), g.Token); err != nil {
				t.Fatal(err)
			}
		}
		live := acquire(t, store, "lower here", time.Hour)

		_, err := mysql.Adopt(t.Context(), p.admin, "locks")
		if !errors.Is(err, fencepost.ErrHeld) || !strings.Contains(err.Error(), `"lower here"`) {
			t.Errorf("live here: %v", err)
		}
		if err := store.Check(t.Context(), live.Token); err != nil {
			t.Errorf("the live lease was touched: %v", err)
		}
		if _, found, _ := store.Inspect(t.Context(), "free"); found {
			t.Error("a refused adoption took over a row")
		}
		if _, err := store.Release(t.Context(), live.Token); err != nil {
			t.Fatal(err)
		}

		p.run(t, p.admin, "UPDATE locks SET leased_until = UTC_TIMESTAMP() + INTERVAL 1 HOUR WHERE lease_name = 'free'", "UPDATE locks SET leased_until = UTC_TIMESTAMP() - INTERVAL 2 HOUR WHERE lease_name = 'ended'")
		_, err = mysql.Adopt(t.Context(), p.admin, p.database+".locks")
		if !errors.Is(err, fencepost.ErrHeld) || !strings.Contains(err.Error(), `"free"`) || !strings.Contains(err.Error(), `in doubt`) || !strings.Contains(err.Error(), `"ended"`) {
			t.Errorf("live or in doubt there: %v", err)
		}

		p.run(t, p.admin, "UPDATE locks SET leased_until = NULL")
		before := p.text(t, "SELECT GROUP_CONCAT(lease_name, owner_token, fence_token ORDER BY lease_name) FROM locks")
		for round := range 2 { // again: nothing to do
			n, err := mysql.Adopt(t.Context(), p.admin, "locks")
			if want := []int{4, 0}[round]; err != nil || n != want {
				t.Errorf("round %d adopted %d, %v; want %d", round, n, err, want)
			}
		}
		if after := p.text(t, "SELECT GROUP_CONCAT(lease_name, owner_token, fence_token ORDER BY lease_name) FROM locks"); after != before {
			t.Errorf("the table was changed: %s, now %s", before, after)
		}
		for name, fence := range map[string]int64{"free": 42, "ended": 8, "higher here": 4, "lower here": 100, "名前🔒": 3000000001} {
			if g := acquire(t, store, name, time.Hour); g.Token.Fence != fence {
				t.Errorf("%s: fence %d; want %d", name, g.Token.Fence, fence)
			}
		}

		p.run(t, p.admin, "CREATE TABLE bad (lease_name VARCHAR(300) PRIMARY KEY, owner_token CHAR(36) NOT NULL, fence_token INT NOT NULL, leased_until DATETIME NULL)",
			"INSERT INTO bad VALUES (REPEAT('x', 201), 'a', 1, NULL)")
		if _, err := mysql.Adopt(t.Context(), p.admin, "bad"); !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("a name that is too long: %v", err)
		}
		for _, table := range []string{"", "a.b.c", "x`; DROP TABLE locks; --"} {
			if _, err := mysql.Adopt(t.Context(), p.admin, table); !errors.Is(err, fencepost.ErrInvalid) {
				t.Errorf("%q: %v", table, err)
			}
		}
		if _, err := mysql.Adopt(t.Context(), p.admin, "no_such_table"); !errors.Is(err, fencepost.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	})
}
