package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpurun/gpu/hostrules"
)

// hostWarnings returns the warnings about a host rules file.
func hostWarnings(t *testing.T, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gpurun")
	path := filepath.Join(dir, "host.yaml")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	rules, warnings := hostrules.NewReader(hostrules.Place{Path: path, Owner: os.Getuid()}).Read()
	if rules.File != path {
		t.Fatalf("the rules were not read:\n%s\n%q", text, warnings)
	}
	return strings.Join(warnings, "\n")
}

// The first example in host.md must be valid, and its tables must list every key.
func TestHostPageListsEveryKey(t *testing.T) {
	t.Setenv(hostrules.Variable, "")
	examples := fences(t, "reference/host.md")
	if w := hostWarnings(t, examples[0].text); w != "" {
		t.Errorf("warnings about the example: %s", w)
	}
	page, err := os.ReadFile("reference/host.md")
	if err != nil {
		t.Fatal(err)
	}
	valid := regexp.MustCompile(`valid keys: ([a-z_, ]+);`)
	for _, text := range []string{"quantum: 1", "users: {a: {quantum: 1}}"} {
		w := hostWarnings(t, text)
		keys := valid.FindStringSubmatch(w)
		if keys == nil {
			t.Fatalf("the warning lists no valid keys: %s", w)
		}
		for _, key := range strings.Split(keys[1], ", ") {
			if !regexp.MustCompile("(?m)^\\| (`[a-z_]+`, )?`" + key + "`").Match(page) {
				t.Errorf("the tables have no row for %s", key)
			}
		}
	}
}
