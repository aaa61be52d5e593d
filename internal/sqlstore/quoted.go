package sqlstore

import (
	"fmt"
	"slices"
	"strings"
)

// Quoted lists names for a message, but not thousands of them.
func Quoted(names []string) string {
	const most = 20
	slices.Sort(names)
	var b strings.Builder
	for i, name := range names[:min(len(names), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", name)
	}
	if len(names) > most {
		fmt.Fprintf(&b, " and %d more", len(names)-most)
	}
	return b.String()
}
