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
	"gpurun/state/host"
)

// Link makes the paths accessible in the copy: it links those that exist only in the work dir, such
// as output folders. For a pattern, it links the path before the first wildcard.
func (t *Tree) Link(paths ...string) error {
	t.Lock()
	defer t.Unlock()
	for _, path := range paths {
		if strings.ContainsAny(path, `*?[{\`) {
			path, _ = doublestar.SplitPattern(path)
		}
		rel, inside := host.Below(t.Root, t.real(path))
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

// MoveOutputs moves the declared outputs of an ended job from the copy to the work dir, overwriting
// existing files.
func (t *Tree) MoveOutputs(patterns []string) error {
	t.Lock()
	defer t.Unlock()
	b := mover{Tree: t}
	for _, p := range patterns {
		base, rest := doublestar.SplitPattern(p)
		if !host.Inside(t.Root, t.real(base)) {
			continue
		}
		names := []string{rest}
		if !exists(t.Map(p)) {
			names, _ = doublestar.Glob(os.DirFS(t.Map(base)), rest, doublestar.WithNoFollow())
		}
		for _, name := range names {
			if rel, _ := host.Below(t.Dir, t.Map(filepath.Join(base, name))); !t.leadsOut(filepath.Dir(rel)) {
				b.move(rel, true)
			}
		}
	}
	return errors.Join(b.errs...)
}

func (t *Tree) leadsOut(rel string) bool {
	real, err := filepath.EvalSymlinks(t.at(rel))
	return err != nil || !host.Inside(t.Dir, real)
}

// Settle moves all files that jobs wrote in a copy to the work dir. Then, if remove is set and no
// such file had to stay, it removes the copy. The caller has locked the copy, and no attempt uses
// it; Settle unlocks it. While another process is in the copy, Settle moves nothing and returns
// done=false. The notes report that process, or the files that stay in the copy because moving them
// failed or the work dir now has another version.
func (t *Tree) Settle(remove bool) (notes []string, done bool) {
	if pid := procs.In(t.Dir); pid != 0 {
		t.Unlock()
		return []string{fmt.Sprintf("process %d is still using the copy of the code in %s: files that jobs wrote there move to the work dir after that process ends, in this run or a later one", pid, t.Home())}, false
	}
	b := mover{Tree: t}
	b.move(".", false)
	t.Unlock()
	for _, dir := range b.linked { // jobs may have made links to the copy there
		b.relink(dir, MaxFiles)
	}
	switch err := errors.Join(b.errs...); {
	case err != nil:
		notes = append(notes, "files that jobs wrote in the copy of the code in "+t.Home()+" were not moved to the work dir: "+err.Error())
	case len(b.kept) > 0:
		more := ""
		if n := len(b.kept) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		notes = append(notes, fmt.Sprintf("jobs wrote %s%s in the copy of the code, but the work dir now has different versions: merge the changes you need, then delete these files from the copy", b.kept[0], more))
	case remove && os.RemoveAll(t.Dir) == nil:
		os.Remove(list(t.Dir))
		os.Remove(t.Dir + movingSuffix) // left by a killed run
	}
	return notes, true
}

// Remove settles the copies in folder, except those in use, for which used is true. Of the settled
// copies, it removes those without an entry in used, unless some of their files could not be moved.
func Remove(folder string, used map[string]bool) (notes []string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		dir := filepath.Join(folder, e.Name())
		switch {
		case !e.IsDir():
			continue
		case strings.HasSuffix(dir, unfinished):
			os.RemoveAll(dir) // no job has run in it
			continue
		}
		t, err := Load(dir)
		switch {
		case err != nil:
			notes = append(notes, "keeping the copy of the code in "+dir+": "+err.Error())
		case !used[t.Dir]:
			t.Lock()
			_, keep := used[t.Dir]
			said, _ := t.Settle(!keep)
			notes = append(notes, said...)
		}
	}
	return notes
}

type mover struct {
	*Tree
	kept   []string // files kept in the copy, because the work dir has another version
	linked []string // folders of the work dir that the copy links to
	errs   []error
}

// move moves files from the copy to the work dir if jobs wrote them: the file at rel, or all below it.
// If over is set, it overwrites existing files.
func (b *mover) move(rel string, over bool) {
	fi, err := os.Lstat(b.at(rel))
	if errors.Is(err, fs.ErrNotExist) || filepath.Base(rel) == "__pycache__" {
		return
	}
	over = over || b.Items[rel].Original
	switch text, _ := os.Readlink(b.at(rel)); {
	case err != nil:
	case text == b.original(rel):
		if host.Inside(b.Root, text) {
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

// configCopy matches the names of gpurun's own files in the copy: config files of jobs.
var configCopy = regexp.MustCompile(`^\..*\.[0-9a-f]{16}\.gpurun(\..*)?$`)

func (b *mover) folder(rel string, over bool) error {
	if to := b.original(rel); !b.Items[rel].Folder {
		b.relink(b.at(rel), 0)
		fresh := !exists(to)
		if err := os.MkdirAll(to, 0o777); err != nil {
			return err
		}
		if fresh && unix.Rename(b.at(rel), to) == nil { // works if the new folder is still empty
			return b.link(rel)
		}
	}
	entries, err := os.ReadDir(b.at(rel))
	for _, e := range entries {
		b.move(filepath.Join(rel, e.Name()), over)
	}
	return err
}

// file moves a file or link to the work dir if a job made or changed it.
func (b *mover) file(rel string, over bool) (err error) {
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
	return b.moveFile(rel, how, was)
}

// movingSuffix is the suffix of a file's second name while moveFile moves it.
const movingSuffix = ".moving"

// moveFile moves a file to the work dir. With RENAME_EXCHANGE, it replaces only a file whose content
// still equals 'was'. Then the file's path in the copy becomes a link. Until then, both paths lead to
// the same file, so a process that has the file open keeps writing to it.
func (t *Tree) moveFile(rel string, how uint, was string) error {
	from, to, tmp := t.at(rel), t.original(rel), t.Dir+movingSuffix
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	os.Remove(tmp)
	defer os.Remove(tmp)
	if os.Link(from, tmp) != nil {
		tmp = from // the file system has no hard links
	}
	err := rename(tmp, to, how)
	if errors.Is(err, unix.EXDEV) { // the destination is on another file system within the root
		err = exec.Command("mv", "-f", "--", tmp, to).Run()
	}
	if err == nil && how == unix.RENAME_EXCHANGE {
		if now, lost := t.content(rel, tmp); lost == nil && now != was { // another process has just written a new version
			err = cmp.Or(rename(tmp, to, how), error(fs.ErrExist))
		}
	}
	if err != nil {
		return err
	}
	return t.link(rel)
}

// rename calls renameat2(2), and falls back to rename(2) on file systems without it.
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

// link atomically replaces a path of the copy with a link to the original.
func (t *Tree) link(rel string) error {
	t.Items[rel] = item{Original: true}
	return renameio.Symlink(t.original(rel), t.at(rel))
}

// relink redirects links in a folder from the copy to the work dir. If most is not 0, it stops
// after about that many entries.
func (b *mover) relink(dir string, most int) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if most--; most == 0 {
			return fs.SkipAll
		}
		if err == nil && e.Type()&fs.ModeSymlink != 0 {
			if text, err := os.Readlink(path); err == nil && host.Inside(b.Dir, text) {
				b.errs = append(b.errs, renameio.Symlink(b.home("", text), path))
			}
		}
		return nil
	})
}
