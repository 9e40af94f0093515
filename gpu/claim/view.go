package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	"gpurun/state/host"
)

// A view is the result of reading one or more folders.
type view struct {
	found       []*content
	quarantines []gpu.Quarantine
	wishes      []*wishContent
	set         string // the set of devices whose use is read; "" for none
	usages      []Usage
	warnings    []string
	short       bool // incomplete because of the folders' content
	ours        bool // incomplete because this process lacks a resource
	doubt       bool // nothing may start
}

func (s *view) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf("claims: "+format, args...))
}

// maxNamed is how many files of one user are named in warnings.
const maxNamed = 5

// safely calls read for f. If the folder's content causes a panic, the process survives and the
// folder counts as incomplete.
func (s *view) safely(f folder, read func()) {
	defer func() {
		if p := recover(); p != nil {
			s.short = true
			s.warn("cannot read %s: internal error: %v", f.path, p)
		}
	}()
	read()
}

func (s *view) read(ctx context.Context, f folder) {
	d, err := openFolder(f)
	if err != nil {
		if !errors.Is(err, unix.ENOENT) && !s.unreadable(f, f.path, err) {
			s.warn("ignoring %s: %v", f.path, plain(err))
		}
		return
	}
	defer d.Close()
	l, holds := listingOf(d)
	strange := ""
	if !holds {
		l.names, strange, l.more, err = listNames(ctx, d, f.most)
	}
	if s.unreadable(f, f.path, err) || err != nil || ctx.Err() != nil {
		l.ctime = 0
	}
	defer func() { s.short = s.short || ctx.Err() != nil }()
	refused, half, more, names, seen := 0, 0, l.more, l.names, map[uint64]bool{}
	l.names = nil
	for i, name := range names {
		if ctx.Err() != nil || half > maxHalf {
			more, l.names = true, append(l.names, names[i:]...)
			break
		}
		err := s.open(d, name, f.uid, seen)
		if !errors.As(err, new(staticError)) {
			l.names = append(l.names, name)
		}
		switch {
		case err == nil:
		case s.unreadable(f, f.path+"/"+name, err):
		case errors.Is(err, errIncomplete):
			half++
		case errors.Is(err, errGone), errors.Is(err, unix.ENOENT):
		default:
			if refused++; refused <= maxNamed {
				s.warn("ignoring %s/%s: %v", f.path, name, plain(err))
			}
		}
	}
	if refused > maxNamed {
		s.warn("%s: further entries ignored", f.path)
	}
	listings.Store(f.path, l)
	if strange != "" {
		s.warn("%s contains an unexpected file: %s", f.path, strange)
	}
	if more || f.more {
		s.tooMany(f)
	}
}

// open reads a file and adds its content to s. seen are the inodes of the claims read so far, because
// a file may have several names.
func (s *view) open(d *os.File, name string, uid int, seen map[uint64]bool) error {
	switch {
	case strings.HasSuffix(name, usageSuffix):
		if s.set == "" || name != usageName(s.set) {
			return nil
		}
		u, err := readUsage(d, uid, s.set)
		if err == nil {
			s.usages = append(s.usages, *u)
		}
		return err
	case strings.HasSuffix(name, wishSuffix):
		w, _, err := open(d, name, uid, parseWish)
		if err == nil {
			s.wishes = append(s.wishes, w)
		}
		return err
	case strings.HasSuffix(name, quarantineSuffix):
		q, err := readQuarantine(d, name, uid)
		if err == nil && len(s.quarantines) < maxSick {
			s.quarantines = append(s.quarantines, q)
		}
		return err
	}
	c, ino, err := open(d, name, uid, parse)
	if err == nil && !seen[ino] {
		seen[ino] = true
		s.found = append(s.found, c)
	}
	return err
}

// published are the suffixes of files that users publish.
var published = []string{suffix, wishSuffix, quarantineSuffix, usageSuffix}

// listNames returns the names of published files, one other name if there is any, and whether the
// folder has more names than most.
func listNames(ctx context.Context, d *os.File, most int) (names []string, strange string, more bool, err error) {
	for n := 0; ; {
		batch, err := d.Readdirnames(512)
		for _, name := range batch {
			switch {
			case slices.ContainsFunc(published, func(suffix string) bool { return strings.HasSuffix(name, suffix) }):
				names = append(names, name)
			case strange == "" && !strings.HasSuffix(name, replacementSuffix):
				strange = name
			}
		}
		n += len(batch)
		if errors.Is(err, io.EOF) {
			return names, strange, false, nil
		}
		if err != nil || n >= most || ctx.Err() != nil {
			return names, strange, err == nil, err
		}
	}
}

// unreadable reports whether err means that reading failed, not that the content is invalid. If so,
// it records the error, because the file that could not be read may contain a claim.
func (s *view) unreadable(f folder, path string, err error) bool {
	fix := ""
	switch {
	case errors.Is(err, unix.EMFILE):
		fix = " (raise ulimit -n)"
	case errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
	case errors.Is(err, unix.EIO), errors.Is(err, unix.ESTALE), errors.Is(err, unix.ETIMEDOUT), errors.Is(err, unix.EREMOTEIO),
		errors.Is(err, unix.EUCLEAN), errors.Is(err, unix.EBADMSG):
		if f.mounted(f.path) || f.mounted(path) { // a file system that its user mounted there
			s.short = true
			s.warn("cannot read %s: %v%s", path, err, by(f))
			return true
		}
	default:
		return false
	}
	s.ours = true
	s.warn("cannot read %s, so no job starts until it is readable: %v%s", path, err, fix)
	return true
}

// tooMany records that a user has more files than are read.
func (s *view) tooMany(f folder) {
	holder := by(f)
	s.warn("too many files or folders in or next to %s: not all were read%s", f.path, holder)
	if f.uid == host.CurrentUID() {
		s.warn("%s: remove files that your runs do not need", f.path)
	}
	s.short = s.short || holder != ""
}

// by returns a note, to append to a warning, naming a process of f's user that holds locks on the
// file system of the claims, or "" if there is none.
func by(f folder) string {
	if pid := host.UserLock(filepath.Dir(f.path), f.uid); pid != 0 {
		return fmt.Sprintf(" (process %d of uid %d holds locks there: ask that user to clean up)", pid, f.uid)
	}
	return ""
}

// mounted reports whether a path is on a different file system from the root of the claims.
func (f folder) mounted(path string) bool {
	dev, ok := device(path)
	return ok && dev != f.dev
}
