package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestWithinRefusesPathsAndLinksOutside(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"in/deep", "in2", "data"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"in/file", "in2/file", "data/file"} {
		if err := os.WriteFile(filepath.Join(base, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"in/up": "..", "in/out": "../in2", "in/self": "deep/../file", "in/data": base + "/data", "in/loop": "loop", "in/gone": "missing"} {
		if err := os.Symlink(to, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	open := func(path string) error {
		f, _, err := OpenRegular(path)
		if err == nil {
			f.Close()
		}
		return err
	}
	if err := open(base + "/in2/file"); Within("/") != nil || err != nil || Confined() {
		t.Error("confined without a call of Confine")
	}
	Confine([]string{base + "/in", base + "/data"})
	t.Cleanup(func() { Confine(nil) })
	for path, reachable := range map[string]bool{
		"in": true, "in/file": true, "in/deep/new/file": true, "in/file/x": true, "in/self": true, "in/data/file": true, "data/file": true, "in/deep/../file": true,
		"": false, "in2": false, "in2/file": false, "in/../in2/file": false, "in/up/in2/file": false, "in/up": false, "in/out/file": false, "in/out/new": false, "in/loop": false,
		"in/gone": false, "in/gone/x": false, "missing": false, "../x": false,
	} {
		path := base + "/" + path
		if err := Within(path); (err == nil) != reachable || err != nil && !errors.As(err, new(*OutsideError)) {
			t.Errorf("Within(%s) = %v, want reachable %v", path, err, reachable)
		}
		if err := open(path); errors.As(err, new(*OutsideError)) == reachable {
			t.Errorf("OpenRegular(%s) = %v, want reachable %v", path, err, reachable)
		}
	}
	if _, err := OpenOwn(base+"/in2/new", os.O_RDWR|os.O_CREATE, 0o644); err == nil {
		t.Error("OpenOwn opened a file outside")
	} else if _, err := os.Lstat(base + "/in2/new"); err == nil {
		t.Error("OpenOwn created a file outside")
	}

	// A path may lead outside by the time it is opened, although Within has checked it.
	f, err := Open(base + "/in/out/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if opened(f) == nil {
		t.Error("an open file outside counts as inside")
	}
}
