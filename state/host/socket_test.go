package host

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShortPathWorksForLongPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	var l net.Listener
	if err := ShortPath(path, func(name string) (err error) {
		l, err = net.Listen("unix", name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err := ShortPath(path, func(name string) error {
		c, err := net.Dial("unix", name)
		if err != nil {
			return err
		}
		defer c.Close()
		if !SameUser(c) {
			t.Error("this user's own socket belongs to another user")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := ShortPath(filepath.Join(dir, "none", "s"), func(string) error { return nil }); !os.IsNotExist(err) {
		t.Errorf("missing folder: got %v", err)
	}
}
