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

// find returns the path of each program. They come from the best directory that has the first of them.
func find(kind Kind, programs ...string) ([]string, error) {
	for _, dir := range usualPlaces() {
		first := filepath.Join(dir, programs[0])
		if !executable(first) {
			continue
		}
		found := []string{first}
		for _, p := range programs[1:] {
			i := slices.IndexFunc(append([]string{dir}, usualPlaces()...), func(d string) bool { return executable(filepath.Join(d, p)) })
			if i < 0 {
				break
			}
			found = append(found, filepath.Join(append([]string{dir}, usualPlaces()...)[i], p))
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
