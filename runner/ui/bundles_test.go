// Package ui contains the TypeScript sources of the report and the web page; see
// docs/internals/architecture.md. The bundles are checked in where Go embeds them, so neither a build
// nor the tests need Node.js.
package ui

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The sources and bundles must not have changed since the last build.
func TestBundlesAreUpToDate(t *testing.T) {
	list, err := os.ReadFile("bundles.sum")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		known[file] = true
		contents, err := os.ReadFile(file)
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(contents)) != sum {
			t.Errorf("%s has changed since the last build (%v): run make web", file, err)
		}
	}
	err = filepath.WalkDir("src", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !known[path] && d.Name() != "types.ts" {
			t.Errorf("%s is not in bundles.sum: run make web", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A build must reproduce the checked-in bundles byte for byte.
func TestBundlesAreReproducible(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is missing")
	}
	if _, err := os.Stat("node_modules/.package-lock.json"); err != nil {
		t.Skip("node_modules is missing: make web")
	}
	if out, err := exec.Command("node", "build.mjs", "--check").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, bytes.TrimSpace(out))
	}
}
