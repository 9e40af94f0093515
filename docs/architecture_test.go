package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The architecture page must link to every package and only to existing files, and stay short.
func TestArchitecturePageLinksToEveryPackage(t *testing.T) {
	b, err := os.ReadFile("internals/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	linked := map[string]bool{}
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(page, -1) {
		linked[m[1]] = true
		if _, err := os.Stat(filepath.Join("internals", m[1])); err != nil {
			t.Errorf("broken link: %v", err)
		}
	}
	names := regexp.MustCompile("`(\\w+)` in \\[[^]]*\\]\\(([^)]+)\\)").FindAllStringSubmatch(page, -1)
	if len(names) < 10 {
		t.Errorf("the page has %d names in files, want at least 10", len(names))
	}
	for _, m := range names {
		if code, _ := os.ReadFile(filepath.Join("internals", m[2])); !regexp.MustCompile(`\b` + m[1] + `\b`).Match(code) {
			t.Errorf("%s does not contain %s, as the page claims", m[2], m[1])
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
			t.Errorf("the page does not link to %s", strings.TrimPrefix(path, "../"))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	prose := regexp.MustCompile("(?s)```.*?```|\\]\\([^)]*\\)").ReplaceAllString(page, " ")
	if n := len(regexp.MustCompile(`\S*\w\S*`).FindAllString(prose, -1)); n > 1500 {
		t.Errorf("%d words, want at most 1500", n)
	}
}
