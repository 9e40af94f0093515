package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every test named in reliability.md must exist.
func TestPromisesNameExistingTests(t *testing.T) {
	page, err := os.ReadFile("internals/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	code, scripts := "", map[string]bool{}
	err = filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		switch {
		case strings.HasSuffix(path, "_test.go"):
			code += text(t, path)
		case strings.Contains(path, "testdata/"):
			scripts[filepath.Base(path)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 2 || !strings.HasPrefix(cells[1], "`") {
			continue
		}
		rows++
		for _, name := range quoted(cells[1]) {
			if !slices.ContainsFunc([]string{"(t *testing.T)", "(f *testing.F)"}, func(args string) bool { return strings.Contains(code, "\nfunc "+name+args) }) && !scripts[name] {
				t.Errorf("no such test: %s", name)
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
