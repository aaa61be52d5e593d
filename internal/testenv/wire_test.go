package testenv

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// feed gives a wire its input in one piece or byte by byte: a protocol does not care where segments end.
func feed(w wire, pieces bool, toServer bool, b string) (all []message, next wire) {
	step := len(b)
	if pieces {
		step = 1
	}
	for chunk := range slices.Chunk([]byte(b), max(1, step)) {
		if toServer {
			w = w.sent(chunk)
			continue
		}
		var m []message
		m, w = w.replied(chunk)
		all = append(all, m...)
	}
	return all, w
}

// summary writes for each message what it answers, with a bang when it is the last one.
func summary(messages []message) string {
	var parts []string
	for _, m := range messages {
		part := strings.Join(m.answers, "+")
		if m.last {
			part += "!"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func pgMessage(kind, body string) string {
	return kind + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))) + body
}

func TestPostgresWirePairsBatchesWithReplies(t *testing.T) {
	startup := string(binary.BigEndian.AppendUint32(nil, 9)) + string(binary.BigEndian.AppendUint32(nil, pgProtocol30)) + "\x00"
	for _, pieces := range []bool{false, true} {
		var w wire = newPostgresWire()
		steps := []struct{ sent, replied, want string }{
			{startup, pgMessage("R", "auth") + pgMessage("Z", "I"), " !"},
			{pgMessage("P", "s1\x00A\x00..") + pgMessage("S", ""), pgMessage("1", "") + pgMessage("Z", "I"), " !"},
			{pgMessage("B", "\x00s1\x00..") + pgMessage("E", "\x00") + pgMessage("S", ""),
				pgMessage("2", "") + pgMessage("C", "INSERT") + pgMessage("Z", "I"), "A A A!"},
			// Two batches under way at once.
			{pgMessage("Q", "B\x00") + pgMessage("B", "\x00s1\x00") + pgMessage("Q", "C\x00"),
				pgMessage("C", "") + pgMessage("Z", "I") + pgMessage("A", "news") + pgMessage("Z", "I"), "B B! A+C A+C!"},
			{"", pgMessage("A", "news"), ""},
		}
		for i, s := range steps {
			_, w = feed(w, pieces, true, s.sent)
			var m []message
			if m, w = feed(w, pieces, false, s.replied); summary(m) != s.want {
				t.Errorf("step %d: %q, want %q", i, summary(m), s.want)
			}
		}
	}
}

func mysqlPacket(sequence byte, payload string) string {
	n := len(payload)
	return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), sequence}) + payload
}

func TestMySQLWirePairsCommandsWithReplies(t *testing.T) {
	const ok, okMore = "\x00\x01\x00\x02\x00\x00\x00", "\x00\x01\x00\x0a\x00\x00\x00"
	const eof, eofMore, final = "\xfe\x00\x00\x02\x00", "\xfe\x00\x00\x0a\x00", "\xfe\x00\x00\x02\x00\x00\x00"
	type step struct {
		command, want string
		reply         []string
	}
	for _, noEOF := range []bool{false, true} {
		steps := []step{
			{"\x03A", "A!", []string{ok}},
			{"\x03B", "B!", []string{"\xff\x15\x04#28000no"}},
			{"\x03C;D", "C;D C;D!", []string{okMore, ok}},
			{"\x16E", "  ", []string{"\x00\x07\x00\x00\x00\x00\x00\x01\x00", "parameter", eof}},
			{"\x17\x07\x00\x00\x00", "E!", []string{ok}},
			{"\x0e", "", []string{ok}}, // ping
		}
		if noEOF {
			steps = append(steps,
				step{"\x03F", "F F F F F!", []string{"\x02", "column", "column", "\x01x", final}},
				step{"\x03G", "G G!", []string{"\x02\x00", final}}) // columns known from last time
		} else {
			steps = append(steps,
				step{"\x03F", "F F F F F F!", []string{"\x02", "column", "column", eof, "\x01x", eof}},
				step{"\x03H", "H H H H H H H H!", []string{"\x01", "column", eof, eofMore, "\x01", "column", eof, eof}})
		}
		for _, pieces := range []bool{false, true} {
			flags := uint32(0)
			if noEOF {
				flags = mysqlDeprecateEOF
			}
			login := string(binary.LittleEndian.AppendUint32(nil, flags)) + strings.Repeat("\x00", 28) + "user"
			var w wire = newMySQLWire()
			_, w = feed(w, pieces, false, mysqlPacket(0, "\x0agreeting"))
			_, w = feed(w, pieces, true, mysqlPacket(1, login))
			_, w = feed(w, pieces, false, mysqlPacket(2, ok))
			for _, s := range steps {
				_, w = feed(w, pieces, true, mysqlPacket(0, s.command))
				var reply strings.Builder
				for i, payload := range s.reply {
					reply.WriteString(mysqlPacket(byte(i+1), payload))
				}
				var m []message
				if m, w = feed(w, pieces, false, reply.String()); summary(m) != s.want {
					t.Errorf("%q (no EOF %v): %q, want %q", s.command, noEOF, summary(m), s.want)
				}
			}
		}
	}
}
