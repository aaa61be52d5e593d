//go:build linux || darwin

package supervise

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func withholdListed(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return err
}
