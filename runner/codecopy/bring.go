package codecopy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"gpurun/runner/engine/procs"
)

// Show has the copy show what is at home, and that it lacks: the folders of a job's outputs, for one,
// and what has come since. For a pattern, its fixed part counts.
func (t *Tree) Show(paths ...string) error {
	t.Lock()
	defer t.Unlock()
	for _, path := range paths {
		if strings.ContainsAny(path, `*?[{\`) {
			path, _ = doublestar.SplitPattern(path)
		}
		rel, inside := below(t.Root, t.real(path))
		at := filepath.Base(t.Root)
		for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
			at = filepath.Join(at, part)
			if inside && !exists(t.at(at)) {
				if !exists(t.original(at)) {
					break
				}
				if err := t.link(at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Bring brings home what an ended job declares and has made in the copy, over what is there.
func (t *Tree) Bring(patterns []string) error {
	t.Lock()
	defer t.Unlock()
	b := bringing{Tree: t}
	for _, p := range patterns {
		base, rest := doublestar.SplitPattern(p)
		if !inside(t.Root, t.real(base)) {
			continue
		}
		names := []string{rest}
		if !exists(t.Map(p)) {
			names, _ = doublestar.Glob(os.DirFS(t.Map(base)), rest, doublestar.WithNoFollow())
		}
		for _, name := range names {
			if rel, _ := below(t.Dir, t.Map(filepath.Join(base, name))); !t.leaves(filepath.Dir(rel)) {
				b.bring(rel, true)
			}
		}
	}
	return errors.Join(b.errs...)
}

// leaves reports whether a path leads out of the copy.
func (t *Tree) leaves(rel string) bool {
	real, err := filepath.EvalSymlinks(t.at(rel))
	return err != nil || !inside(t.Dir, real)
}

// Settle brings home all that jobs have made in a copy, and with remove, removes that then. The caller
// has locked the copy, and no attempt is in it. While another process is, nothing is moved: it is not done.
// What stays is said: what could not be moved, and what the work dir has in another version by now.
func (t *Tree) Settle(remove bool) (notes []string, done bool) {
	if pid := procs.In(t.Dir); pid != 0 {
		t.Unlock()
		return []string{fmt.Sprintf("process %d is still in the copy of the code %s: files that jobs made there move to the work dir once it has ended, also with a later run", pid, t.Home())}, false
	}
	b := bringing{Tree: t}
	b.bring(".", false)
	t.Unlock()
	for _, dir := range b.linked { // where links may have been made that lead to the copy
		b.relink(dir, MaxFiles)
	}
	switch err := errors.Join(b.errs...); {
	case err != nil:
		notes = append(notes, "files that jobs made in the copy of the code "+t.Home()+" are still there: "+err.Error())
	case len(b.kept) > 0:
		more := ""
		if n := len(b.kept) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		notes = append(notes, fmt.Sprintf("jobs have written %s%s, but the work dir has another version by now: merge them if both matter, then remove what is in the copy", b.kept[0], more))
	case remove && os.RemoveAll(t.Dir) == nil:
		os.Remove(list(t.Dir))
		os.Remove(t.Dir + moving) // of a run that was killed
	}
	return notes, true
}

// Remove removes the copies in a folder that are not used, after it has brought home what jobs have
// made there. One that is used, but by nobody now (false), is kept, and one with something that stays.
func Remove(folder string, used map[string]bool) (notes []string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		dir := filepath.Join(folder, e.Name())
		switch {
		case !e.IsDir():
			continue
		case strings.HasSuffix(dir, unfinished):
			os.RemoveAll(dir) // nothing has run in it
			continue
		}
		t, err := Load(dir)
		switch {
		case err != nil:
			notes = append(notes, "the copy of the code in "+dir+" stays: "+err.Error())
		case !used[t.Dir]:
			t.Lock()
			_, keep := used[t.Dir]
			said, _ := t.Settle(!keep)
			notes = append(notes, said...)
		}
	}
	return notes
}

type bringing struct {
	*Tree
	kept   []string // in the copy
	linked []string // folders of the work dir that the copy leads to
	errs   []error
}

// bring brings home what jobs have made at a path; with over, in place of what is there.
func (b *bringing) bring(rel string, over bool) {
	fi, err := os.Lstat(b.at(rel))
	if errors.Is(err, fs.ErrNotExist) || filepath.Base(rel) == "__pycache__" {
		return
	}
	over = over || b.Items[rel].Original
	switch text, _ := os.Readlink(b.at(rel)); {
	case err != nil:
	case text == b.original(rel):
		if inside(b.Root, text) {
			b.linked = append(b.linked, text)
		}
	case fi.IsDir():
		err = b.folder(rel, over)
	case (fi.Mode().IsRegular() || text != "") && !configCopy.MatchString(fi.Name()):
		err = b.file(rel, over)
	}
	switch {
	case errors.Is(err, fs.ErrExist) && !over:
		b.kept = append(b.kept, b.at(rel))
	case err != nil:
		b.errs = append(b.errs, err)
	}
}

// configCopy matches what gpurun has put there: the copy of a job's config.
var configCopy = regexp.MustCompile(`^\..*\.[0-9a-f]{16}\.gpurun(\..*)?$`)

func (b *bringing) folder(rel string, over bool) error {
	if to := b.original(rel); !b.Items[rel].Folder {
		b.relink(b.at(rel), 0)
		fresh := !exists(to)
		if err := os.MkdirAll(to, 0o777); err != nil {
			return err
		}
		if fresh && unix.Rename(b.at(rel), to) == nil { // it is empty yet
			return b.link(rel)
		}
	}
	entries, err := os.ReadDir(b.at(rel))
	for _, e := range entries {
		b.bring(filepath.Join(rel, e.Name()), over)
	}
	return err
}

// file brings home a file or link that a job has made or changed.
func (b *bringing) file(rel string, over bool) (err error) {
	from, to, was := b.at(rel), b.original(rel), b.Items[rel].Sum
	mine, now, how := "", "", uint(unix.RENAME_NOREPLACE)
	there := exists(to)
	if was != "" || there && !over {
		mine, err = b.content(rel, from)
	}
	if there && !over && err == nil {
		now, err = b.content(rel, to)
	}
	switch {
	case err != nil || mine != "" && (mine == was || mine == now):
		return err
	case there && over:
		how = 0
	case there && now == was:
		how = unix.RENAME_EXCHANGE
	case there:
		return fs.ErrExist
	}
	b.relink(from, 0)
	return b.move(rel, how, was)
}

// moving is how a second name ends that a file has for a moment.
const moving = ".moving"

// move moves a file home; with RENAME_EXCHANGE, over the version was. Until a link takes its place, both
// paths lead to the file: a process that has it open, or opens it now, goes on writing to it.
func (t *Tree) move(rel string, how uint, was string) error {
	from, to, tmp := t.at(rel), t.original(rel), t.Dir+moving
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	os.Remove(tmp)
	defer os.Remove(tmp)
	if os.Link(from, tmp) != nil {
		tmp = from // a file system without hard links
	}
	err := rename(tmp, to, how)
	if errors.Is(err, unix.EXDEV) { // another file system within the root
		err = exec.Command("mv", "-f", "--", tmp, to).Run()
	}
	if err == nil && how == unix.RENAME_EXCHANGE {
		if now, lost := t.content(rel, tmp); lost == nil && now != was { // somebody has just written another version
			err = cmp.Or(rename(tmp, to, how), error(fs.ErrExist))
		}
	}
	if err != nil {
		return err
	}
	return t.link(rel)
}

// rename is renameat2(2) where the file system knows that.
func rename(from, to string, how uint) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, how)
	switch {
	case how == 0 || !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS):
		return err
	case how == unix.RENAME_NOREPLACE && exists(to):
		return fs.ErrExist
	}
	return unix.Rename(from, to)
}

// link makes a path of the copy a link home, without a moment between.
func (t *Tree) link(rel string) error {
	t.Items[rel] = item{Original: true}
	return renameio.Symlink(t.original(rel), t.at(rel))
}

// relink has links in a folder lead home that lead to the copy. It looks at the first most files
// only; 0 is for all.
func (b *bringing) relink(dir string, most int) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if most--; most == 0 {
			return fs.SkipAll
		}
		if err == nil && e.Type()&fs.ModeSymlink != 0 {
			if text, err := os.Readlink(path); err == nil && inside(b.Dir, text) {
				b.errs = append(b.errs, renameio.Symlink(b.home("", text), path))
			}
		}
		return nil
	})
}
