// Package files says what the file system has to say of a job: which of its
// outputs are there, what its inputs held when it started and hold now, how its
// log ends, and what it left in its result file. It decides nothing.
//
// Patterns are absolute paths or globs (** crosses folders). A path that exists
// as it is written is meant literally, whatever characters it has; so is the
// folder that a pattern begins with.
package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"
)

// split parts a glob into the folder where it begins and the pattern below that.
// A work dir may be called "runs [old]", and a folder of that name is meant.
func split(pattern string) (base, rest string) {
	base, rest = doublestar.SplitPattern(pattern)
	for {
		first, more, deeper := strings.Cut(rest, "/")
		folder := filepath.Join(base, first)
		if fi, err := os.Stat(folder); !deeper || err != nil || !fi.IsDir() {
			return base, rest
		}
		base, rest = folder, more
	}
}

func isGlob(pattern string) bool { return strings.ContainsAny(pattern, `*?[{\`) }

// Short is path as a person writes it: relative to dir where it lies within.
func Short(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return path
	}
	return rel
}

// Tail is the end of a log from the offset from on, at most most bytes; nil when
// there is no such file, or nothing in that part.
func Tail(path string, from int64, most int) []byte {
	f, info, err := openRegular(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	from = max(from, 0, info.Size()-int64(most))
	if most <= 0 || from >= info.Size() {
		return nil
	}
	b, _ := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	return b
}

var errIrregular = errors.New("is no regular file")

// openRegular opens a regular file. A pipe that a job has put in its place would
// block for ever, so the opening waits for nobody.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errIrregular}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
