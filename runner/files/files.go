// Package files collects what the file system knows about a job: which outputs
// exist, what its inputs contained when it started and contain now, how its log
// ends, and what its result file says. It decides nothing.
//
// Patterns are absolute paths or globs (** crosses folders). A path that exists
// exactly as written is taken literally, whatever characters it has. So is the
// folder that a pattern begins with.
package files

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"gpurun/state/host"
)

// split splits a glob into its base folder and the pattern below it. A work dir may
// be named "runs [old]", and that folder is taken literally.
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

// Short returns path the way people write it: relative to dir if it is inside. It leaves
// "" alone.
func Short(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return path
	}
	return rel
}

// Tail returns the end of a log, at most most bytes and nothing before offset from;
// nil if there is no file or nothing in that part.
func Tail(path string, from int64, most int) []byte {
	f, info, err := host.OpenRegular(path)
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
