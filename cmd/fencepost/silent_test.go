package main

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/testenv"
)

// A server that accepts connections and never answers.
func TestASilentDatabaseIsAnErrorAndNotAHang(t *testing.T) {
	t.Parallel()
	onEveryServer(t, func(c *cli, s *testenv.Server, database string) {
		proxy := testenv.NewProxy(c.T, s.Addr())
		proxy.Blackhole()
		behind := c.with(envDB, s.URLVia(proxy.Addr(), database))
		var all []*process
		for _, command := range [][]string{
			{"ls", "--json"}, {"acquire", "job", "--json"}, {"acquire", "job", "--wait", "--json"}, {"run", "job", "--json", "--", "touch", "started"}, {"doctor", "--json"},
			{"migrate", "status", "--json"},
		} {
			all = append(all, behind.start(command...))
		}
		for _, p := range all {
			r := p.wait().exits(exitUnavailable).oneLine()
			if f := r.failure(); f.Error != "unavailable" {
				c.Errorf("%q: %+v", p.args, f)
			}
			if r.took > 50*time.Second {
				c.Errorf("%q took %v", p.args, r.took)
			}
		}
		c.nothingWasMade()
	})
}
