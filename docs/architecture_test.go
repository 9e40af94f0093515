package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page that a stranger reads first leads into the code that there is, to all of it, and is short.
func TestArchitecture(t *testing.T) {
	b, err := os.ReadFile("internals/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	linked := map[string]bool{}
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(page, -1) {
		linked[m[1]] = true
		if _, err := os.Stat(filepath.Join("internals", m[1])); err != nil {
			t.Errorf("a link leads nowhere: %v", err)
		}
	}
	for _, m := range regexp.MustCompile("`(\\w+)` in \\[[^]]*\\]\\(([^)]+)\\)").FindAllStringSubmatch(page, -1) {
		if code, _ := os.ReadFile(filepath.Join("internals", m[2])); !regexp.MustCompile(`\b` + m[1] + `\b`).Match(code) {
			t.Errorf("%s is not in %s", m[1], m[2])
		}
	}
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && path != ".." {
			return filepath.SkipDir
		}
		if code, _ := filepath.Glob(path + "/*.go"); len(code) > 0 && path != ".." && path != "../docs" && !linked["../"+path] {
			t.Errorf("it lacks the folder %s", strings.TrimPrefix(path, "../"))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	prose := regexp.MustCompile("(?s)```.*?```|\\]\\([^)]*\\)").ReplaceAllString(page, " ")
	if n := len(regexp.MustCompile(`\S*\w\S*`).FindAllString(prose, -1)); n > 1500 {
		t.Errorf("%d words", n)
	}
}
