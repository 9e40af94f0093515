package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the paths of all pages, the README first.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"../README.md"}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPagesAreShort(t *testing.T) {
	total := 0
	for _, page := range pages(t) {
		text := regexp.MustCompile(`\]\([^)]*\)|<[^>]*>`).ReplaceAllString(prose(text(t, page)), " ")
		n := len(regexp.MustCompile(`\S*\w\S*`).FindAllString(text, -1))
		if total += n; page == "../README.md" && n > 700 {
			t.Errorf("%s has %d words, want at most 700", page, n)
		}
	}
	if total > 36000 {
		t.Errorf("all pages have %d words, want at most 36,000", total)
	}
}

// A fact that two pages need is on one page, and the other page links to it.
func TestNoSentenceIsRepeated(t *testing.T) {
	first := map[string]string{}
	for _, page := range pages(t) {
		text := regexp.MustCompile(`\]\([^)]*\)|[*_]{2}`).ReplaceAllString(prose(text(t, page)), "]")
		for _, paragraph := range regexp.MustCompile(`\n\n|\n(?:- |\d+\. |\||#+ )| \| `).Split(text, -1) {
			for _, s := range regexp.MustCompile(`[.:;!?]\s`).Split(strings.Join(strings.Fields(paragraph), " ")+" ", -1) {
				key := strings.ToLower(strings.Trim(s, " .|"))
				if len(strings.Fields(key)) < 7 {
					continue
				}
				if other := first[key]; other != "" && (other != page || page != "reference/json.md" && page != "reference/commands.md") { // generated from code
					t.Errorf("%s and %s both say: %s", other, page, s)
				}
				first[key] = page
			}
		}
	}
	if len(first) < 500 {
		t.Errorf("found only %d sentences", len(first))
	}
}
