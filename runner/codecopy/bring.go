package codecopy

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// settled is how long a file must not have changed before it is moved while jobs run: until then
// a job may be about to give it its name.
const settled = time.Minute

// Lead has what a job writes to a path go to the work dir at once, if the copy has no code in
// the way: a folder that it lacks, or a file, becomes a link. The original's folder must exist.
// For a pattern, its fixed part counts.
func (t *Tree) Lead(path string) error {
	base := path
	if isPattern(path) {
		base, _ = doublestar.SplitPattern(path)
	}
	rel, inside := below(t.Root, t.real(base))
	if !inside {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := filepath.Base(t.Root)
	parts := strings.Split(rel, string(filepath.Separator))
	for n, part := range parts {
		at = filepath.Join(at, part)
		fi, err := os.Lstat(t.at(at))
		switch {
		case errors.Is(err, fs.ErrNotExist) && exists(t.original(at)):
			return os.Symlink(t.original(at), t.at(at))
		case errors.Is(err, fs.ErrNotExist): // whatever it becomes, it is brought when the job has ended
			return nil
		case err != nil:
			return err
		case fi.Mode()&fs.ModeSymlink != 0:
			return nil
		case n == len(parts)-1 && fi.Mode().IsRegular():
			if i := t.Items[at]; i == nil || !i.same(fi) {
				return t.move(at)
			}
			return t.link(at)
		}
	}
	return nil
}

func isPattern(path string) bool { return strings.ContainsAny(path, `*?[{\`) }

// Show has the copy show a file of the work dir that it lacks: it has come since.
func (t *Tree) Show(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rel, inside := below(t.Root, t.real(path))
	if !inside || exists(filepath.Join(t.Home(), rel)) || !exists(filepath.Join(t.Root, rel)) {
		return
	}
	for up := rel; up != "."; up = filepath.Dir(up) {
		if parent := filepath.Join(t.Home(), filepath.Dir(up)); exists(parent) {
			_ = os.Symlink(filepath.Join(t.Root, up), filepath.Join(t.Home(), up))
			return
		}
	}
}

// Bring moves an ended job's outputs from the copy to the work dir: what it has written counts,
// whatever was there.
func (t *Tree) Bring(patterns []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, p := range patterns {
		if !isPattern(p) {
			if rel, inside := below(t.Root, t.real(p)); inside && !t.linked(rel) {
				errs = append(errs, t.bring(filepath.Join(filepath.Base(t.Root), rel)))
			}
			continue
		}
		base, _ := doublestar.SplitPattern(p)
		rel, inside := below(t.Root, t.real(base))
		if !inside || t.linked(rel) {
			continue
		}
		_ = filepath.WalkDir(filepath.Join(t.Home(), rel), func(path string, e fs.DirEntry, err error) error {
			if err != nil || skipped(e.Name()) {
				return fs.SkipDir
			}
			if match, _ := doublestar.PathMatch(p, t.Given(t.Back(path))); match && e.Type()&fs.ModeSymlink == 0 {
				rel, _ := below(t.Dir, path)
				errs = append(errs, t.bring(rel))
				if e.IsDir() {
					return fs.SkipDir
				}
			}
			return nil
		})
	}
	return errors.Join(errs...)
}

// Given returns a path of the work dir as the job file has that.
func (t *Tree) Given(path string) string {
	if rel, inside := below(t.Work, path); inside {
		return filepath.Join(t.Named, rel)
	}
	return path
}

// linked reports whether a path below the root leads out of the copy, or to nothing.
func (t *Tree) linked(rel string) bool {
	at := t.Home()
	for _, part := range strings.Split(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		if fi, err := os.Lstat(at); err != nil || fi.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// bring moves a file or folder, over what is there.
func (t *Tree) bring(rel string) error {
	fi, err := os.Lstat(t.at(rel))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && fi.Mode()&fs.ModeSymlink != 0:
		return nil
	case err != nil:
		return err
	case fi.Mode().IsRegular():
		if i := t.Items[rel]; i != nil && i.same(fi) {
			return nil // the job has not written it
		}
		return t.move(rel)
	case !fi.IsDir():
		return nil
	}
	if !exists(t.original(rel)) && t.Items[rel] == nil && t.moveFolder(rel) == nil {
		return nil
	}
	if err := os.MkdirAll(t.original(rel), 0o777); err != nil {
		return err
	}
	entries, err := os.ReadDir(t.at(rel))
	for _, e := range entries {
		if !skipped(e.Name()) {
			err = errors.Join(err, t.bring(filepath.Join(rel, e.Name())))
		}
	}
	return err
}

// Gather moves what jobs have written anywhere in the copy to the work dir. While others use the
// copy (busy), only folders and files that have settled are moved. What the work dir has in another
// version by now stays, and is returned.
func (t *Tree) Gather(busy bool, now time.Time) (moved, kept []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := &gathering{Tree: t, busy: busy, now: now}
	for _, rel := range slices.Sorted(maps.Keys(t.Items)) {
		if t.Items[rel].Folder {
			g.folder(rel)
		}
	}
	return g.moved, g.kept, errors.Join(g.errs...)
}

type gathering struct {
	*Tree
	busy        bool
	now         time.Time
	moved, kept []string // originals; in the copy
	errs        []error
}

func (g *gathering) folder(rel string) {
	fi, err := os.Lstat(g.at(rel))
	if err != nil || !fi.IsDir() {
		return // the job has removed it
	}
	entries, err := os.ReadDir(g.at(rel))
	if err != nil {
		g.errs = append(g.errs, err)
	}
	for _, e := range entries {
		child := filepath.Join(rel, e.Name())
		i := g.Items[child]
		if skipped(e.Name()) || ours(e.Name()) || i != nil && (i.Folder || i.Link != "") {
			continue
		}
		fi, err := e.Info()
		if err != nil {
			continue
		}
		if i == nil || !i.same(fi) {
			g.entry(child, fi, i)
		}
	}
}

// ours reports whether a file is gpurun's own: a copy of a config, or a link in the making.
func ours(name string) bool {
	return strings.HasPrefix(name, ".gpurun-") || strings.HasPrefix(name, ".") && strings.Contains(name, ".gpurun.")
}

// entry moves what a job has made or changed; i is what was copied, nil for what is new.
func (g *gathering) entry(rel string, fi fs.FileInfo, i *item) {
	to := g.original(rel)
	there, err := os.Lstat(to)
	free := errors.Is(err, fs.ErrNotExist)
	switch mode := fi.Mode(); {
	case mode&fs.ModeSymlink != 0:
		target, _ := os.Readlink(g.at(rel))
		if target != to && free && !g.waits(fi) {
			g.done(os.Symlink(target, to), to)
		}
	case mode.IsDir():
		if free {
			err := g.moveFolder(rel)
			if err == nil || g.busy {
				g.done(err, to)
				return
			}
			if err := os.MkdirAll(to, 0o777); err != nil {
				g.done(err, to)
				return
			}
		} else if !there.IsDir() {
			if there.Mode()&fs.ModeSymlink == 0 || !isDir(to) {
				g.kept = append(g.kept, g.at(rel))
				return
			}
		}
		g.folder(rel)
	case !mode.IsRegular() || g.waits(fi):
	case !free && i != nil && i.Original:
		g.done(g.move(rel), to)
	case free, i != nil && i.same(there), sameContent(g.at(rel), to, fi, there):
		err := g.moveFor(rel, there)
		if errors.Is(err, errOther) {
			g.kept = append(g.kept, g.at(rel))
			return
		}
		g.done(err, to)
	default:
		g.kept = append(g.kept, g.at(rel))
	}
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// waits reports whether a file may yet change its name.
func (g *gathering) waits(fi fs.FileInfo) bool { return g.busy && g.now.Sub(fi.ModTime()) < settled }

func (g *gathering) done(err error, to string) {
	switch {
	case err == nil:
		g.moved = append(g.moved, to)
	case g.busy && (errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)):
	default:
		g.errs = append(g.errs, err)
	}
}

func sameContent(a, b string, x, y fs.FileInfo) bool {
	if !y.Mode().IsRegular() || x.Size() != y.Size() || x.Size() > large {
		return false
	}
	one, err1 := os.ReadFile(a)
	two, err2 := os.ReadFile(b)
	return err1 == nil && err2 == nil && bytes.Equal(one, two)
}

// Remove removes the copies in a folder, apart from those in use, after it has moved to the work
// dir what jobs have written there. A copy with something that could not be moved stays, and is
// named.
func Remove(folder string, used func(dir string) bool, now time.Time) (notes []string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		dir := filepath.Join(folder, e.Name())
		switch {
		case !e.IsDir() || used(dir):
			continue
		case strings.HasSuffix(dir, unfinished):
			os.RemoveAll(dir) // nothing has run in it
			continue
		}
		t, err := Load(dir)
		if err != nil {
			notes = append(notes, "the copy of the code in "+dir+" stays: "+err.Error())
			continue
		}
		notes = append(notes, t.Remove(now)...)
	}
	return notes
}

// Remove removes a copy that nobody uses, after it has moved to the work dir what is new in it.
// If that cannot be done it stays, and the reason is returned.
func (t *Tree) Remove(now time.Time) (notes []string) {
	_, kept, err := t.Gather(false, now)
	switch {
	case err != nil:
		return []string{"the copy of the code in " + t.Dir + " stays: what jobs wrote there could not be moved to the work dir: " + err.Error()}
	case len(kept) > 0:
		return []string{Kept(kept)}
	}
	if os.RemoveAll(t.Dir) == nil {
		os.Remove(list(t.Dir))
	}
	return nil
}

// Kept says what stays in a copy.
func Kept(kept []string) string {
	text := "a job has written " + kept[0]
	switch n := len(kept) - 1; {
	case n == 1:
		text += " and 1 more file"
	case n > 1:
		text += " and " + strconv.Itoa(n) + " more files"
	}
	return text + ", but the work dir has another version by now: merge them if both matter, then remove what is in the copy"
}
