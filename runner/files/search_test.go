package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// circles returns a folder whose links make a search endless.
func circles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.Symlink(".", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEndlessSearchGivesUp(t *testing.T) {
	pattern := filepath.Join(circles(t), "**", "never")
	s := &Search{one: 50 * time.Millisecond}
	var gaveUp *GaveUp
	if found, err := s.matches(pattern); found || !errors.As(err, &gaveUp) || gaveUp.Pattern != pattern {
		t.Errorf("got %v, %v; want GaveUp for the pattern", found, err)
	}
	if _, err := s.glob(pattern); !errors.As(err, &gaveUp) {
		t.Errorf("glob: got %v, want GaveUp", err)
	}
}

func TestSearchesShareTimeLimit(t *testing.T) {
	s := &Search{one: time.Hour, all: time.Hour}
	s.lost = 2 * time.Hour
	if got := s.limit(); got != lookLeast {
		t.Errorf("got limit %s, want %s", got, lookLeast)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.pt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	found, err := s.matches(filepath.Join(dir, "*.pt"))
	for try := 1; try < 100 && !found; try++ { // a busy machine may interrupt a search for longer than the limit
		found, err = s.matches(filepath.Join(dir, "*.pt"))
	}
	if !found || err != nil {
		t.Errorf("ordinary pattern: got %v, %v; want a match within the limit", found, err)
	}
}

// A recorded success counts until its output is known to be missing.
func TestUnsearchedOutputIsNotMissing(t *testing.T) {
	dir := circles(t)
	w := &checker{search: &Search{one: 20 * time.Millisecond}}
	missing, _, unsure := w.outputs(nil, nil, []string{filepath.Join(dir, "**", "never")})
	if missing != "" || unsure == nil {
		t.Errorf("got missing %q, unsure %v; want only unsure", missing, unsure)
	}
	missing, _, unsure = w.outputs(nil, nil, []string{filepath.Join(dir, "**", "never"), filepath.Join(dir, "none.pt")})
	if missing == "" || unsure != nil {
		t.Errorf("got missing %q, unsure %v; want only missing", missing, unsure)
	}
}
