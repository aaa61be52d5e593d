//go:build !linux

package sqlite

// filesystemOf cannot tell here.
func filesystemOf(string) (network, doubtful string, known bool) { return "", "", false }
