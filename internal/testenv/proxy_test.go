package testenv_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/testenv"
)

// echo is a server that answers each line with the same line.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

type client struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{Conn: c, lines: bufio.NewReader(c)}
}

func (c *client) say(t *testing.T, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text + "\n")); err != nil {
		t.Fatal(err)
	}
}

func (c *client) hear(t *testing.T, want string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := c.lines.ReadString('\n'); got != want+"\n" {
		t.Fatalf("heard %q (%v), want %q", got, err, want)
	}
}

// silent fails if anything, an end included, arrives within a short time.
func (c *client) silent(t *testing.T) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if got, err := c.lines.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q (%v), want silence", got, err)
	}
}

func (c *client) broken(t *testing.T) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := c.lines.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q (%v), want a broken connection", got, err)
	}
}

func TestProxyPassesBytesAndEnds(t *testing.T) {
	c := dial(t, testenv.NewProxy(t, echo(t)).Addr())
	c.say(t, "one")
	c.hear(t, "one")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c.lines); len(rest) != 0 || err != nil {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestProxyDelaysEachDirection(t *testing.T) {
	for _, dir := range []testenv.Direction{testenv.ToServer, testenv.ToClient} {
		p := testenv.NewProxy(t, echo(t))
		c := dial(t, p.Addr())
		p.Delay(dir, 300*time.Millisecond)
		begin := time.Now()
		// Latency, not bandwidth: what is sent in a row arrives in a row.
		for i := range 20 {
			c.say(t, fmt.Sprint(i))
		}
		for i := range 20 {
			c.hear(t, fmt.Sprint(i))
		}
		if d := time.Since(begin); d < 300*time.Millisecond || d > 5*time.Second {
			t.Errorf("direction %d took %v, want 300ms or a little more", dir, d)
		}
	}
}

func TestProxyHoldsAndReleasesInOrder(t *testing.T) {
	for _, dir := range []testenv.Direction{testenv.ToServer, testenv.ToClient} {
		p := testenv.NewProxy(t, echo(t))
		c := dial(t, p.Addr())
		c.say(t, "before")
		c.hear(t, "before")
		p.Hold(dir)
		c.say(t, "one")
		p.AwaitHeld(t, dir)
		c.say(t, "two")
		c.silent(t)
		p.Release(dir)
		c.hear(t, "one")
		c.hear(t, "two")
	}
}

func TestProxyDeliversAHeldRequestOfAClientThatLeft(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := testenv.NewProxy(t, l.Addr().String())
	c := dial(t, p.Addr())
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p.Hold(testenv.ToServer)
	c.say(t, "late")
	p.AwaitHeld(t, testenv.ToServer)
	c.Close()
	p.Release(testenv.ToServer)
	if got, err := io.ReadAll(server); string(got) != "late\n" || err != nil {
		t.Errorf("the server read %q, %v", got, err)
	}
}

func TestProxyCutsOpenConnectionsOnly(t *testing.T) {
	p := testenv.NewProxy(t, echo(t))
	c := dial(t, p.Addr())
	c.say(t, "one")
	c.hear(t, "one")
	p.Cut()
	c.broken(t)
	c = dial(t, p.Addr())
	c.say(t, "two")
	c.hear(t, "two")
}

func TestProxyRefusesNewConnectionsOnly(t *testing.T) {
	p := testenv.NewProxy(t, echo(t))
	c := dial(t, p.Addr())
	c.say(t, "one")
	c.hear(t, "one")
	p.Refuse()
	if d, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			d.Close()
		}
		t.Errorf("got %v, want a refusal", err)
	}
	c.say(t, "two")
	c.hear(t, "two")
	p.Restore()
	c = dial(t, p.Addr())
	c.say(t, "three")
	c.hear(t, "three")
}

func TestProxyBlackholeSwallowsForGood(t *testing.T) {
	p := testenv.NewProxy(t, echo(t))
	old := dial(t, p.Addr())
	old.say(t, "one")
	old.hear(t, "one")
	p.Blackhole()
	fresh := dial(t, p.Addr())
	old.say(t, "lost")
	fresh.say(t, "lost")
	old.silent(t)
	fresh.silent(t)
	p.Restore()
	old.broken(t)
	fresh.broken(t)
	c := dial(t, p.Addr())
	c.say(t, "two")
	c.hear(t, "two")
}

func TestProxyDropsTheReplyOfAnUnknownProtocol(t *testing.T) {
	p := testenv.NewProxy(t, echo(t))
	c := dial(t, p.Addr())
	p.DropNextReply()
	c.say(t, "one")
	c.broken(t)
	p.AwaitDropped(t, 1)
	c = dial(t, p.Addr())
	c.say(t, "two")
	c.hear(t, "two")
}
