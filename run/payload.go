package run

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxError is how much of an error is kept, in bytes.
const maxError = 16 << 10

// encode makes JSON of v and checks its size. nil is no payload; a json.RawMessage is taken as it is.
func (h *History) encode(what string, v any) ([]byte, error) {
	var payload []byte
	switch v := v.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if len(v) == 0 {
			return nil, nil
		}
		payload = v
		if !json.Valid(payload) || !utf8.Valid(payload) {
			return nil, invalidf("the %s is not valid JSON in UTF-8: it begins with %q", what, payload[:min(len(payload), 40)])
		}
	default:
		var err error
		if payload, err = json.Marshal(v); err != nil {
			return nil, invalidf("the %s cannot be written as JSON: %v", what, err)
		}
	}
	if len(payload) > h.o.MaxPayload {
		return nil, invalidf("the %s has %d bytes of JSON; at most %d are kept: store it elsewhere and keep a reference to it, or raise the limit", what, len(payload), h.o.MaxPayload)
	}
	return payload, nil
}

// text makes any text storable on every database. Of a long one the end is kept: that is where a program says why it failed.
func text(s string) string {
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) > maxError {
		s = "..." + s[len(s)-maxError+3:]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
