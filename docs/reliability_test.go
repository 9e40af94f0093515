package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that reliability.md names is in one of the packages listed with it,
// and every package listed there has one of them.
func TestPromisesAreTested(t *testing.T) {
	page, err := os.ReadFile("internals/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 3 || !strings.Contains(cells[1], "`") {
			continue
		}
		rows++
		used := map[string]bool{}
		for _, name := range quoted(cells[1]) {
			found := false
			for _, pkg := range quoted(cells[2]) {
				if hasTest(t, pkg, name) {
					found, used[pkg] = true, true
				}
			}
			if !found {
				t.Errorf("%s is not in %s", name, cells[2])
			}
		}
		for _, pkg := range quoted(cells[2]) {
			if !used[pkg] {
				t.Errorf("%s has none of %s", pkg, cells[1])
			}
		}
	}
	if rows < 40 {
		t.Errorf("found only %d promises", rows)
	}
}

func quoted(cell string) (words []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		words = append(words, m[1])
	}
	return words
}

// hasTest looks for a test, a scenario or a script.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	dir := filepath.Join("..", pkg)
	switch filepath.Ext(name) {
	case ".txt":
		_, err := os.Stat(filepath.Join(dir, "testdata", name))
		return err == nil
	case ".txtar":
		_, err := os.Stat(filepath.Join(dir, "testdata", "script", name))
		return err == nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", pkg, err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "\nfunc "+name+"(t *testing.T)") || strings.Contains(string(b), "\nfunc "+name+"(f *testing.F)") {
			return true
		}
	}
	return false
}
