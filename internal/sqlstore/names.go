// Package sqlstore is the Go code that the SQL packages share. Each of them keeps its own SQL.
package sqlstore

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/fencepost/fencepost"
)

// DefaultPrefix begins the name of every table.
const DefaultPrefix = "fencepost_"

// Names says where the tables are. SQL files are written with the default prefix, so that they can be read, reviewed and run
// as they stand; Render puts the configured names in.
type Names struct {
	Prefix string // of every table, index and trigger
	Schema string // already quoted for the engine; empty where the engine has none
}

var (
	prefixForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,29}$`)
	nameInSQL  = regexp.MustCompile(`\bfencepost_(_?)(\w+)`)
)

// Validate reports, as fencepost.ErrInvalid, a prefix that is not a plain lower-case identifier: it becomes part of SQL text.
func (n Names) Validate() error {
	if !prefixForm.MatchString(n.Prefix) {
		return fmt.Errorf("%w: the table prefix %q must be 1 to 30 lower-case letters, digits and underscores, and not begin with a digit",
			fencepost.ErrInvalid, n.Prefix)
	}
	return nil
}

// Render replaces the names in a text of SQL: fencepost_leases becomes the configured table, with its schema, and
// fencepost__leases (two underscores) the same without the schema, for the places where SQL takes none: the names of
// indexes, constraints and triggers that are being created.
func (n Names) Render(sql string) string {
	qualifier := ""
	if n.Schema != "" {
		qualifier = n.Schema + "."
	}
	return nameInSQL.ReplaceAllStringFunc(sql, func(found string) string {
		m := nameInSQL.FindStringSubmatch(found)
		if m[1] != "" {
			return n.Prefix + m[2]
		}
		return qualifier + n.Prefix + m[2]
	})
}

// Table returns a table's rendered name, for messages.
func (n Names) Table(name string) string {
	return n.Render("fencepost_" + strings.TrimPrefix(name, "fencepost_"))
}
