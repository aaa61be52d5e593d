package postgres

import (
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var texts sync.Map // of [3]string{schema, prefix, name} to the rendered statement

// text returns the statement of a file of the folder sql, with the configured names in it.
func (p place) text(name string) string {
	key := [3]string{p.names.Schema, p.names.Prefix, name}
	if text, ok := texts.Load(key); ok {
		return text.(string)
	}
	raw, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic("postgres: no statement " + name) // misspelt in this package
	}
	text := p.names.Render(withoutComments(string(raw)))
	texts.Store(key, text)
	return text
}

// withoutComments drops the lines that explain a statement to its reader: they need not travel.
func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}

// identity is a number for an installation within its database.
func (p place) identity() [sha256.Size]byte {
	return sha256.Sum256([]byte(p.schema + "\x00" + p.names.Prefix))
}

// channel is where releases are notified. Its name is a sum, because the names that it stands for may be as long as a name can be.
func (p place) channel() string {
	id := p.identity()
	return "fencepost_" + hex.EncodeToString(id[:16])
}

// lockKey is the advisory lock of migrations.
func (p place) lockKey() int64 {
	id := p.identity()
	return int64(binary.BigEndian.Uint64(id[16:]))
}
