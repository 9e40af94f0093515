package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every link between pages must point to an existing file and heading.
func TestLinksResolve(t *testing.T) {
	pages := []string{"../README.md", "../CHANGELOG.md", "../CONTRIBUTING.md", "../SECURITY.md"}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	headings := map[string]map[string]bool{} // by page; cached, because finding them is slow
	size := int64(0)
	images, _ := filepath.Glob("images/*")
	for _, image := range images {
		if info, err := os.Stat(image); err == nil {
			size += info.Size()
		}
	}
	if size == 0 || size > 1_500_000 {
		t.Errorf("the images have %d bytes, want at most 1,500,000", size)
	}
	for _, page := range pages {
		for _, m := range regexp.MustCompile(`(?:\]\(|src="|srcset="|href=")([^)\s"]+)`).FindAllStringSubmatch(prose(text(t, page)), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			file, heading, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: no such file", page, m[1])
				continue
			} else if heading == "" {
				continue
			}
			if headings[target] == nil {
				headings[target] = anchors(text(t, target))
			}
			if !headings[target][heading] {
				t.Errorf("%s: %s: no such heading", page, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("found only %d links", links)
	}
}

// prose returns a page without its code blocks.
func prose(page string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(page, "")
}

// anchors returns the anchors that GitHub generates for the headings of a page.
func anchors(page string) map[string]bool {
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(page), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}
