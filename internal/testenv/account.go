package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"sync"
	"syscall"
)

// account is whom servers run as: ourselves, unless we are root, whom PostgreSQL refuses to serve.
var account = sync.OnceValue(func() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	ids := &syscall.Credential{Uid: 65534, Gid: 65534}
	if u, err := user.Lookup("nobody"); err == nil {
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		if errU == nil && errG == nil {
			ids.Uid, ids.Gid = uint32(uid), uint32(gid)
		}
	}
	return ids
})

// unprivileged prepares a command that runs in dir as the account. Nothing of our environment reaches it except PATH: a
// PGDATA or a MYSQL_HOME of the developer must not change what a test sees.
func unprivileged(dir string, argv []string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C.UTF-8", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account()}
	return cmd
}

// run runs a command to its end and reports its output only when it failed.
func run(dir string, argv []string) error {
	cmd := unprivileged(dir, argv)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("testenv: %s: %w\n%s", argv[0], err, out)
	}
	return nil
}

// serverDir makes a directory for one server below the directory of this process.
func serverDir(kind Kind) (string, error) {
	guard, err := watchdog()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(guard.dir, string(kind)+"-")
	if err != nil {
		return "", err
	}
	if ids := account(); ids != nil {
		err = os.Chown(dir, int(ids.Uid), int(ids.Gid))
	}
	return dir, err
}
