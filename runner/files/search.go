package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"gpurun/state"
	"gpurun/state/host"
)

// A pattern such as /**/x covers the whole file system, where links can form loops, so every search
// has a time limit.
const (
	searchOne = 30 * time.Second       // per pattern, when a job starts or ends
	lookAll   = 15 * time.Second       // total for searches that time out while all jobs are checked
	lookLeast = 100 * time.Millisecond // per pattern after lookAll is used up
)

// LookOne is the time limit per pattern when all jobs are checked before anything starts. Tests
// lower it.
var LookOne = 5 * time.Second

// GaveUp means that a search ran out of time without a match.
type GaveUp struct {
	Pattern string
	After   time.Duration
}

func (e *GaveUp) Error() string {
	return fmt.Sprintf("%s: no match found within %s; narrow the pattern to a folder", e.Pattern, e.After)
}

// A Search finds matches of patterns within time limits. It reads each input only once, since
// thousands of jobs may share one. It is not safe for concurrent use.
type Search struct {
	one  time.Duration
	all  time.Duration // total for searches that give up; 0 for no limit
	lost time.Duration // time spent on searches that gave up
	seen map[string]state.Input
}

func newSearch() *Search { return &Search{one: searchOne, seen: map[string]state.Input{}} }

// NewLook returns a Search for checking many jobs before anything starts.
func NewLook() *Search {
	return &Search{one: LookOne, all: lookAll, seen: map[string]state.Input{}}
}

// limit returns how long the next search may take. After earlier searches have used up the total,
// this time is short, but enough for an ordinary pattern.
func (s *Search) limit() time.Duration {
	if s.all == 0 {
		return s.one
	}
	return max(lookLeast, min(s.one, s.all-s.lost))
}

// MissingOutput returns the first pattern without a match, or "". A search that gives up counts as
// no match.
func MissingOutput(patterns []string) (pattern string, err error) {
	return newSearch().Missing(patterns)
}

// Missing returns the first pattern without a match, or "". The error is GaveUp if a search was
// incomplete.
func (s *Search) Missing(patterns []string) (pattern string, err error) {
	for _, p := range patterns {
		if ok, err := s.matches(p); !ok {
			return p, err
		}
	}
	return "", nil
}

// matches reports whether a pattern has a match. Dangling links do not count.
func (s *Search) matches(pattern string) (bool, error) {
	if _, err := os.Stat(pattern); err == nil {
		return true, nil
	}
	found := false
	err := s.walk(pattern, func(path string) error {
		if _, err := os.Stat(path); err != nil {
			return nil
		}
		found = true
		return fs.SkipAll
	})
	return found, err
}

// glob returns the sorted paths that a pattern matches.
func (s *Search) glob(pattern string) ([]string, error) {
	if _, err := os.Stat(pattern); err == nil {
		return []string{pattern}, nil
	}
	var paths []string
	err := s.walk(pattern, func(path string) error {
		paths = append(paths, path)
		return nil
	})
	slices.Sort(paths)
	return paths, err
}

// walk calls f for each match of a glob until f returns SkipAll.
func (s *Search) walk(pattern string, f func(path string) error) error {
	if !IsGlob(pattern) {
		return nil
	}
	limit, begin := s.limit(), time.Now()
	base, rest := split(pattern)
	err := doublestar.GlobWalk(timed{os.DirFS(base), base, begin.Add(limit)}, rest, func(path string, _ fs.DirEntry) error {
		return f(filepath.Join(base, path))
	}, doublestar.WithFailOnIOErrors())
	if errors.Is(err, errTime) {
		s.lost += time.Since(begin)
		return &GaveUp{pattern, limit}
	}
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", pattern, err)
	}
	return nil
}

var errTime = errors.New("search timed out")

// timed is a file system that stops reading folders after end. A folder counts as empty if it
// cannot be read, or if this command must not access it.
type timed struct {
	fs.FS
	base string
	end  time.Time
}

func (t timed) ReadDir(name string) ([]fs.DirEntry, error) {
	if time.Now().After(t.end) {
		return nil, errTime
	}
	if host.Within(filepath.Join(t.base, name)) != nil {
		return nil, nil
	}
	entries, err := fs.ReadDir(t.FS, name)
	if err != nil {
		return nil, nil
	}
	return entries, nil
}

func (t timed) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(t.FS, name)
	if err != nil || host.Within(filepath.Join(t.base, name)) != nil {
		return nil, fs.ErrNotExist
	}
	return info, nil
}
