package testenv

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// SearchEnvVar names an environment variable with a list of directories. Server programs are looked for there and nowhere else.
const SearchEnvVar = "FENCEPOST_TEST_PROGRAMS"

// usualPlaces lists the directories to search for server programs, best first.
func usualPlaces() []string {
	if only, ok := os.LookupEnv(SearchEnvVar); ok {
		return filepath.SplitList(only)
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(debian, func(a, b string) int { return cmp.Compare(postgresVersion(b), postgresVersion(a)) })
	places := append(debian, "/usr/sbin", "/usr/bin", "/usr/local/pgsql/bin")
	return append(places, filepath.SplitList(os.Getenv("PATH"))...)
}

func postgresVersion(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// find returns the path of each program. The others are preferred from the directory of the first, so that versions do
// not mix.
func find(kind Kind, programs ...string) ([]string, error) {
	places := usualPlaces()
	for _, dir := range places {
		var found []string
		for _, p := range programs {
			for _, d := range append([]string{dir}, places...) {
				if path := filepath.Join(d, p); executable(path) && (len(found) > 0 || d == dir) {
					found = append(found, path)
					break
				}
			}
			if len(found) == 0 {
				break
			}
		}
		if len(found) == len(programs) {
			return found, nil
		}
	}
	return nil, &MissingError{Kind: kind, Want: strings.Join(programs, " and ")}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
