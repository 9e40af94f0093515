package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What an earlier run of the bench has left in its folder is nothing to this one,
// and stays as it is.
func TestSameFolderAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a few hundred processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "bench")
	left := filepath.Join(dir, "1/0-gpurun") // where rounds were once
	if err := os.MkdirAll(filepath.Join(left, ".gpurun"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := write(left, "jobs.yaml", "nonsense"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPURUN_CLAIMS_DIR", "") // set anew by each run
	for range 2 {
		var out, said bytes.Buffer
		if code := run([]string{"-gpurun", self, "-only", "1", "-rounds", "1", "-jobs", "20", "-dir", dir}, &out, &said); code == 2 || out.Len() == 0 {
			t.Errorf("got %d\n%s%s", code, said.String(), out.String())
		}
		if !strings.Contains(said.String(), "measuring "+self+", built ") {
			t.Errorf("it is not said what is measured: %s", said.String())
		}
		if got, _ := os.ReadDir(dir); len(got) != 1 {
			t.Errorf("left in the folder: %v", got)
		}
	}
}

func TestFoldersAreNew(t *testing.T) {
	b := quiet()
	var err error
	if b.dir, err = newDir(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	one, two := b.folder("1"), b.folder("1")
	if one == two {
		t.Errorf("the same folder twice: %s", one)
	}
	if err := os.Remove(one); err != nil {
		t.Error(err)
	}
}

// On ext4 the folders of rounds are spread; nothing but that flag is changed, and
// a file system without flags is none the worse.
func TestSpread(t *testing.T) {
	parent := t.TempDir()
	dir, err := newDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type != unix.EXT4_SUPER_MAGIC {
		t.Skip("no ext4")
	}
	if got, want := flagsOf(t, dir), flagsOf(t, parent)|topDir; got != want {
		t.Errorf("got the flags %#x, want %#x", got, want)
	}
}

func flagsOf(t *testing.T, dir string) int {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		t.Fatal(err)
	}
	return flags
}
