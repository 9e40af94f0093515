package codecopy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// put writes files below a folder; a name that ends in / is a folder.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func isLink(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode()&os.ModeSymlink != 0
}

// take copies lab, below a folder of its own.
func take(t *testing.T, files map[string]string, o Options) (lab string, tree *Tree) {
	t.Helper()
	t.Setenv("GIT_CEILING_DIRECTORIES", "/")
	above := t.TempDir()
	lab = filepath.Join(above, "lab")
	put(t, lab, files)
	o.WorkDir, o.State, o.Now = lab, filepath.Join(lab, ".gpurun"), time.Now()
	o.Folder = filepath.Join(o.State, "jobs.yaml", "snapshots")
	tree, err := Take(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return lab, tree
}

func TestWhatJobsWriteComesHome(t *testing.T) {
	lab, tree := take(t, map[string]string{"train.py": "1", "all.csv": "x", "empty/": "", "pkg/a.py": "a"}, Options{})
	home := tree.Home()
	put(t, lab, map[string]string{"train.py": "2"})
	if got := content(t, filepath.Join(home, "train.py")); got != "1" {
		t.Errorf("the copy follows edits: %q", got)
	}
	put(t, home, map[string]string{"runs/1/log": "log", "pkg/new.txt": "new", "all.csv": "xy", "__pycache__/a.pyc": "", "empty/e": "e"})
	if _, kept, err := tree.Gather(true, time.Now()); err != nil || len(kept) > 0 {
		t.Fatal(kept, err)
	}
	if content(t, filepath.Join(lab, "runs/1/log")) != "log" || !isLink(filepath.Join(home, "runs")) {
		t.Error("a new folder is not moved while jobs run")
	}
	if exists(filepath.Join(lab, "pkg/new.txt")) {
		t.Error("a file that may yet change its name is moved")
	}
	put(t, home, map[string]string{"runs/2/log": "more"}) // through the link
	if _, kept, err := tree.Gather(false, time.Now()); err != nil || len(kept) > 0 {
		t.Fatal(kept, err)
	}
	for name, want := range map[string]string{"runs/2/log": "more", "pkg/new.txt": "new", "all.csv": "xy", "train.py": "2", "empty/e": "e"} {
		if got := content(t, filepath.Join(lab, name)); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	if exists(filepath.Join(lab, "__pycache__")) {
		t.Error("compiled code of the copy is moved")
	}
	if notes := tree.Remove(time.Now()); notes != nil || exists(tree.Dir) || exists(list(tree.Dir)) {
		t.Error("not removed:", notes)
	}
}

func TestBothVersionsStay(t *testing.T) {
	lab, tree := take(t, map[string]string{"all.csv": "x"}, Options{})
	put(t, tree.Home(), map[string]string{"all.csv": "job", "new": "job"})
	put(t, lab, map[string]string{"all.csv": "mine", "new": "mine"})
	notes := Remove(filepath.Dir(tree.Dir), func(string) bool { return false }, time.Now())
	if len(notes) != 1 || !strings.Contains(notes[0], "lab/all.csv and 1 more file") {
		t.Error(notes)
	}
	if content(t, filepath.Join(lab, "all.csv")) != "mine" || content(t, filepath.Join(tree.Home(), "new")) != "job" {
		t.Error("a version is lost")
	}
}

func TestOutputsWin(t *testing.T) {
	lab, tree := take(t, map[string]string{"res": "old", "train.py": "1", "sub/x.txt": "old"}, Options{})
	home := tree.Home()
	outputs := []string{filepath.Join(lab, "res"), filepath.Join(lab, "dir"), filepath.Join(lab, "sub/*.txt")}
	for _, p := range outputs {
		if err := tree.Lead(p); err != nil {
			t.Fatal(err)
		}
	}
	if !isLink(filepath.Join(home, "res")) {
		t.Error("a file that is an output is no link")
	}
	put(t, lab, map[string]string{"res": "mine", "sub/x.txt": "mine"})
	os.Remove(filepath.Join(home, "res"))
	put(t, home, map[string]string{"res": "job", "dir/a/b": "job", "sub/x.txt": "job", "sub/y.md": "job"})
	if err := tree.Bring(outputs); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"res", "dir/a/b", "sub/x.txt"} {
		if got := content(t, filepath.Join(lab, name)); got != "job" {
			t.Errorf("%s has %q", name, got)
		}
		if got := content(t, filepath.Join(home, name)); got != "job" {
			t.Errorf("in the copy, %s has %q", name, got)
		}
	}
	if exists(filepath.Join(lab, "sub/y.md")) {
		t.Error("what matches no output is brought")
	}
}

// A copy that another run has made is as good as one's own.
func TestLoad(t *testing.T) {
	lab, made := take(t, map[string]string{"a": "1"}, Options{})
	put(t, made.Home(), map[string]string{"b": "2"})
	tree, err := Load(made.Dir)
	if err != nil {
		t.Fatal(err)
	}
	moved, _, err := tree.Gather(false, time.Now())
	if err != nil || !slices.Equal(moved, []string{filepath.Join(lab, "b")}) {
		t.Error(moved, err)
	}
	if at := tree.Map(filepath.Join(lab, "a")); at != filepath.Join(made.Home(), "a") || tree.Map(at) != at || tree.Given(tree.Back(at)) != filepath.Join(lab, "a") {
		t.Error(at)
	}
}

func TestTheSameCodeIsNotCopiedAgain(t *testing.T) {
	lab, old := take(t, map[string]string{"a": "1"}, Options{})
	o := Options{WorkDir: lab, State: filepath.Join(lab, ".gpurun"), Folder: filepath.Dir(old.Dir), Now: time.Now(), Old: old}
	same, err := Take(context.Background(), o)
	if err != nil || same != old {
		t.Error(same, err)
	}
	put(t, lab, map[string]string{"a": "22"})
	if next, err := Take(context.Background(), o); err != nil || next == old || content(t, filepath.Join(next.Home(), "a")) != "22" {
		t.Error(next, err)
	}
}

// Two runs bring home what their jobs have written under one name, at the same moment: one of
// the two stays in its copy.
func TestTwoCopiesAtOnce(t *testing.T) {
	lab, one := take(t, map[string]string{"code": "1"}, Options{})
	two, err := Take(context.Background(), Options{WorkDir: lab, State: filepath.Join(lab, ".gpurun"), Folder: filepath.Join(lab, ".gpurun", "other.yaml"), Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	const files = 300
	for i := range files {
		put(t, one.Home(), map[string]string{fmt.Sprint("new", i): "from one", fmt.Sprint("same", i): "as much"})
		put(t, two.Home(), map[string]string{fmt.Sprint("new", i): "from two", fmt.Sprint("same", i): "as much"})
	}
	var wait sync.WaitGroup
	for _, tree := range []*Tree{one, two} {
		wait.Go(func() {
			if _, _, err := tree.Gather(false, time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for i := range files {
		name, home := fmt.Sprint("new", i), ""
		got := map[string]bool{}
		for _, dir := range []string{lab, one.Home(), two.Home()} {
			home += content(t, filepath.Join(dir, name)) + ", "
			got[content(t, filepath.Join(dir, name))] = true
		}
		if len(got) != 2 {
			t.Fatalf("a version is lost: %s", home)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(lab, ".gpurun-*")); left != nil {
		t.Error("left behind:", left)
	}
}
