package codecopy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// large is what a file of code has at most: a larger one is linked.
const large = 16 << 20

// What a copy may be. Tests have less to copy.
var (
	MaxFiles       = 100_000
	MaxBytes int64 = 1 << 30
)

// Options say what to copy.
type Options struct {
	WorkDir string
	State   string          // the folder of all state, which is never part of the code
	Folder  string          // where copies are kept, on the work dir's file system
	Name    string          // of the copy
	Outputs map[string]bool // without links: what jobs say they write, and as false, the folders of that
}

// unfinished is how the name of a copy ends that is being made: one that is there is complete.
const unfinished = ".unfinished"

// Take copies the code as it is now.
func Take(ctx context.Context, o Options) (t *Tree, err error) {
	t = &Tree{Named: o.WorkDir, Items: map[string]item{}}
	c := &copier{Options: o, ctx: ctx, tree: t, most: map[string]int64{}}
	if err := c.find(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return nil, err
	}
	if o.Folder, err = filepath.EvalSymlinks(o.Folder); err != nil {
		return nil, err
	}
	dir := filepath.Join(o.Folder, o.Name)
	for n := 2; exists(list(dir)) || exists(dir); n++ {
		dir = filepath.Join(o.Folder, fmt.Sprintf("%s-%d", o.Name, n))
	}
	t.Dir = dir + unfinished
	defer os.RemoveAll(dir + unfinished)
	if err = c.copy(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err == nil {
		err = os.WriteFile(list(dir), text, 0o644)
	}
	if err == nil {
		err = os.Rename(t.Dir, dir)
	}
	t.Dir = dir
	return t, err
}

type copier struct {
	Options
	ctx  context.Context
	tree *Tree
	code map[string]bool  // with git: its files and their folders, by path below the root's folder; true: tracked
	most map[string]int64 // bytes by first folder below the root
}

// find finds the root, and with git, what belongs to the code.
func (c *copier) find() (err error) {
	t := c.tree
	if t.Work, err = filepath.EvalSymlinks(c.WorkDir); err != nil {
		return err
	}
	repository, _ := c.ask(t.Work, "rev-parse", "--show-toplevel")
	t.Root = cmp.Or(repository, t.Work)
	if t.Root == filepath.Dir(t.Root) {
		return fmt.Errorf("the work dir is %s: set work_dir to the folder of the code", t.Root)
	}
	if repository == "" {
		return nil
	}
	c.code = map[string]bool{}
	return c.listed(filepath.Base(t.Root))
}

// listed adds what git knows of a repository: the root, or one within it.
func (c *copier) listed(rel string) error {
	text, err := c.ask(c.tree.original(rel), "ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard")
	for line := range strings.SplitSeq(text, "\x00") {
		kind, name, _ := strings.Cut(line, " ")
		for p := filepath.Join(rel, name); name != "" && p != "."; p = filepath.Dir(p) {
			if tracked, there := c.code[p]; tracked || there && kind == "?" {
				break
			}
			c.code[p] = kind != "?"
		}
	}
	return err
}

func (c *copier) ask(dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(c.ctx, "git", append([]string{"--no-optional-locks", "-C", dir}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s in %s: %w: %s", args[0], dir, err, strings.TrimSpace(said.String()))
	}
	return strings.TrimRight(string(out), "\n"), err
}

// skipped are names that no copy has: jobs make them anew, or they are no code.
func skipped(name string) bool { return name == ".git" || name == ".gpurun" || name == "__pycache__" }

// copy copies the root, and links to what is beside it, for jobs that use ../data. A folder that may
// not be read has nothing that they could name.
func (c *copier) copy() error {
	t := c.tree
	if err := os.Mkdir(t.Dir, 0o755); err != nil {
		return err
	}
	entries, _ := os.ReadDir(filepath.Dir(t.Root))
	for _, e := range entries {
		if e.Name() != filepath.Base(t.Root) && len(entries) <= MaxFiles {
			if err := t.link(e.Name()); err != nil {
				return err
			}
		}
	}
	t.Items["."] = item{Folder: true}
	return c.folder(filepath.Base(t.Root))
}

// folder copies a folder. One in which there is no code becomes a link, unless the work dir is in it.
func (c *copier) folder(rel string) error {
	t, files := c.tree, c.tree.Files
	entries, err := os.ReadDir(t.original(rel))
	if err == nil {
		err = os.Mkdir(t.at(rel), 0o755)
	}
	t.Items[rel] = item{Folder: true}
	for _, e := range entries {
		child := filepath.Join(rel, e.Name())
		if err == nil && !skipped(e.Name()) && t.original(child) != c.State {
			err = cmp.Or(c.ctx.Err(), c.entry(child, e))
		}
	}
	if err != nil || t.Files > files || inside(t.original(rel), t.Work) {
		return err
	}
	maps.DeleteFunc(t.Items, func(child string, _ item) bool { return strings.HasPrefix(child, rel+"/") })
	if err := os.RemoveAll(t.at(rel)); err != nil {
		return err
	}
	return t.link(rel)
}

func (c *copier) entry(rel string, e fs.DirEntry) error {
	t, path := c.tree, c.tree.original(rel)
	fi, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone since it was listed
	}
	if err != nil {
		return err
	}
	switch mode := fi.Mode(); {
	case !c.belongs(rel, path, mode):
	case mode.IsDir():
		if c.code != nil && exists(filepath.Join(path, ".git")) { // a repository within this one
			if err := c.listed(rel); err != nil {
				return err
			}
		}
		return c.folder(rel)
	case mode&fs.ModeSymlink != 0:
		if real, err := filepath.EvalSymlinks(path); err == nil && !inside(t.Root, real) {
			break
		}
		text, err := os.Readlink(path)
		if inside(t.Root, text) { // the copy's own
			text, err = filepath.Rel(filepath.Dir(path), text)
		}
		if err == nil {
			err = os.Symlink(text, t.at(rel))
		}
		t.Items[rel] = item{Sum: t.home(rel, text)}
		return err
	case mode.IsRegular() && fi.Size() <= large:
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // somebody has just removed it
			return nil
		}
		if errors.Is(err, fs.ErrPermission) {
			break
		}
		if err == nil {
			err = os.WriteFile(t.at(rel), data, mode.Perm()|0o200)
		}
		if err == nil {
			err = os.Chtimes(t.at(rel), time.Time{}, fi.ModTime())
		}
		sum, err2 := t.content(rel, t.at(rel))
		t.Items[rel] = item{Sum: sum}
		return cmp.Or(err, err2, c.count(rel, fi.Size()))
	}
	return t.link(rel)
}

// belongs reports whether something is code, and not an output or an environment.
func (c *copier) belongs(rel, path string, mode fs.FileMode) bool {
	declared, output := c.Outputs[path]
	if output && (declared || !c.code[rel]) && !inside(path, c.tree.Work) {
		return false
	}
	if _, known := c.code[rel]; c.code != nil {
		return known
	}
	if !mode.IsDir() {
		return true
	}
	for _, sign := range []string{"pyvenv.cfg", "conda-meta"} {
		if exists(filepath.Join(path, sign)) {
			return false
		}
	}
	return filepath.Base(path) != "node_modules"
}

// count counts a file of code. What only has git keep a folder is none.
func (c *copier) count(rel string, size int64) error {
	switch filepath.Base(rel) {
	case ".gitkeep", ".gitignore", ".keep":
		return nil
	}
	c.tree.Files++
	c.tree.Bytes += size
	parts := strings.SplitN(rel, string(filepath.Separator), 3)
	c.most[parts[min(1, len(parts)-1)]] += size + 4096
	if c.tree.Files <= MaxFiles && c.tree.Bytes <= MaxBytes {
		return nil
	}
	most := slices.MaxFunc(slices.Collect(maps.Keys(c.most)), func(a, b string) int { return cmp.Or(cmp.Compare(c.most[a], c.most[b]), strings.Compare(b, a)) })
	return &TooMuch{Root: c.tree.Root, Most: most}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
