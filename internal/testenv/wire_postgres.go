package testenv

import (
	"bytes"
	"encoding/binary"
)

// Codes in the first message of a PostgreSQL connection.
const (
	pgProtocol30    = 3 << 16
	pgProtocol32    = 3<<16 | 2
	pgCancelRequest = 80877102
	pgSSLRequest    = 80877103
	pgGSSRequest    = 80877104
)

// postgresWire pairs each batch that a client sends, up to Query or Sync, with the replies up to ReadyForQuery: the server sends
// that one after the commit, while CommandComplete of an extended query comes before it.
type postgresWire struct {
	in, out    []byte // incomplete messages
	started    bool
	negotiates bool              // one byte answers the request for encryption
	prepared   map[string]string // statement name -> SQL
	batches    [][]string        // executed SQL of the batches without ReadyForQuery, oldest first
	closed     int               // how many of the batches are complete; at most one more is open
}

func newPostgresWire() *postgresWire { return &postgresWire{prepared: map[string]string{}} }

func (w *postgresWire) sent(b []byte) wire {
	w.in = append(w.in, b...)
	for {
		head, least := 1, 5 // a type and a length
		if !w.started {
			head, least = 0, 8 // a length and a code
		}
		if len(w.in) < least {
			return w
		}
		size := head + int(binary.BigEndian.Uint32(w.in[head:]))
		if len(w.in) < size {
			return w
		}
		if w.started {
			w.request(w.in[0], w.in[5:size])
		} else {
			w.start(binary.BigEndian.Uint32(w.in[4:]))
		}
		w.in = w.in[size:]
	}
}

func (w *postgresWire) start(code uint32) {
	switch code {
	case pgSSLRequest, pgGSSRequest:
		w.negotiates = true
	case pgCancelRequest:
	default:
		w.started = true
		w.batches, w.closed = [][]string{nil}, 1 // logging in ends with ReadyForQuery too
	}
}

func (w *postgresWire) request(kind byte, body []byte) {
	switch kind {
	case 'P':
		if fields := bytes.SplitN(body, []byte{0}, 3); len(fields) == 3 {
			w.prepared[string(fields[0])] = string(fields[1])
		}
	case 'B':
		if fields := bytes.SplitN(body, []byte{0}, 3); len(fields) == 3 {
			w.execute(w.prepared[string(fields[1])])
		}
	case 'Q':
		w.execute(string(bytes.TrimRight(body, "\x00")))
		w.closed++
	case 'S':
		if len(w.batches) == w.closed {
			w.batches = append(w.batches, nil)
		}
		w.closed++
	}
}

func (w *postgresWire) execute(sql string) {
	if len(w.batches) == w.closed {
		w.batches = append(w.batches, nil)
	}
	open := len(w.batches) - 1
	w.batches[open] = append(w.batches[open], sql)
}

func (w *postgresWire) replied(b []byte) ([]message, wire) {
	w.out = append(w.out, b...)
	var messages []message
	if w.negotiates && len(w.out) > 0 && w.out[0] != 'E' {
		answer := w.out[0]
		messages = append(messages, message{bytes: w.out[:1]})
		w.out, w.negotiates = w.out[1:], false
		if answer != 'N' {
			return messages, &plainWire{} // encrypted from here on
		}
	}
	for len(w.out) >= 5 {
		size := 1 + int(binary.BigEndian.Uint32(w.out[1:]))
		if len(w.out) < size {
			break
		}
		m := message{bytes: w.out[:size:size]}
		if len(w.batches) > 0 {
			m.answers = w.batches[0]
		}
		if w.out[0] == 'Z' && w.closed > 0 {
			m.last = true
			w.batches, w.closed = w.batches[1:], w.closed-1
		}
		messages = append(messages, m)
		w.out = w.out[size:]
	}
	return messages, w
}
