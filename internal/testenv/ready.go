package testenv

import (
	"encoding/binary"
	"io"
	"net"
	"time"
)

// answers says whether the server would let a client in now. It speaks just enough of each protocol to tell a server
// that works from one that only holds the port.
func answers(s *Server) bool {
	c, err := net.DialTimeout("tcp", s.Addr(), 2*time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	switch s.Kind {
	case KindPostgres, KindPgBouncer:
		return postgresAnswers(c, s)
	default:
		return mysqlAnswers(c)
	}
}

// postgresAnswers sends a startup message. A server that is starting, recovering or full answers with an error; one that works asks
// for the password.
func postgresAnswers(c net.Conn, s *Server) bool {
	body := []byte("user\x00" + s.User + "\x00database\x00" + s.database + "\x00\x00")
	message := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	message = binary.BigEndian.AppendUint32(message, 3<<16)
	if _, err := c.Write(append(message, body...)); err != nil {
		return false
	}
	var kind [1]byte
	_, err := io.ReadFull(c, kind[:])
	return err == nil && kind[0] == 'R'
}

// mysqlAnswers reads the greeting: protocol version 10, where an error packet would have 255.
func mysqlAnswers(c net.Conn) bool {
	var head [5]byte
	_, err := io.ReadFull(c, head[:])
	return err == nil && head[4] == 10
}
