package testenv

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// password is the one of every server that this process starts.
var password = sync.OnceValue(func() string { return strings.ToLower(rand.Text()) })

// template holds the data directory of a server that was never started. Making one takes up to 5 s, copying it less than 1 s, and a
// test binary may ask for many private servers.
type template struct {
	mu   sync.Mutex
	path string // empty until one was made
}

var templates = map[Kind]*template{KindPostgres: {}, KindMariaDB: {}, KindMySQL: {}}

// fill gives the server in dir a fresh data directory. Initialize makes one at the given path, below a directory of its own.
func (t *template) fill(kind Kind, dir string, initialize func(dir, data string) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.path == "" {
		home, err := serverDir(kind + "-template")
		if err != nil {
			return err
		}
		data := filepath.Join(home, "data")
		if err := initialize(home, data); err != nil {
			return err
		}
		// Two MySQL servers must not share the identity that this file holds; a new one is made at the start.
		_ = os.Remove(filepath.Join(data, "auto.cnf"))
		t.path = data
	}
	return run(dir, []string{"cp", "-Rp", t.path, filepath.Join(dir, "data")})
}
