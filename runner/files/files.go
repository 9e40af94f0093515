// Package files inspects the files of jobs: whether outputs exist, what inputs contain, how logs
// end, and which metrics they report. It decides nothing.
//
// Patterns are absolute paths or globs (** matches any number of folders). A path that exists
// exactly as written is taken literally, whatever characters it contains, and so is an existing
// folder at the start of a pattern.
package files

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"gpurun/state/host"
)

// split splits a glob into its base folder and the rest. A folder that exists, such as a work dir
// named "runs [old]", is taken literally.
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

// IsGlob reports whether a path is a pattern.
func IsGlob(pattern string) bool { return strings.ContainsAny(pattern, `*?[{\`) }

// MakeFolders creates the folders that contain the outputs; for a glob, only the fixed part. It
// never creates the work dir, because a job without one should fail rather than run in an empty
// folder. Nor does it create an output itself, whose existence would mean that the job is done.
func MakeFolders(workDir string, patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	if _, err := os.Stat(workDir); err != nil {
		return nil
	}
	for _, p := range patterns {
		if err := os.MkdirAll(FolderOf(p), 0o777); err != nil {
			return fmt.Errorf("cannot create the folder for output %s: %w", Short(workDir, p), err)
		}
	}
	return nil
}

// FolderOf returns the folder that contains an output; for a glob, the fixed part.
func FolderOf(pattern string) string {
	if IsGlob(pattern) {
		dir, _ := split(pattern)
		return dir
	}
	return filepath.Dir(pattern)
}

// Short returns path the way users write it: relative to dir if it is inside dir, otherwise
// unchanged.
func Short(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return path
	}
	return rel
}

// BeginsAt returns the offset at which an attempt's part of a log of this size begins. from is the
// size that the log had when the attempt started. If the log is shorter now, the attempt has
// truncated it, and all of it belongs to the attempt.
func BeginsAt(from, size int64) int64 {
	if from > size {
		return 0
	}
	return max(from, 0)
}

// Tail returns the last bytes of a log: at most 'most' bytes, and none before offset 'from' unless the
// log is shorter than that. It returns nil if the file does not exist or there are no such bytes.
func Tail(path string, from int64, most int) []byte {
	f, info, err := host.OpenRegular(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	from = max(BeginsAt(from, info.Size()), info.Size()-int64(most))
	if most <= 0 || from >= info.Size() {
		return nil
	}
	b, _ := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	return b
}
