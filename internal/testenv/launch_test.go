package testenv

import (
	"errors"
	"net"
	"testing"
)

// Another process may bind the port between the look for a free one and the server's own bind. The start is repeated then, and
// whoever answers on the port must not be taken for the server.
func TestTakenPortIsNoticed(t *testing.T) {
	for _, kind := range append(Kinds(), KindPgBouncer) {
		t.Run(string(kind), func(t *testing.T) {
			var s *Server
			if kind == KindPgBouncer {
				s = PgBouncer(t, Postgres(t), PoolOptions{})
			} else {
				s = private(t, kind, nil)
			}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			squatter, err := net.Listen("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer squatter.Close()
			if p, err := s.launch(s); !errors.Is(err, errPortTaken) {
				t.Errorf("got %v and %v, want the news that the port is taken", p, err)
			}
		})
	}
}
