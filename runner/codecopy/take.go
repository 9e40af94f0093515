package codecopy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"gpurun/state/host"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxCopied is the size of the largest file that is copied; larger files are linked.
const maxCopied = 16 << 20

// Limits of a copy. They are variables so that tests can lower them.
var (
	MaxFiles       = 100_000
	MaxBytes int64 = 1 << 30
)

// Options configure Take.
type Options struct {
	WorkDir string
	State   string          // the folder that holds all state; it is never copied
	Folder  string          // where copies are kept; on the work dir's file system
	Name    string          // the copy's name
	Outputs map[string]bool // by real path; true for declared outputs, false for folders that contain them
}

// unfinished is the suffix of a copy in progress. Copies without it are complete.
const unfinished = ".unfinished"

// Take copies the code in its present state.
func Take(ctx context.Context, o Options) (t *Tree, err error) {
	t = &Tree{Named: o.WorkDir, Items: map[string]item{}}
	c := &copier{Options: o, ctx: ctx, tree: t, folderBytes: map[string]int64{}}
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
	ctx         context.Context
	tree        *Tree
	code        map[string]bool  // with git: code files and their folders by path, starting with the root's name; true if tracked
	folderBytes map[string]int64 // bytes by folder directly below the root
}

// find finds the root and, with git, lists the code.
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

// listed adds git's list of files in a repository: the root or one inside it.
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
	var said bytes.Buffer
	out, err := host.Git(c.ctx, dir, &said, args...)
	if err != nil {
		err = fmt.Errorf("git %s in %s: %w: %s", args[0], dir, err, strings.TrimSpace(said.String()))
	}
	return strings.TrimRight(out, "\n"), err
}

// skipped reports whether entries of this name are never copied: jobs recreate them, or they are not
// code.
func skipped(name string) bool { return name == ".git" || name == ".gpurun" || name == "__pycache__" }

// copy copies the root and links its siblings, for jobs that use paths such as ../data. If it cannot
// read the root's parent, it links no siblings.
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

// folder copies a folder. A folder without code becomes a link, unless it contains the work dir.
func (c *copier) folder(rel string) error {
	t, files := c.tree, c.tree.Files
	entries, err := os.ReadDir(t.original(rel))
	fi, err2 := os.Stat(t.original(rel))
	if err = cmp.Or(err, err2); err == nil {
		err = os.Mkdir(t.at(rel), fi.Mode().Perm()|0o700) // users who cannot read the original cannot read the copy
	}
	t.Items[rel] = item{Folder: true}
	for _, e := range entries {
		child := filepath.Join(rel, e.Name())
		if err == nil && !skipped(e.Name()) && t.original(child) != c.State {
			err = cmp.Or(c.ctx.Err(), c.entry(child, e))
		}
	}
	if err != nil || t.Files > files || host.Inside(t.original(rel), t.Work) {
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
		return nil // removed since it was listed
	}
	if err != nil {
		return err
	}
	switch mode := fi.Mode(); {
	case !c.belongs(rel, path, mode):
	case mode.IsDir():
		if c.code != nil && exists(filepath.Join(path, ".git")) { // a nested repository
			if err := c.listed(rel); err != nil {
				return err
			}
		}
		return c.folder(rel)
	case mode&fs.ModeSymlink != 0:
		if real, err := filepath.EvalSymlinks(path); err == nil && !host.Inside(t.Root, real) {
			break
		}
		text, err := os.Readlink(path)
		if host.Inside(t.Root, text) { // make links from code to code lead into the copy
			text, err = filepath.Rel(filepath.Dir(path), text)
		}
		if err == nil {
			err = os.Symlink(text, t.at(rel))
		}
		t.Items[rel] = item{Sum: t.home(rel, text)}
		return err
	case mode.IsRegular() && fi.Size() <= maxCopied:
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
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

// belongs reports whether a path is code, not an output or a virtual environment.
func (c *copier) belongs(rel, path string, mode fs.FileMode) bool {
	declared, output := c.Outputs[path]
	if output && (declared || !c.code[rel]) && !host.Inside(path, c.tree.Work) {
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

// count adds a code file to the totals. Placeholders that make git keep a folder do not count.
func (c *copier) count(rel string, size int64) error {
	switch filepath.Base(rel) {
	case ".gitkeep", ".gitignore", ".keep":
		return nil
	}
	c.tree.Files++
	c.tree.Bytes += size
	parts := strings.SplitN(rel, string(filepath.Separator), 3)
	c.folderBytes[parts[min(1, len(parts)-1)]] += size + 4096
	if c.tree.Files <= MaxFiles && c.tree.Bytes <= MaxBytes {
		return nil
	}
	most := slices.MaxFunc(slices.Collect(maps.Keys(c.folderBytes)), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.folderBytes[a], c.folderBytes[b]), strings.Compare(b, a))
	})
	return &TooLarge{Root: c.tree.Root, Most: most}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
