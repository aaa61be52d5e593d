package testenv

import (
	"os"
	"path/filepath"
)

// reachable says whether the account that runs the servers can walk to path and read it.
func reachable(path string) bool {
	if account() == nil {
		_, err := os.Stat(path)
		return err == nil
	}
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if p == filepath.Dir(p) {
			return true
		}
	}
}
