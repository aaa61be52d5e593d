package mysql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

func TestTenThousandLeasesAreRenewedByOneStatement(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		const leases = 10_000
		db := p.alone(t)
		store := p.store(t, db)
		tokens := make([]fencepost.Token, leases)
		values := ""
		for i := range tokens {
			tokens[i] = fencepost.Token{Name: fmt.Sprintf("job-%05d", i), Owner: fmt.Sprintf("owner-%05d", i), Fence: int64(i + 1)}
			values += fmt.Sprintf(",('%s','%s',%d,UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE,%d)", tokens[i].Name, tokens[i].Owner, tokens[i].Fence, 60_000+i)
		}
		p.run(t, p.admin, "INSERT INTO fencepost_leases (lease_name, owner_token, fence_token, leased_until, ttl_ms) VALUES "+values[1:])
		events := p.text(t, "SELECT COUNT(*) FROM fencepost_events")

		updates := status(t, db, "Com_update", "Com_update_multi")
		start := time.Now()
		renewals, err := store.Renew(t.Context(), tokens)
		took := time.Since(start)
		if err != nil {
			t.Fatal(err)
		}
		if n := status(t, db, "Com_update", "Com_update_multi") - updates; n != 1 {
			t.Errorf("%d updates renewed %d leases; want one", n, leases)
		}
		t.Logf("renewed and read back in %v", took)
		for i, r := range renewals {
			if r.Err != nil || r.LeasedUntil.IsZero() {
				t.Fatalf("lease %d: %+v", i, r)
			}
		}
		// Each by the TTL that it was acquired with.
		if n := p.text(t, "SELECT COUNT(*) FROM fencepost_leases WHERE TIMESTAMPDIFF(MICROSECOND, renewed_at, leased_until) = 1000 * ttl_ms"); n != fmt.Sprint(leases) {
			t.Errorf("%s of %d leases were extended by their own TTL", n, leases)
		}
		if n := p.text(t, "SELECT COUNT(*) FROM fencepost_events"); n != events {
			t.Errorf("a renewal wrote events: %s before, %s after", events, n)
		}
	})
}

func TestARenewalFindsItsRowsByTheirKey(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		db := p.alone(t)
		store := p.store(t, db)
		values := ""
		for i := range 5000 {
			values += fmt.Sprintf(",('other-%05d','o',1,NULL)", i)
		}
		p.run(t, p.admin, "INSERT INTO fencepost_leases (lease_name, owner_token, fence_token, leased_until) VALUES "+values[1:])
		var tokens []fencepost.Token
		for i := range 20 {
			tokens = append(tokens, acquire(t, store, fmt.Sprintf("job-%d", i), time.Minute).Token)
		}
		reads := []string{"Handler_read_key", "Handler_read_next", "Handler_read_rnd", "Handler_read_rnd_next", "Handler_read_first"}
		before := status(t, db, reads...)
		if _, err := store.Renew(t.Context(), tokens); err != nil {
			t.Fatal(err)
		}
		if n := status(t, db, reads...) - before; n > 1000 {
			t.Errorf("renewing %d of 5,020 leases read %d rows", len(tokens), n)
		}
	})
}

func TestARefusedTryWritesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		db := p.alone(t)
		store := p.store(t, db)
		grant := acquire(t, store, "job", time.Hour)
		row := p.text(t, "SELECT CONCAT_WS('|', HEX(owner_token), fence_token, leased_until, acquired_at, renewed_at, wanted) FROM fencepost_leases")
		counters := []string{"Handler_update", "Handler_delete", "Handler_prepare", "Binlog_cache_use"}
		before := status(t, db, counters...)
		const tries = 1000
		for range tries {
			_, err := store.Acquire(t.Context(), request("job", time.Minute))
			if held := wantHeld(t, err, false); held.Fence != grant.Token.Fence || held.Remaining <= 0 || held.Holder != "holder" {
				t.Fatalf("%+v", held)
			}
		}
		if n := status(t, db, counters...) - before; n != 0 {
			t.Errorf("%v rose by %d in %d refused tries", counters, n, tries)
		}
		if now := p.text(t, "SELECT CONCAT_WS('|', HEX(owner_token), fence_token, leased_until, acquired_at, renewed_at, wanted) FROM fencepost_leases"); now != row {
			t.Errorf("the row was %s, now %s", row, now)
		}
		if _, err := store.Release(t.Context(), grant.Token); err != nil {
			t.Fatal(err)
		}
		if next := acquire(t, store, "job", time.Hour); next.Token.Fence != grant.Token.Fence+1 {
			t.Errorf("fence %d after fence %d: refused tries burned some", next.Token.Fence, grant.Token.Fence)
		}
		if id := p.text(t, "SELECT MAX(id) FROM fencepost_events"); id != "3" {
			t.Errorf("the third event has id %s: refused tries burned some", id)
		}
	})
}

func TestRoundTrips(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		p.run(t, p.admin, "CREATE TABLE runs (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO runs VALUES (1, 0)")
		for _, several := range []bool{true, false} {
			t.Run(fmt.Sprintf("multiStatements=%v", several), func(t *testing.T) {
				c := &counter{}
				cfg := p.config()
				cfg.MultiStatements, cfg.InterpolateParams = several, several
				c.over(cfg)
				db := connect(t, cfg)
				db.SetMaxOpenConns(1)
				store := p.store(t, db)
				name := fmt.Sprintf("job-%v", several)
				first := acquire(t, store, name, time.Minute) // creates the row
				if _, err := store.Release(t.Context(), first.Token); err != nil {
					t.Fatal(err)
				}
				if _, err := store.Exec(t.Context(), first.Token, "UPDATE runs SET n = ?", 1); err == nil {
					t.Fatal("a released token wrote") // also teaches the pool's store whether packets work
				}

				var grant fencepost.Grant
				var err error
				count := func(what string, want map[bool]int64, do func()) {
					t.Helper()
					if n := c.during(do); n != want[several] {
						t.Errorf("%s: %d round trips, want %d", what, n, want[several])
					}
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
				count("acquire", map[bool]int64{true: 1, false: 2}, func() { grant, err = store.Acquire(t.Context(), request(name, time.Minute)) })
				count("refused", map[bool]int64{true: 1, false: 2}, func() {
					_, err = store.Acquire(t.Context(), request(name, time.Minute))
					wantHeld(t, err, false)
					err = nil
				})
				count("renew", map[bool]int64{true: 1, false: 2}, func() { err = renew(t, store, grant.Token) })
				count("fenced exec", map[bool]int64{true: 1, false: 4}, func() { _, err = store.Exec(t.Context(), grant.Token, "UPDATE runs SET n = n + 1 WHERE id = 1") })
				// Without interpolateParams the driver prepares, executes and closes.
				count("fenced exec with arguments", map[bool]int64{true: 1, false: 6}, func() { _, err = store.Exec(t.Context(), grant.Token, "UPDATE runs SET n = n + ? WHERE id = ?", 1, 1) })
				count("check", map[bool]int64{true: 1, false: 1}, func() { err = store.Check(t.Context(), grant.Token) })
				count("release", map[bool]int64{true: 1, false: 1}, func() { _, err = store.Release(t.Context(), grant.Token) })
			})
		}
		if n := p.text(t, "SELECT n FROM runs"); n != "4" {
			t.Errorf("four fenced writes of one counted %s", n)
		}
	})
}
