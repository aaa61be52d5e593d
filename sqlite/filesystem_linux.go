package sqlite

import "golang.org/x/sys/unix"

// filesystems whose machines, or whose locks, are not one. FUSE and 9P are behind many things, local ones too.
var (
	networkFilesystems = map[int64]string{
		unix.NFS_SUPER_MAGIC:  "NFS",
		unix.CIFS_SUPER_MAGIC: "SMB",
		unix.SMB_SUPER_MAGIC:  "SMB",
		unix.SMB2_SUPER_MAGIC: "SMB",
		unix.AFS_SUPER_MAGIC:  "AFS",
		unix.AFS_FS_MAGIC:     "AFS",
		unix.CODA_SUPER_MAGIC: "Coda",
		unix.CEPH_SUPER_MAGIC: "Ceph",
		0x0bd00bd0:            "Lustre",
		0x01161970:            "GFS2",
		0x7461636f:            "OCFS2",
	}
	doubtfulFilesystems = map[int64]string{
		unix.FUSE_SUPER_MAGIC: "FUSE",
		unix.V9FS_MAGIC:       "9P",
	}
)

// filesystemOf names the file system that a file is on if it is of a kind on which SQLite's locks do not work, or may not. It does not
// open the file.
func filesystemOf(path string) (network, doubtful string, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", "", false
	}
	kind := int64(uint32(s.Type)) // of different sizes and signs on different machines
	return networkFilesystems[kind], doubtfulFilesystems[kind], true
}
