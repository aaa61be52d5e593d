package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

func TestASingleTryAnswersAtOnce(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		c.acquire("job", "--ttl", "1h", "--holder", "A")
		for _, args := range [][]string{{}, {"--wait=0"}, {"--wait=0s"}} {
			r := c.run(append([]string{"acquire", "job", "--json"}, args...)...).exits(exitHeld)
			if f := r.failure(); f.Error != "held" || f.Holder != "A" || *f.RemainingMS < 3_000_000 {
				c.Errorf("%q: %+v", args, f)
			}
			if r.took > 3*time.Second {
				c.Errorf("%q took %v", args, r.took)
			}
			c.run(append([]string{"run", "job"}, append(args, "--", "touch", "started")...)...).exits(exitHeld).oneLine(`"A"`)
		}
		if _, err := os.Stat(filepath.Join(c.dir, "started")); err == nil {
			c.Error("the command was started without the lease")
		}
	})
}

func TestAWaiterGetsTheLeaseWhenItIsReleased(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		a := c.acquire("job", "--ttl", "1h")
		s := c.store()
		waiter := c.start("acquire", "job", "--wait", "--json")
		c.until("somebody to wait", func() bool { return c.inspect(s, "job").Wanted })
		if !waiter.running() {
			c.Fatal("the waiter ended while the lease was held")
		}
		c.holding(a).ok("release")
		if g := decode[granted](waiter.wait().exits(0)); g.Fence != 2 {
			c.Errorf("granted %+v", g)
		}
	})
}

func TestAWaiterGetsTheLeaseOfAHolderThatIsGone(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.acquire("job", "--ttl", "1s", "--holder", "gone")
	if g := decode[granted](c.ok("acquire", "job", "--wait", "--json", "--ttl", "1h")); g.Fence != 2 {
		t.Errorf("granted %+v", g)
	}
}

// The holder's row changes all the time and others ask for the lease all the time: neither may shorten or lengthen the wait.
func TestAWaitLastsAsLongAsItWasAskedFor(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		const wait = 2 * time.Second
		s := c.store()
		client := fencepost.New(s, fencepost.Options{})
		lease, err := client.TryAcquire(c.Context(), "job")
		if err != nil {
			c.Fatal(err)
		}
		defer lease.Release(context.WithoutCancel(c.Context()))
		ctx, stop := context.WithCancel(c.Context())
		var churn sync.WaitGroup
		defer churn.Wait()
		defer stop()
		for range 4 {
			churn.Go(func() {
				for ctx.Err() == nil {
					lease.Renew(ctx)
					client.TryAcquire(ctx, "job")
				}
			})
		}
		r := c.run("acquire", "job", fmt.Sprintf("--wait=%v", wait), "--json").exits(exitHeld).oneLine("--wait=2s is over")
		if f := r.failure(); f.Error != "held" {
			c.Errorf("%+v", f)
		}
		if r.took < wait || r.took > wait+8*time.Second {
			c.Errorf("waited %v, was asked for %v", r.took, wait)
		}
	})
}

func TestASignalEndsTheWaiting(t *testing.T) {
	t.Parallel()
	onEveryDatabase(t, func(c *cli) {
		s := c.store()
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
			for _, args := range [][]string{{"run", "job", "--wait=1h", "--json", "--", "touch", "started"}, {"acquire", "job", "--wait", "--json"}} {
				// A lease of its own each time: the row says when it is waited for, and goes on saying so.
				name := fmt.Sprintf("%s %s", args[0], signalName(signal))
				args[1] = name
				a := c.acquire(name, "--ttl", "1h")
				before := c.inspect(s, name)
				p := c.start(args...)
				c.until("somebody to wait", func() bool { return c.inspect(s, name).Wanted })
				began := time.Now()
				p.signal(signal)
				r := p.wait().exits(128 + int(signal)).oneLine(signalName(signal))
				if took := time.Since(began); took > 5*time.Second {
					c.Errorf("%v: %q left after %v", signal, args, took)
				}
				if f := r.failure(); f.Error != "interrupted" || f.Reason != signalName(signal) {
					c.Errorf("%v: %+v", signal, f)
				}
				after := c.inspect(s, name)
				before.Remaining, before.Wanted, after.Remaining, after.Wanted = 0, false, 0, false
				if after != before {
					c.Errorf("%v: the row was\n%+v and is\n%+v", signal, before, after)
				}
				c.holding(a).ok("release")
				if info := c.inspect(s, name); info.State() != fencepost.StateFree {
					c.Errorf("a waiter that left has the lease: %+v", info)
				}
			}
		}
		if _, err := os.Stat(filepath.Join(c.dir, "started")); err == nil {
			c.Error("the command was started")
		}
	})
}

func TestAnIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	s := c.store()
	a := c.acquire("job", "--ttl", "1h")
	p := c.startVia([]string{"nohup"}, "acquire", "job", "--wait", "--json")
	c.until("somebody to wait", func() bool { return c.inspect(s, "job").Wanted })
	p.signal(syscall.SIGHUP)
	c.holding(a).ok("release")
	p.wait().exits(0)
}
