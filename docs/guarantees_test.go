package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName    = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	suiteRow    = regexp.MustCompile("`storetest` ((?:`[A-Za-z0-9]+`(?:, )?)+)")
	backticked  = regexp.MustCompile("`([A-Za-z0-9]+)`")
	declaration = regexp.MustCompile(`(?m)^func (\w+)\(`)
)

func TestEveryTestThatTheGuaranteesNameExists(t *testing.T) {
	page, err := os.ReadFile("guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	declared, suite := map[string]bool{}, ""
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			declared[m[1]] = true
		}
		if strings.Contains(filepath.ToSlash(path), "/storetest/") {
			suite += string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := testName.FindAllStringSubmatch(string(page), -1)
	if len(named) < 20 {
		t.Fatalf("only %d tests are named", len(named))
	}
	for _, m := range named {
		if !declared[m[1]] {
			t.Errorf("there is no test %s", m[1])
		}
	}
	for _, row := range suiteRow.FindAllStringSubmatch(string(page), -1) {
		for _, m := range backticked.FindAllStringSubmatch(row[1], -1) {
			if !declared[m[1]] && !strings.Contains(suite, `"`+m[1]+`"`) {
				t.Errorf("the suite has no test %s", m[1])
			}
		}
	}
}
