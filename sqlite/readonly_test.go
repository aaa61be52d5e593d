package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/sqlite"
)

const nobody = 65534

func init() { roles["open as nobody"] = openAsNobody }

// openAsNobody says what becomes of opening a file without root's rights, for which no permission counts.
func openAsNobody(args []string, _ *bufio.Scanner) error {
	if os.Getuid() == 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return err
		}
	}
	store, err := sqlite.Open(context.Background(), "sqlite:"+args[0])
	if err == nil {
		defer store.Close()
		_, err = store.Acquire(context.Background(), fencepost.AcquireRequest{Name: "new", Owner: "A", TTL: time.Hour})
	}
	fmt.Println(errors.Is(err, fencepost.ErrUnavailable), err)
	return nil
}

func TestWithoutRightsToWriteTheDatabaseIsUnavailable(t *testing.T) {
	for name, modes := range map[string]struct {
		file, folder os.FileMode
		says         []string
	}{
		"nothing is forbidden": {0o666, 0o777, []string{"<nil>"}},
		"file read-only":       {0o444, 0o777, []string{"read-only", "readonly"}},
		"folder read-only":     {0o666, 0o555, []string{"cannot be opened", "read-only", "readonly"}},
		"both":                 {0o444, 0o555, []string{"cannot be opened", "read-only", "readonly"}},
		"file not readable":    {0o000, 0o777, []string{"cannot be opened"}},
		"folder not readable":  {0o666, 0o000, []string{"permission denied"}},
		"no file yet":          {0, 0o555, []string{"cannot be opened", "permission"}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "data")
			for _, outer := range []string{filepath.Dir(filepath.Dir(folder)), filepath.Dir(folder)} {
				if err := os.Chmod(outer, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, "leases.db")
			var before []byte
			if name != "no file yet" {
				store, err := sqlite.Open(t.Context(), "sqlite:"+path)
				if err != nil {
					t.Fatal(err)
				}
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				if before, err = os.ReadFile(path); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, modes.file); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(folder, modes.folder); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(folder, 0o755)
			answer := strings.Join(startProcess(t, "open as nobody", path).end(), "\n")
			good := false
			for _, said := range modes.says {
				good = good || strings.Contains(answer, said)
			}
			if !good || strings.HasPrefix(answer, "true") == (name == "nothing is forbidden") {
				t.Errorf("%s", answer)
			}
			if name != "nothing is forbidden" && before != nil {
				os.Chmod(folder, 0o755)
				os.Chmod(path, 0o600)
				if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
					t.Errorf("the file was changed, %v", err)
				}
			}
		})
	}
}
