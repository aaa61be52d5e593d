package testenv

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// link is one connection through a [Proxy].
type link struct {
	proxy *Proxy
	lost  bool // bytes were swallowed: it can never carry sense again; guarded by proxy.mu

	endsMu sync.Mutex
	ends   [2]net.Conn // where bytes of a direction go to: ends[ToServer] is the server
	over   chan struct{}
	once   sync.Once

	wireMu sync.Mutex
	wire   wire
}

// chunk is what one read returned.
type chunk struct {
	bytes []byte
	at    time.Time
	end   error // the sender closed (io.EOF) or broke the connection, after the bytes
}

func (l *link) serve() {
	defer func() {
		l.finish()
		l.proxy.mu.Lock()
		delete(l.proxy.links, l)
		l.proxy.mu.Unlock()
	}()
	if l.spoiled() {
		// Accepted by a peer without power: nobody will ever connect to the server for it.
		_, _ = io.Copy(io.Discard, l.ends[ToClient])
		<-l.over
		return
	}
	server, err := net.DialTimeout("tcp", l.proxy.target, 30*time.Second)
	if err != nil {
		l.reset()
		return
	}
	if !l.join(server) {
		server.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.carry(ToServer) })
	both.Go(func() { l.carry(ToClient) })
	both.Wait()
}

func (l *link) spoiled() bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.lost
}

// join adds the server's end, unless the link was reset meanwhile.
func (l *link) join(server net.Conn) bool {
	l.endsMu.Lock()
	defer l.endsMu.Unlock()
	select {
	case <-l.over:
		return false
	default:
		l.ends[ToServer] = server
		return true
	}
}

// reset ends the link with a TCP reset on both sides: whatever was not read yet is lost.
func (l *link) reset() { l.end(true) }

// finish ends the link so that what was passed on can still be read.
func (l *link) finish() { l.end(false) }

func (l *link) end(abruptly bool) {
	l.once.Do(func() {
		l.endsMu.Lock()
		defer l.endsMu.Unlock()
		close(l.over)
		for _, c := range l.ends {
			if c == nil {
				continue
			}
			if abruptly {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
		}
	})
}

// carry moves one direction's bytes until its sender's end has been passed on.
func (l *link) carry(dir Direction) {
	queue := l.receive(dir)
	for c := range queue {
		going := l.clear(dir, c.at) && l.deliver(dir, c)
		l.proxy.count(dir, -len(c.bytes))
		if !going {
			l.finish()
			break
		}
	}
	// Receiving ends with the link, or has ended.
	for c := range queue {
		l.proxy.count(dir, -len(c.bytes))
	}
}

// receive reads on while delivery waits: a held request must not push back on its sender, whose kernel would have sent it.
func (l *link) receive(dir Direction) <-chan chunk {
	queue := make(chan chunk, 1<<16)
	from := l.ends[1-dir]
	go func() {
		defer close(queue)
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			l.proxy.count(dir, n)
			select {
			case queue <- chunk{bytes: bytes.Clone(buffer[:n]), at: time.Now(), end: err}:
			case <-l.over:
				l.proxy.count(dir, -n)
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return queue
}

// clear waits until a chunk of this age may go on. False means that the link is over.
func (l *link) clear(dir Direction, at time.Time) bool {
	for {
		l.proxy.mu.Lock()
		w, changed, stuck := l.proxy.way[dir], l.proxy.changed, l.proxy.way[dir].held || l.lost
		l.proxy.mu.Unlock()
		wait := time.Until(at.Add(w.delay))
		if !stuck && wait <= 0 {
			return true
		}
		due := time.NewTimer(wait)
		if stuck {
			due.Stop() // only a change can help
		}
		select {
		case <-due.C:
		case <-changed:
		case <-l.over:
			return false
		}
		due.Stop()
	}
}

// deliver passes a chunk on, or loses it. False ends the link.
func (l *link) deliver(dir Direction, c chunk) bool {
	if len(c.bytes) > 0 && !l.pass(dir, c.bytes) {
		return false
	}
	if errors.Is(c.end, io.EOF) {
		return l.ends[dir].(*net.TCPConn).CloseWrite() == nil
	}
	return c.end == nil
}

func (l *link) pass(dir Direction, b []byte) bool {
	l.wireMu.Lock()
	defer l.wireMu.Unlock()
	if dir == ToServer {
		l.wire = l.wire.sent(b)
		_, err := l.ends[ToServer].Write(b)
		return err == nil
	}
	var messages []message
	messages, l.wire = l.wire.replied(b)
	for _, m := range messages {
		switch l.proxy.judge(m) {
		case swallow:
			continue
		case swallowAndReset:
			l.reset()
			return false
		}
		if _, err := l.ends[ToClient].Write(m.bytes); err != nil {
			return false
		}
	}
	return true
}

// verdict is what happens to a message.
type verdict int

const (
	passOn verdict = iota
	swallow
	swallowAndReset
)

// judge decides the fate of a message. The link is reset only when the reply is complete: only then has the server committed.
func (p *Proxy) judge(m message) verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.drop.matches(m.answers) {
		return passOn
	}
	if !m.last {
		return swallow
	}
	p.dropped = append(p.dropped, m.answers...)
	if p.drop.once {
		p.drop = dropping{}
	}
	p.wake()
	return swallowAndReset
}

func (p *Proxy) count(dir Direction, n int) {
	if n != 0 {
		p.change(func() { p.way[dir].waiting += n })
	}
}
