package testenv

import (
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Direction is one of the two ways through a [Proxy].
type Direction int

const (
	ToServer Direction = iota // requests
	ToClient                  // replies
)

// Proxy is a TCP link to a server that a test can disturb. All methods are safe for concurrent use and take effect on
// connections that are open as well as on later ones. [*Proxy.Restore] ends every disturbance.
type Proxy struct {
	t      testing.TB
	target string
	addr   string

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change below
	way      [2]way
	drop     dropping
	dropped  []string
	dark     bool // black hole
	closed   bool
	listener net.Listener
	links    map[*link]struct{}
	running  sync.WaitGroup
}

// way is the state of one direction.
type way struct {
	delay   time.Duration
	held    bool
	waiting int // bytes that were sent and wait in the proxy
}

// dropping says which replies are to be lost.
type dropping struct {
	armed      bool
	once       bool
	containing []string
}

func (d dropping) matches(statements []string) bool {
	if !d.armed {
		return false
	}
	for _, s := range statements {
		named := func(text string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(text)) }
		if len(d.containing) == 0 || slices.ContainsFunc(d.containing, named) {
			return true
		}
	}
	return false
}

// NewProxy opens a link to the server at target (host:port). It is closed when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, changed: make(chan struct{}), links: map[*link]struct{}{}}
	for range 10 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		p.addr = loopback(port)
		if err = p.listen(); err == nil {
			break
		}
	}
	if p.listener == nil {
		t.Fatal("testenv: found no port for a proxy")
	}
	t.Cleanup(p.close)
	return p
}

// Addr is host:port of the proxy; see [*Server.URLVia].
func (p *Proxy) Addr() string { return p.addr }

// Delay makes every byte arrive d after it was sent. Order and throughput stay as they are.
func (p *Proxy) Delay(dir Direction, d time.Duration) {
	p.change(func() { p.way[dir].delay = d })
}

// Hold keeps back everything sent in this direction, also the news that a side has closed the connection, until
// [*Proxy.Release]. Held both ways it is a network partition that heals: nothing is lost, as TCP repeats what was not confirmed.
func (p *Proxy) Hold(dir Direction) {
	p.change(func() { p.way[dir].held = true })
}

// Release lets go what Hold kept back, in order. A request arrives even if its sender has given up meanwhile.
func (p *Proxy) Release(dir Direction) {
	p.change(func() { p.way[dir].held = false })
}

// AwaitHeld waits until something was sent in a direction that is held, or fails the test after a minute.
func (p *Proxy) AwaitHeld(t testing.TB, dir Direction) {
	t.Helper()
	p.await(t, "nothing was sent to be held", func() bool { return p.way[dir].held && p.way[dir].waiting > 0 })
}

// Cut resets every open connection on both sides. What was on its way is lost. New connections work.
func (p *Proxy) Cut() {
	for _, l := range p.open() {
		l.reset()
	}
}

// Refuse turns new connections away, as a server that does not run. Open ones stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unlisten()
}

// Blackhole swallows everything in both directions and never says so, as a peer that lost its power: connections stay open,
// new ones are accepted, nothing arrives. What was swallowed is gone, so Restore resets the connections that met the hole.
// For a partition that heals hold both directions instead.
func (p *Proxy) Blackhole() {
	p.change(func() {
		p.dark = true
		for l := range p.links {
			l.lost = true
		}
	})
}

// DropReplies loses replies to executed statements: the server applies the statement, commits if it commits, and answers;
// then the connection is reset and the client never learns the outcome. Only statements with one of the given texts
// in their SQL (without regard to case) are meant, all if there is none. It lasts until Restore.
//
// Replies to logging in and to preparing a statement pass: they come before anything is applied. The proxy follows the
// PostgreSQL and the MySQL protocol for that. With TLS, compression or another protocol it cannot: then the first bytes
// that follow a request count as its reply.
func (p *Proxy) DropReplies(containing ...string) {
	p.change(func() { p.drop = dropping{armed: true, containing: containing} })
}

// DropNextReply is DropReplies for the first statement that matches; later ones pass.
func (p *Proxy) DropNextReply(containing ...string) {
	p.change(func() { p.drop = dropping{armed: true, once: true, containing: containing} })
}

// Dropped lists the statements whose replies were lost, oldest first.
func (p *Proxy) Dropped() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.dropped)
}

// AwaitDropped waits until n replies were lost since the proxy was made, or fails the test after a minute.
func (p *Proxy) AwaitDropped(t testing.TB, n int) {
	t.Helper()
	p.await(t, "too few replies were lost", func() bool { return len(p.dropped) >= n })
}

// Restore ends delays, holds, refusal, the black hole and the dropping of replies.
func (p *Proxy) Restore() {
	var spoiled []*link
	p.change(func() {
		p.way[ToServer].delay, p.way[ToClient].delay = 0, 0
		p.way[ToServer].held, p.way[ToClient].held = false, false
		p.drop, p.dark = dropping{}, false
		for l := range p.links {
			if l.lost {
				spoiled = append(spoiled, l)
			}
		}
	})
	for _, l := range spoiled {
		l.reset()
	}
	p.relisten()
}

// change applies a change and wakes everything that waits for one.
func (p *Proxy) change(apply func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	apply()
	p.wake()
}

// wake needs the lock.
func (p *Proxy) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) await(t testing.TB, complaint string, reached func() bool) {
	t.Helper()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	for {
		p.mu.Lock()
		ok, changed := reached(), p.changed
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-patience.C:
			t.Fatal("testenv: proxy: " + complaint + " within a minute")
		}
	}
}

func (p *Proxy) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.links))
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.unlisten()
	p.mu.Unlock()
	p.Cut()
	p.running.Wait()
}
