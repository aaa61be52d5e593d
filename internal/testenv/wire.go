package testenv

import "encoding/binary"

// wire follows the protocol of one connection as far as needed to know which reply answers which statement.
type wire interface {
	// sent sees bytes on their way to the server and returns the wire that goes on.
	sent(b []byte) wire
	// replied sees bytes on their way to the client and returns them cut into messages; it may keep an incomplete one back.
	replied(b []byte) ([]message, wire)
}

// message is a part of a reply.
type message struct {
	bytes   []byte
	answers []string // SQL of the executed statements that it belongs to
	last    bool     // the server has nothing more to do for them
}

// unknownWire decides by the first bytes: a MySQL server speaks first, a PostgreSQL client does.
type unknownWire struct{}

func (*unknownWire) sent(b []byte) wire {
	if len(b) >= 8 {
		switch binary.BigEndian.Uint32(b[4:]) {
		case pgProtocol30, pgProtocol32, pgSSLRequest, pgGSSRequest, pgCancelRequest:
			return newPostgresWire().sent(b)
		}
	}
	return (&plainWire{}).sent(b)
}

func (*unknownWire) replied(b []byte) ([]message, wire) {
	if len(b) > 4 && b[3] == 0 && b[4] == 10 {
		return newMySQLWire().replied(b)
	}
	return (&plainWire{}).replied(b)
}

// plainWire knows no protocol: whatever comes back after something was sent is the reply.
type plainWire struct{ asked bool }

func (w *plainWire) sent(b []byte) wire {
	w.asked = true
	return w
}

func (w *plainWire) replied(b []byte) ([]message, wire) {
	m := message{bytes: b}
	if w.asked {
		m.answers, m.last, w.asked = []string{""}, true, false
	}
	return []message{m}, w
}
