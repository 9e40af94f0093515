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

// confined holds the folders that this process is restricted to; nil means no restriction.
var confined []string

// Confine restricts this process to some folders, given as absolute paths without links. Files
// elsewhere that job files and ledgers name are not read, listed or checked for existence. A process
// that acts for a client that may access only these folders must call Confine first.
func Confine(folders []string) { confined = folders }

// Confined reports whether Confine was called.
func Confined() bool { return confined != nil }

// An OutsideError is the error for a path outside the folders given to Confine.
type OutsideError struct{ Path string }

func (e *OutsideError) Error() string {
	return fmt.Sprintf("access to %s is not allowed: it is outside %s", e.Path, strings.Join(confined, " and "))
}

// Within returns an OutsideError if a path, after following its links, is outside the folders given
// to Confine. If the path does not exist, its longest existing part decides.
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
			return &OutsideError{path} // a dangling link, or one that cannot be followed
		}
	}
}

// opened is like Within, but checks the open file itself, wherever its name leads now.
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
		if Inside(dir, real) {
			return nil
		}
	}
	return &OutsideError{path}
}
