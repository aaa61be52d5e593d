//go:build linux || darwin

package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// lookUp finds the program as a shell does and returns a path that is valid in dir.
func lookUp(name, dir string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("%w: its name is empty", ErrNotFound)
	}
	if strings.Contains(name, "/") {
		return name, executable(inDir(name, dir))
	}
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) { // a dot in PATH is the user's own choice
		path, err = filepath.Abs(path)
		return path, err
	}
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		// The library passes over what may not be executed, and would report it as missing.
		candidate := filepath.Join(folder, name)
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
			return "", executable(candidate)
		}
	}
	return "", fmt.Errorf("%w: %s is not in PATH", ErrNotFound, name)
}

// inDir keeps a slash in the path: joined and cleaned, ./name would become a name that is looked for in PATH.
func inDir(path, dir string) string {
	if dir == "" || filepath.IsAbs(path) {
		return path
	}
	return dir + string(filepath.Separator) + path
}

func executable(path string) error {
	_, err := exec.LookPath(path)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %s does not exist", ErrNotFound, path)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w: %s is a directory", ErrNotExecutable, path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s: permission denied (is it marked executable?)", ErrNotExecutable, path)
	}
	return fmt.Errorf("%w: %w", ErrNotExecutable, err)
}

// startError sorts what fork and exec may answer. What exec says about the file is about the command; a lack of
// processes, memory or descriptors is about this machine and must not look like a bad command.
func startError(path, dir string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("supervise: start %s: %w", path, err)
	}
	switch errno {
	case syscall.ENOENT:
		if _, missing := os.Stat(inDir(path, dir)); missing == nil {
			return fmt.Errorf("%w: the interpreter or loader that %s names does not exist", ErrNotExecutable, path)
		}
		return fmt.Errorf("%w: %s does not exist", ErrNotFound, path)
	case syscall.ENOEXEC:
		return fmt.Errorf("%w: %s is no program for this system (a script needs a first line that names its interpreter)", ErrNotExecutable, path)
	case syscall.EACCES, syscall.EPERM, syscall.EISDIR, syscall.ENOTDIR, syscall.ETXTBSY, syscall.E2BIG, syscall.ELOOP, syscall.ENAMETOOLONG:
		return fmt.Errorf("%w: %s: %w", ErrNotExecutable, path, errno)
	}
	return fmt.Errorf("supervise: start %s: %w", path, errno)
}

func exitCodeOf(err error) int {
	switch {
	case errors.Is(err, ErrNotFound):
		return 127
	case errors.Is(err, ErrNotExecutable):
		return 126
	}
	return -1
}
