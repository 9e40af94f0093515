package files

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMissingFindsFirstUnmatchedPattern(t *testing.T) {
	dir := t.TempDir()
	at := func(p string) string { return filepath.Join(dir, p) }
	write(t, at("ckpt/a.pt"), "x")
	write(t, at("ckpt/deep/er/b.pt"), "x")
	write(t, at("odd[1].pt"), "x")
	write(t, at("runs [x] *{a,b}?/deep/c.pt"), "x")
	if err := os.Symlink(at("nowhere"), at("dangling")); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name     string
		patterns []string
		want     string
	}{
		{"none declared", nil, ""},
		{"exists", []string{"ckpt/a.pt"}, ""},
		{"a folder", []string{"ckpt"}, ""},
		{"first missing one", []string{"ckpt/a.pt", "ckpt/c.pt", "ckpt/d.pt"}, "ckpt/c.pt"},
		{"glob", []string{"ckpt/*.pt"}, ""},
		{"glob over folders", []string{"**/b.pt"}, ""},
		{"glob without match", []string{"ckpt/*.ckpt"}, "ckpt/*.ckpt"},
		{"alternatives", []string{"ckpt/{z,a}.pt"}, ""},
		{"glob in a missing folder", []string{"none/*.pt"}, "none/*.pt"},
		{"glob characters in a file's name", []string{"odd[1].pt"}, ""},
		{"glob in a folder with glob characters", []string{"runs [x] *{a,b}?/*/c.pt"}, ""},
		{"glob without match in such a folder", []string{"runs [x] *{a,b}?/*.ckpt"}, "runs [x] *{a,b}?/*.ckpt"},
		{"dangling link", []string{"dangling"}, "dangling"},
		{"dangling link matched by a glob", []string{"dang*"}, "dang*"},
		{"invalid pattern", []string{"ckpt/[a.pt"}, "ckpt/[a.pt"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var patterns []string
			for _, p := range row.patterns {
				patterns = append(patterns, at(p))
			}
			want := row.want
			if want != "" {
				want = at(want)
			}
			if got, _ := MissingOutput(patterns); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestTailStaysAfterOffset(t *testing.T) {
	dir := t.TempDir()
	log := write(t, filepath.Join(dir, "log"), "0123456789")
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		path string
		from int64
		most int
		want string
	}{
		{"all", log, 0, 100, "0123456789"},
		{"the end", log, 0, 3, "789"},
		{"this attempt's part", log, 8, 3, "89"},
		{"a part longer than the maximum", log, 2, 3, "789"},
		{"nothing yet", log, 10, 3, ""},
		{"the attempt has truncated the log", log, 99, 3, "789"},
		{"negative offset", log, -5, 3, "789"},
		{"maximum of 0", log, 0, 0, ""},
		{"no log", log + "x", 0, 9, ""},
		{"a folder", dir, 0, 9, ""},
		{"a pipe without a writer", pipe, 0, 9, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := string(Tail(row.path, row.from, row.most)); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestShortIsRelativeOnlyInside(t *testing.T) {
	for _, row := range []struct{ path, want string }{
		{"/w/ckpt/a.pt", "ckpt/a.pt"},
		{"/elsewhere/a.pt", "/elsewhere/a.pt"},
		{"/w", "."},
		{"/w/..data", "..data"},
	} {
		if got := Short("/w", row.path); got != row.want {
			t.Errorf("%s: got %q, want %q", row.path, got, row.want)
		}
	}
}
