package mysql

import (
	"embed"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/internal/sqlstore"
)

// Each file is one statement that both servers read: what stands in /*M! */ only MariaDB sees, what stands in /*+ */ only
// MySQL. Both set the same for the length of the statement: the zone, so that SYSDATE is UTC (it is the only clock that is
// read after a lock wait, and that SET timestamp does not change); a bound on metadata locks, which by default are
// waited for up to a year; and no sql_safe_updates, which forbids updates by its own taste.
//
//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are the texts of the .sql files with the configured names in them.
type statements map[string]string

var plainTexts = sync.OnceValue(func() statements { return readStatements(sqlFiles, "sql") })

func readStatements(files fs.FS, dir string) statements {
	texts := statements{}
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		panic(err) // embedded: cannot fail once it was tested
	}
	for _, entry := range entries {
		text, err := fs.ReadFile(files, path.Join(dir, entry.Name()))
		if err != nil {
			panic(err)
		}
		texts[strings.TrimSuffix(entry.Name(), ".sql")] = withoutComments(string(text))
	}
	return texts
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

func renderStatements(names sqlstore.Names) statements {
	rendered := statements{}
	for name, text := range plainTexts() {
		rendered[name] = names.Render(text)
	}
	return rendered
}

// with returns a statement with its values.
func (s statements) with(name string, v values) string {
	text, ok := s[name]
	if !ok {
		panic("mysql: no statement " + name)
	}
	return fill(text, v)
}

var defaultStatements = sync.OnceValue(func() statements {
	return renderStatements(sqlstore.Names{Prefix: sqlstore.DefaultPrefix})
})
