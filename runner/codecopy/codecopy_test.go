package codecopy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// put writes files below a folder. A name that ends in / is a folder.
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

// take creates a folder lab with the given files and takes a copy of it.
func take(t *testing.T, files map[string]string, o Options) (lab string, tree *Tree) {
	t.Helper()
	t.Setenv("GIT_CEILING_DIRECTORIES", "/")
	above := t.TempDir()
	lab = filepath.Join(above, "lab")
	put(t, lab, files)
	o.WorkDir, o.State, o.Name = lab, filepath.Join(lab, ".gpurun"), "now"
	o.Folder = filepath.Join(o.State, "jobs.yaml", "snapshots")
	tree, err := Take(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return lab, tree
}

// settle settles a copy that no process uses.
func settle(t *testing.T, tree *Tree, remove bool) []string {
	t.Helper()
	tree.Lock()
	notes, done := tree.Settle(remove)
	if !done {
		t.Fatal(notes)
	}
	return notes
}

func TestJobFilesMoveToWorkDir(t *testing.T) {
	lab, tree := take(t, map[string]string{"train.py": "1", "all.csv": "x", "empty/": "", "kept/.gitkeep": "", "pkg/a.py": "a", ".gpurun-code": "1"}, Options{})
	home := tree.Home()
	put(t, lab, map[string]string{"train.py": "2"})
	if got := content(t, filepath.Join(home, "train.py")); got != "1" {
		t.Errorf("the copy has an edit made after it was taken: %q", got)
	}
	put(t, home, map[string]string{"empty/e": "e", "kept/k": "k"})
	for _, name := range []string{"empty/e", "kept/k"} {
		if !exists(filepath.Join(lab, name)) {
			t.Errorf("%s is not in the work dir immediately", name)
		}
	}
	put(t, home, map[string]string{"runs/1/log": "log", "pkg/new.txt": "new", "__pycache__/a.pyc": "", ".gpurun-mine": "mine", ".c.0123456789abcdef.gpurun.yaml": ""})
	was, err := os.Stat(filepath.Join(home, "all.csv"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, home, map[string]string{"all.csv": "y"})
	if err := os.Chtimes(filepath.Join(home, "all.csv"), was.ModTime(), was.ModTime()); err != nil {
		t.Fatal(err)
	}
	open, err := os.OpenFile(filepath.Join(home, "pkg/new.txt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	for _, notes := range [][]string{settle(t, tree, false), settle(t, tree, false)} {
		if notes != nil {
			t.Fatal(notes)
		}
	}
	if _, err := open.WriteString("er"); err != nil {
		t.Fatal(err)
	}
	put(t, home, map[string]string{"runs/2/log": "more"}) // runs is now a link
	for name, want := range map[string]string{"runs/1/log": "log", "runs/2/log": "more", "pkg/new.txt": "newer", "all.csv": "y", "train.py": "2", ".gpurun-mine": "mine"} {
		if got := content(t, filepath.Join(lab, name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"__pycache__", ".c.0123456789abcdef.gpurun.yaml"} {
		if exists(filepath.Join(lab, name)) {
			t.Errorf("%s was moved to the work dir", name)
		}
	}
	if notes := settle(t, tree, true); notes != nil || exists(tree.Dir) || exists(list(tree.Dir)) {
		t.Error("the copy was not removed:", notes)
	}
}

// A leftover process of git that holds git's output open must not cause a delay.
func TestLeftoverOfGitDelaysNothing(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\ncase $5 in\n--show-toplevel) echo $3;;\n*) printf 'H a.py\\0';;\nesac\nsleep 30 &\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	began := time.Now()
	if _, tree := take(t, map[string]string{"a.py": ""}, Options{}); tree.Files != 1 || time.Since(began) > 20*time.Second {
		t.Errorf("copied %d files in %v, want one soon", tree.Files, time.Since(began))
	}
}

// Users who cannot enter a folder cannot enter its copy.
func TestCopyOfPrivateFolderIsPrivate(t *testing.T) {
	lab, _ := take(t, map[string]string{"private/key.py": "", "train.py": ""}, Options{})
	if err := os.Chmod(filepath.Join(lab, "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(lab, ".gpurun")
	tree, err := Take(context.Background(), Options{WorkDir: lab, State: state, Folder: filepath.Join(state, "snapshots"), Name: "later"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"private": 0o700, ".": 0o755} {
		if fi, err := os.Stat(filepath.Join(tree.Home(), name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want %v", name, fi.Mode(), err, want)
		}
	}
}

func TestLinksLeadToWorkDirAfterSettle(t *testing.T) {
	lab, tree := take(t, map[string]string{"a": "1", "runs/": "", "../data/d": "d"}, Options{})
	home := tree.Home()
	if err := os.Symlink(filepath.Join(lab, "a"), filepath.Join(lab, "last")); err != nil {
		t.Fatal(err)
	}
	put(t, home, map[string]string{"new/x": "x"})
	links := map[string]string{"b": "a", "new/b": "new/x", "runs/b": "a", "last": "new/x", "far": "../data/d"}
	for name, to := range links {
		if err := os.Symlink(filepath.Join(home, to), filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(home, "near")); err != nil {
		t.Fatal(err)
	}
	if notes := settle(t, tree, true); len(notes) != 1 || !strings.Contains(notes[0], "lab/last") {
		t.Error("want one note about the new link last, got", notes)
	}
	delete(links, "last")
	for name, to := range links {
		if got, err := os.Readlink(filepath.Join(lab, name)); got != filepath.Join(lab, to) {
			t.Errorf("%s leads to %q, want %q: %v", name, got, filepath.Join(lab, to), err)
		}
	}
	if got, _ := os.Readlink(filepath.Join(lab, "near")); got != "a" {
		t.Errorf("near leads to %q", got)
	}
	if err := os.RemoveAll(tree.Dir); err != nil {
		t.Fatal(err)
	}
	// If a job replaces a code file with a link to another place, the original becomes that link.
	tree, err := Take(context.Background(), Options{WorkDir: lab, Folder: filepath.Dir(tree.Dir), Name: "now"})
	if err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(tree.Home(), "last")
	if err := errors.Join(os.Remove(last), os.Symlink(filepath.Join(tree.Home(), "new/x"), last)); err != nil {
		t.Fatal(err)
	}
	if notes := settle(t, tree, true); notes != nil || content(t, filepath.Join(lab, "last")) != "x" {
		t.Error(notes)
	}
}

func TestConflictKeepsBothVersions(t *testing.T) {
	lab, tree := take(t, map[string]string{"all.csv": "x"}, Options{})
	put(t, tree.Home(), map[string]string{"all.csv": "job", "new": "job"})
	put(t, lab, map[string]string{"all.csv": "mine", "new": "mine"})
	notes := Remove(filepath.Dir(tree.Dir), nil)
	if len(notes) != 1 || !strings.Contains(notes[0], "lab/all.csv and 1 more in the copy of the code, but") {
		t.Error(notes)
	}
	if content(t, filepath.Join(lab, "all.csv")) != "mine" || content(t, filepath.Join(tree.Home(), "new")) != "job" {
		t.Error("one version is lost")
	}
}

func TestOutputsOverwriteOtherVersions(t *testing.T) {
	var o Options
	lab, tree := take(t, map[string]string{"train.py": "1", "sub/x.txt": "old", "sub/code.py": "1"}, o)
	home := tree.Home()
	outputs := []string{filepath.Join(lab, "res"), filepath.Join(lab, "dir"), filepath.Join(lab, "sub/*.txt"), filepath.Join(lab, "out/model.pt")}
	put(t, lab, map[string]string{"out/": ""}) // gpurun creates output folders before the start
	if err := tree.Link(outputs...); err != nil {
		t.Fatal(err)
	}
	put(t, home, map[string]string{"out/model.pt": "job"})
	if content(t, filepath.Join(lab, "out/model.pt")) != "job" {
		t.Error("a file written to an output folder is not in the work dir immediately")
	}
	put(t, lab, map[string]string{"res": "mine", "sub/x.txt": "mine"})
	put(t, home, map[string]string{"res": "job", "dir/a/b": "job", "sub/x.txt": "job", "sub/y.md": "job"})
	open, err := os.OpenFile(filepath.Join(home, "res"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := tree.MoveOutputs(outputs); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"res", "dir/a/b", "sub/x.txt"} {
		if got := content(t, filepath.Join(lab, name)); got != "job" {
			t.Errorf("%s: got %q, want %q", name, got, "job")
		}
		if got := content(t, filepath.Join(home, name)); got != "job" {
			t.Errorf("%s in the copy: got %q, want %q", name, got, "job")
		}
	}
	if _, err := open.WriteString(" more"); err != nil || content(t, filepath.Join(lab, "res")) != "job more" {
		t.Error("writes to a file that was open during the move are lost:", err)
	}
	if exists(filepath.Join(lab, "sub/y.md")) {
		t.Error("sub/y.md was moved although it is not an output")
	}
	// In the next copy, existing outputs are links. If a job replaces such a link with a file, that
	// file is moved too.
	o = Options{WorkDir: lab, Folder: filepath.Dir(tree.Dir), Name: "now", Outputs: map[string]bool{outputs[0]: true, filepath.Join(lab, "out"): false, lab: false}}
	if tree, err = Take(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"res": true, "out": true, "train.py": false} {
		if isLink(filepath.Join(tree.Home(), name)) != want {
			t.Errorf("%s: got link %v, want %v", name, !want, want)
		}
	}
	if err := os.Remove(filepath.Join(tree.Home(), "res")); err != nil {
		t.Fatal(err)
	}
	put(t, tree.Home(), map[string]string{"res": "next"})
	if notes := settle(t, tree, true); notes != nil || content(t, filepath.Join(lab, "res")) != "next" {
		t.Error(notes)
	}
}

// A process uses the copy if its working directory, an open file or its PWD is there.
func TestSettleWaitsForProcesses(t *testing.T) {
	lab, tree := take(t, map[string]string{"a": "1"}, Options{})
	for name, cmd := range map[string]*exec.Cmd{
		"working directory": {Dir: tree.Home()},
		"open file":         {},
		"PWD":               {Env: []string{"PWD=" + tree.Home() + "/sub"}},
	} {
		put(t, tree.Home(), map[string]string{"new": name})
		f, err := os.OpenFile(filepath.Join(tree.Home(), "new"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Dir == "" && cmd.Env == nil {
			cmd.ExtraFiles = []*os.File{f}
		}
		cat, err := exec.LookPath("cat")
		if err != nil {
			t.Skip(err)
		}
		cmd.Path, cmd.Args = cat, []string{"cat"}
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		tree.Lock()
		notes, done := tree.Settle(true)
		if done || len(notes) != 1 || !strings.Contains(notes[0], fmt.Sprintf("process %d ", cmd.Process.Pid)) || exists(filepath.Join(lab, "new")) {
			t.Errorf("%s: got done %v, notes %q; want a note about process %d", name, done, notes, cmd.Process.Pid)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if notes := settle(t, tree, true); notes != nil || !exists(filepath.Join(lab, "new")) {
		t.Error(notes)
	}
}

func TestLoadedCopyWorksLikeOriginal(t *testing.T) {
	lab, made := take(t, map[string]string{"a": "1"}, Options{})
	put(t, made.Home(), map[string]string{"b": "2"})
	tree, err := Load(made.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if notes := settle(t, tree, false); notes != nil || content(t, filepath.Join(lab, "b")) != "2" {
		t.Error(notes)
	}
	if at := tree.Map(filepath.Join(lab, "a")); at != filepath.Join(made.Home(), "a") || tree.Map(at) != at || tree.Back(at) != filepath.Join(lab, "a") {
		t.Error(at)
	}
}

// If two copies settle different versions of a file at the same time, one version moves to the work
// dir and the other stays in its copy.
func TestConcurrentSettleLosesNothing(t *testing.T) {
	const files = 300
	code := map[string]string{}
	for i := range files {
		code[fmt.Sprint("code", i)] = "old"
	}
	lab, one := take(t, code, Options{})
	two, err := Take(context.Background(), Options{WorkDir: lab, State: filepath.Join(lab, ".gpurun"), Folder: filepath.Join(lab, ".gpurun", "other.yaml"), Name: "now"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		for _, kind := range []string{"new", "code"} {
			put(t, one.Home(), map[string]string{fmt.Sprint(kind, i): "from one", fmt.Sprint("same", i): "as much"})
			put(t, two.Home(), map[string]string{fmt.Sprint(kind, i): "from two", fmt.Sprint("same", i): "as much"})
		}
	}
	var wait sync.WaitGroup
	for _, tree := range []*Tree{one, two} {
		tree.Lock()
		wait.Go(func() { tree.Settle(false) })
	}
	wait.Wait()
	for i := range files {
		for _, kind := range []string{"new", "code"} {
			name, home := fmt.Sprint(kind, i), ""
			got := map[string]bool{}
			for _, dir := range []string{lab, one.Home(), two.Home()} {
				home += content(t, filepath.Join(dir, name)) + ", "
				got[content(t, filepath.Join(dir, name))] = true
			}
			if len(got) != 2 {
				t.Fatalf("one version of %s is lost: %s", name, home)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(lab, ".gpurun-*")); left != nil {
		t.Error("temporary files are left:", left)
	}
}
