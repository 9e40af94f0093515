package codecopy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	State   string   // the folder of all state, which is never part of the code
	Folder  string   // where copies are kept, in it
	Outputs []string // paths and folders that jobs write to, sorted: linked, unless code is in them
	Now     time.Time
	Old     *Tree // is returned if the code has not changed since; may be nil
}

// Take copies the code as it is now.
func Take(ctx context.Context, o Options) (*Tree, error) {
	c := &copier{Options: o, ctx: ctx, most: map[string]int64{}}
	if err := c.find(); err != nil {
		return nil, err
	}
	c.tree = &Tree{Root: c.root, Named: c.WorkDir, Work: c.work, Commit: c.commit, Dirty: c.dirty, Items: map[string]*item{}}
	c.beside()
	if err := c.survey(filepath.Base(c.root)); err != nil {
		return nil, err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, c.commit)
	for _, rel := range slices.Sorted(maps.Keys(c.tree.Items)) {
		i := c.tree.Items[rel]
		fmt.Fprintf(sum, "%q %v %q %d %d\n", rel, i.Folder, i.Link, i.Size, i.MTime.UnixNano())
	}
	c.tree.Sum = hex.EncodeToString(sum.Sum(nil)[:8])
	if o.Old != nil && o.Old.Root == c.root && o.Old.Sum == c.tree.Sum {
		return o.Old, nil
	}
	for _, rel := range c.links {
		c.tree.Items[rel] = &item{Original: true}
	}
	return c.tree, c.write()
}

type copier struct {
	Options
	root, work    string
	commit        string
	dirty, git    bool
	code, tracked map[string]bool // with git: files and folders, by path below the root's folder
	parents       map[string]bool // with git: folders of these
	ctx           context.Context
	tree          *Tree
	links         []string
	most          map[string]int64 // bytes by first folder below the root
}

// find finds the root, and with git, what belongs to the code.
func (c *copier) find() error {
	var err error
	if c.work, err = filepath.EvalSymlinks(c.WorkDir); err != nil {
		return err
	}
	c.root = c.work
	top, err := c.ask(c.work, "rev-parse", "--show-toplevel")
	if err == nil && top != "" {
		c.git, c.root = true, top
	}
	if c.root == filepath.Dir(c.root) {
		return fmt.Errorf("the work dir is %s: set work_dir to the folder of the code", c.root)
	}
	if !c.git {
		return nil
	}
	c.code, c.tracked, c.parents = map[string]bool{}, map[string]bool{}, map[string]bool{}
	if c.commit, err = c.ask(c.root, "rev-parse", "--verify", "-q", "HEAD"); err != nil {
		c.commit = ""
	}
	changes, err := c.ask(c.root, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return fmt.Errorf("git status in %s: %w", c.root, err)
	}
	c.dirty = changes != ""
	return c.listed(filepath.Base(c.root))
}

// listed adds what git knows of a repository: the root, or one within it.
func (c *copier) listed(rel string) error {
	dir := filepath.Join(filepath.Dir(c.root), rel)
	for _, kind := range []string{"--cached", "--others"} {
		text, err := c.ask(dir, "ls-files", "-z", kind, "--exclude-standard")
		if err != nil {
			return fmt.Errorf("git ls-files in %s: %w", dir, err)
		}
		for _, name := range strings.Split(text, "\x00") {
			if name == "" {
				continue
			}
			leaf := filepath.Join(rel, name)
			for p := leaf; p != "." && !(c.code[p] && (kind == "--others" || c.tracked[p])); p = filepath.Dir(p) {
				c.code[p] = true
				c.tracked[p] = c.tracked[p] || kind == "--cached"
				c.parents[p] = c.parents[p] || p != leaf
			}
		}
	}
	return nil
}

func (c *copier) ask(dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(c.ctx, "git", append([]string{"--no-optional-locks", "-C", dir}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil && said.Len() > 0 {
		err = errors.New(strings.TrimSpace(said.String()))
	}
	return strings.TrimRight(string(out), "\n"), err
}

// skipped are names that no copy has: jobs make them anew, or they are no code.
func skipped(name string) bool { return name == ".git" || name == ".gpurun" || name == "__pycache__" }

// survey finds out what to copy and what to link, without writing anything.
func (c *copier) survey(rel string) error {
	entries, err := os.ReadDir(c.tree.original(rel))
	if err != nil {
		return err
	}
	c.tree.Items[rel] = &item{Folder: true}
	for _, e := range entries {
		child := filepath.Join(rel, e.Name())
		if skipped(e.Name()) || c.tree.original(child) == c.State {
			continue
		}
		if err := c.entry(child, e); err != nil {
			return err
		}
	}
	return nil
}

// beside links to what is beside the root, for jobs that use ../data. A folder that may not be
// read has nothing that they could name.
func (c *copier) beside() {
	c.tree.Items["."] = &item{Folder: true}
	entries, _ := os.ReadDir(filepath.Dir(c.root))
	for _, e := range entries {
		if e.Name() != filepath.Base(c.root) && len(entries) <= MaxFiles {
			c.links = append(c.links, e.Name())
		}
	}
}

func (c *copier) entry(rel string, e fs.DirEntry) error {
	path := c.tree.original(rel)
	fi, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone since it was listed
	}
	if err != nil {
		return err
	}
	switch mode := fi.Mode(); {
	case !c.belongs(rel, path, mode):
		c.links = append(c.links, rel)
	case mode.IsDir():
		if c.git && !c.parents[rel] { // a repository within this one
			if err := c.listed(rel); err != nil {
				return err
			}
		}
		return c.survey(rel)
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		c.tree.Items[rel] = &item{Link: c.target(path, target)}
	case mode.IsRegular() && fi.Size() <= large:
		c.tree.Items[rel] = &item{Size: fi.Size(), MTime: fi.ModTime()}
		return c.count(rel, fi.Size())
	default:
		c.links = append(c.links, rel)
	}
	return nil
}

// target returns what the copy of a link points to: within the root, to the copy.
func (c *copier) target(path, target string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return target
	}
	if _, inside := below(c.root, real); !inside {
		return real
	}
	if rel, err := filepath.Rel(filepath.Dir(path), real); err == nil && filepath.IsAbs(target) {
		return rel
	}
	return target
}

// belongs reports whether something is code, and not an output or an environment.
func (c *copier) belongs(rel, path string, mode fs.FileMode) bool {
	if c.git {
		return c.code[rel] && (c.tracked[rel] || !c.written(path, mode))
	}
	if !mode.IsDir() {
		return true
	}
	for _, sign := range []string{"pyvenv.cfg", "conda-meta"} {
		if _, err := os.Lstat(filepath.Join(path, sign)); err == nil {
			return false
		}
	}
	return filepath.Base(path) != "node_modules"
}

// written reports whether a path is an output of jobs, or a folder of outputs that is not that
// of the code itself.
func (c *copier) written(path string, mode fs.FileMode) bool {
	_, output := slices.BinarySearch(c.Outputs, path)
	return output && (!mode.IsDir() || path != c.work)
}

func (c *copier) count(rel string, size int64) error {
	c.tree.Files++
	c.tree.Bytes += size
	parts := strings.SplitN(rel, string(filepath.Separator), 3)
	c.most[parts[min(1, len(parts)-1)]] += size + 4096
	if c.tree.Files <= MaxFiles && c.tree.Bytes <= MaxBytes {
		return nil
	}
	most := slices.MaxFunc(slices.Collect(maps.Keys(c.most)), func(a, b string) int { return cmp.Or(cmp.Compare(c.most[a], c.most[b]), strings.Compare(b, a)) })
	return &TooMuch{Root: c.root, Most: most}
}

// write makes the copy under another name first: one that is there is complete.
func (c *copier) write() (err error) {
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return err
	}
	name := c.Now.Local().Format("20060102-150405")
	if c.commit != "" {
		name += "-" + c.commit[:min(8, len(c.commit))]
	}
	if c.dirty {
		name += "+"
	}
	dir := filepath.Join(c.Folder, name)
	for n := 2; exists(list(dir)) || exists(dir); n++ {
		dir = filepath.Join(c.Folder, fmt.Sprintf("%s-%d", name, n))
	}
	c.tree.Dir = dir + unfinished
	defer func() {
		if err != nil {
			os.RemoveAll(c.tree.Dir)
			os.Remove(list(dir))
		}
	}()
	for _, rel := range slices.Sorted(maps.Keys(c.tree.Items)) { // a folder before what is in it
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		if err := c.make(rel, c.tree.Items[rel]); err != nil {
			return err
		}
	}
	text, err := json.Marshal(c.tree)
	if err != nil {
		return err
	}
	if err := os.WriteFile(list(dir), text, 0o644); err != nil {
		return err
	}
	if err := os.Rename(c.tree.Dir, dir); err != nil {
		return err
	}
	c.tree.Dir = dir
	return nil
}

// unfinished is how the name of a copy ends that is being made.
const unfinished = ".unfinished"

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (c *copier) make(rel string, i *item) error {
	to := c.tree.at(rel)
	switch {
	case i.Folder:
		return os.MkdirAll(to, 0o755)
	case i.Original:
		return os.Symlink(c.tree.original(rel), to)
	case i.Link != "":
		return os.Symlink(i.Link, to)
	}
	for tries := 0; ; tries++ {
		fi, err := duplicate(c.tree.original(rel), to)
		switch {
		case errors.Is(err, fs.ErrNotExist): // somebody has just removed it
			delete(c.tree.Items, rel)
			return nil
		case errors.Is(err, fs.ErrPermission):
			c.tree.Items[rel] = &item{Original: true}
			return os.Symlink(c.tree.original(rel), to)
		}
		if err != nil {
			return err
		}
		if after, err := os.Stat(c.tree.original(rel)); err != nil || tries == 3 || after.Size() == fi.Size() && after.ModTime().Equal(fi.ModTime()) {
			i.Size, i.MTime = fi.Size(), fi.ModTime()
			return nil
		}
	}
}

// duplicate copies a file with its mode and time.
func duplicate(from, to string) (fs.FileInfo, error) {
	in, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fi.Mode().Perm()|0o200)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Close())
	if err == nil {
		err = os.Chtimes(to, time.Time{}, fi.ModTime())
	}
	return fi, err
}
