package sqlite

import (
	"os"
	"testing"

	"github.com/fencepost/fencepost"
)

// The one file system that every Linux has and that is in neither list is the control; the lists are looked at by their numbers, since
// nobody can mount these here.
func TestFileSystemsThatCannotCarryLeasesAreKnown(t *testing.T) {
	if check, level, detail, _ := filesystem(os.TempDir()); check != "filesystem" || level == fencepost.LevelFailure {
		t.Errorf("the temporary folder: %s, %s", level, detail)
	}
	if _, level, detail, _ := filesystem("/proc/self"); level != fencepost.LevelOK || detail != "local" {
		t.Errorf("/proc: %s, %s", level, detail)
	}
	for kind, want := range map[int64]string{0x6969: "NFS", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x517b: "SMB", 0xc36400: "Ceph"} {
		if got := networkFilesystems[kind]; got != want {
			t.Errorf("%#x: %q, want %s", kind, got, want)
		}
	}
}
