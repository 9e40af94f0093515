package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// confined are the folders to which this process is kept; nil for none.
var confined []string

// Confine keeps this process to some folders, absolute and without links: what job files and
// ledgers name elsewhere is not read, not listed and not asked for. Whoever acts for somebody
// who may only see these folders calls it before anything else.
func Confine(folders []string) { confined = folders }

// Confined reports whether this process is kept to some folders.
func Confined() bool { return confined != nil }

// An OutsideError is the error for a path that leads out of the folders of Confine.
type OutsideError struct{ Path string }

func (e *OutsideError) Error() string {
	return fmt.Sprintf("%s leads out of %s, and nothing else may be read", e.Path, strings.Join(confined, " and "))
}

// Within returns an OutsideError if a path leads out of the folders of Confine, by its links
// too. It need not exist: what does of it decides.
func Within(path string) error {
	if confined == nil {
		return nil
	}
	there, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for rest := ""; ; there, rest = filepath.Dir(there), filepath.Join(filepath.Base(there), rest) {
		real, err := filepath.EvalSymlinks(there)
		_, link := os.Lstat(there)
		switch {
		case err == nil:
			return inside(path, filepath.Join(real, rest))
		case link == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return &OutsideError{path} // a link to nowhere, or it cannot be seen
		}
	}
}

// opened is Within for a file that is open: whatever its name means by now.
func opened(f *os.File) error {
	if confined == nil {
		return nil
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return err
	}
	return inside(f.Name(), real)
}

func inside(path, real string) error {
	for _, dir := range confined {
		if rel, err := filepath.Rel(dir, real); err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return &OutsideError{path}
}
