package testenv

import "encoding/binary"

// Commands, capabilities and status flags of the MySQL protocol.
const (
	mysqlQuery   = 0x03
	mysqlPrepare = 0x16
	mysqlExecute = 0x17

	mysqlCompress     = 1 << 5
	mysqlSSL          = 1 << 11
	mysqlDeprecateEOF = 1 << 24

	mysqlMoreResults = 8
)

// mysqlWire pairs each command with its reply. The protocol has one command under way at a time.
type mysqlWire struct {
	in, out   []byte // incomplete packets
	greeted   bool   // the client has sent its capabilities
	noEOF     bool   // no packet stands between the columns and the rows
	prepared  map[uint32]string
	preparing string   // SQL whose preparation was not answered yet
	executing []string // SQL whose execution was not answered yet
	expect    func(payload []byte) bool
}

func newMySQLWire() *mysqlWire { return &mysqlWire{prepared: map[uint32]string{}} }

// packet takes the first packet from b, if it is complete.
func packet(b []byte) (sequence byte, payload, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, b, false
	}
	size := 4 + (int(b[0]) | int(b[1])<<8 | int(b[2])<<16)
	if len(b) < size {
		return 0, nil, b, false
	}
	return b[3], b[4:size:size], b[size:], true
}

func (w *mysqlWire) sent(b []byte) wire {
	w.in = append(w.in, b...)
	for {
		sequence, payload, rest, ok := packet(w.in)
		if !ok {
			return w
		}
		w.in = rest
		switch {
		case !w.greeted && len(payload) >= 32:
			w.greeted = true
			flags := binary.LittleEndian.Uint32(payload)
			if flags&(mysqlSSL|mysqlCompress) != 0 {
				return &plainWire{}
			}
			w.noEOF = flags&mysqlDeprecateEOF != 0
		case sequence == 0 && len(payload) > 0:
			w.command(payload)
		}
	}
}

func (w *mysqlWire) command(payload []byte) {
	w.preparing, w.executing = "", nil
	switch payload[0] {
	case mysqlPrepare:
		w.preparing = string(payload[1:])
	case mysqlQuery:
		w.executing, w.expect = []string{string(payload[1:])}, w.first
	case mysqlExecute:
		if len(payload) >= 5 {
			w.executing, w.expect = []string{w.prepared[binary.LittleEndian.Uint32(payload[1:])]}, w.first
		}
	}
}

func (w *mysqlWire) replied(b []byte) ([]message, wire) {
	w.out = append(w.out, b...)
	var messages []message
	for {
		_, payload, rest, ok := packet(w.out)
		if !ok {
			return messages, w
		}
		m := message{bytes: w.out[: len(payload)+4 : len(payload)+4], answers: w.executing}
		w.out = rest
		switch {
		case len(payload) == 0:
		case w.preparing != "":
			if payload[0] == 0 && len(payload) >= 5 {
				w.prepared[binary.LittleEndian.Uint32(payload[1:])] = w.preparing
			}
			w.preparing = ""
		case w.executing != nil && w.expect(payload):
			m.last, w.executing = true, nil
		}
		messages = append(messages, m)
	}
}

// first sees the first packet of a result: an error, a success, or the number of columns. It and its successors return true for
// the last packet of the whole reply.
func (w *mysqlWire) first(payload []byte) bool {
	switch payload[0] {
	case 0xff:
		return true
	case 0x00:
		_, rest := lengthEncoded(payload[1:]) // affected rows
		_, rest = lengthEncoded(rest)         // insert id
		return !more(rest)
	}
	columns, rest := lengthEncoded(payload)
	if len(rest) == 1 && rest[0] == 0 {
		columns = 0 // MariaDB leaves out what the client has from last time
	}
	if !w.noEOF {
		columns++
	}
	w.expect = func([]byte) bool {
		if columns--; columns <= 0 {
			w.expect = w.row
		}
		return false
	}
	if columns == 0 {
		w.expect = w.row
	}
	return false
}

func (w *mysqlWire) row(payload []byte) bool {
	switch {
	case payload[0] == 0xff:
		return true
	case payload[0] != 0xfe || len(payload) >= 1<<24-1 || !w.noEOF && len(payload) >= 9:
		return false
	}
	w.expect = w.first
	if !w.noEOF {
		return !more(payload[min(3, len(payload)):]) // after the warnings
	}
	_, rest := lengthEncoded(payload[1:])
	_, rest = lengthEncoded(rest)
	return !more(rest)
}

// more reads the status flags: another result follows.
func more(status []byte) bool {
	return len(status) >= 2 && binary.LittleEndian.Uint16(status)&mysqlMoreResults != 0
}

// lengthEncoded reads the protocol's integer of variable size.
func lengthEncoded(b []byte) (n int, rest []byte) {
	size := 0
	switch {
	case len(b) == 0:
		return 0, nil
	case b[0] < 0xfb:
		return int(b[0]), b[1:]
	case b[0] == 0xfc:
		size = 2
	case b[0] == 0xfd:
		size = 3
	case b[0] == 0xfe:
		size = 8
	}
	if len(b) <= size {
		return 0, nil
	}
	for i := size; i > 0; i-- {
		n = n<<8 | int(b[i])
	}
	return n, b[1+size:]
}
