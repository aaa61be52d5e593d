package testenv

import (
	"net"
	"strconv"
	"time"
)

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = l
	p.running.Go(func() { p.accept(l) })
	return nil
}

// unlisten needs the lock. Closing the listener is what makes the kernel refuse.
func (p *Proxy) unlisten() {
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

func (p *Proxy) relisten() {
	p.mu.Lock()
	needed := p.listener == nil && !p.closed
	p.mu.Unlock()
	if !needed {
		return
	}
	// The port is outside the range that the kernel hands out, so nobody but another test can have it.
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for range 500 {
		if p.listen() == nil {
			return
		}
		<-again.C
	}
	p.t.Errorf("testenv: the proxy cannot listen on %s again", p.addr)
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		k := &link{proxy: p, ends: [2]net.Conn{ToClient: client}, over: make(chan struct{}), wire: &unknownWire{}}
		p.mu.Lock()
		closed := p.closed
		k.lost = p.dark
		if !closed {
			p.links[k] = struct{}{}
			p.running.Go(k.serve)
		}
		p.mu.Unlock()
		if closed {
			client.Close()
		}
	}
}
