package disk

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// The first caller creates the token, and all others get the same one. Only the user can read the
// file.
func TestTokenIsTheSameForAllProcesses(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	tokens := make([]string, 20)
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			var err error
			if tokens[i], _, err = Token("web"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, token := range tokens {
		if len(token) != 64 || token != tokens[0] {
			t.Fatalf("tokens differ or are invalid: %v", tokens)
		}
	}
	_, path, _ := Token("web")
	if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 {
		t.Errorf("got %v, %v, want mode 0600", fi, err)
	}
	if left, _ := filepath.Glob(filepath.Join(home, "gpurun", "*.new-*")); len(left) > 0 {
		t.Errorf("leftover files: %v", left)
	}
	if other, _, err := Token("web-control"); err != nil || other == tokens[0] {
		t.Errorf("token with another name: %q, %v, want a different one", other, err)
	}
	for text, mode := range map[string]os.FileMode{tokens[0]: 0o640, "short": 0o600, "": 0o600, strings.Repeat("x", 64): 0o600} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Token("web"); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("file with %q and mode %v: got %v, want an error", text, mode, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Token("web"); err == nil {
		t.Error("Token followed a symbolic link")
	}
}

// A user would have to remove a partly written token by hand, so a full disk must leave none.
func TestFullDiskLeavesNoPartialToken(t *testing.T) {
	if limitsFiles(t) {
		return
	}
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var all unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &all); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 10, Max: all.Max}); err != nil {
		t.Fatal(err)
	}
	_, _, err := Token("web")
	_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &all)
	if err == nil {
		t.Error("no error on a full disk")
	}
	if token, _, err := Token("web"); err != nil || len(token) != 64 {
		t.Errorf("with room again: %q, %v", token, err)
	}
}
