package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// A pattern such as /**/x crosses the whole file system, and links in it lead around
// in circles: no search goes on for ever.
const (
	searchOne = 30 * time.Second // for one pattern, when a job starts or has ended
	lookOne   = 5 * time.Second  // when all jobs are judged, before anything starts
	lookAll   = 15 * time.Second // all searches together that find no end there
	lookLeast = 100 * time.Millisecond
)

// GaveUp is a search that found nothing in its time, and was not at its end.
type GaveUp struct {
	Pattern string
	After   time.Duration
}

func (e *GaveUp) Error() string {
	return fmt.Sprintf("%s: no match after searching for %s; name the folder that it is in", e.Pattern, e.After)
}

// short is the message with the pattern as a person writes it.
func (e *GaveUp) short(dir string) string {
	return (&GaveUp{Short(dir, e.Pattern), e.After}).Error()
}

// A Search looks for what patterns match, each for a limited time.
type Search struct {
	one  time.Duration
	all  time.Duration // 0 for no bound on all together
	lost atomic.Int64  // time spent on patterns that it gave up
}

func newSearch() *Search { return &Search{one: searchOne} }

// NewLook is a Search for judging many jobs before anything starts.
func NewLook() *Search { return &Search{one: lookOne, all: lookAll} }

// limit is how long the next search may take: after some that came to nothing there
// is little time left, but enough for an ordinary pattern.
func (s *Search) limit() time.Duration {
	if s.all == 0 {
		return s.one
	}
	return max(lookLeast, min(s.one, s.all-time.Duration(s.lost.Load())))
}

// MissingOutput is the first pattern that matches nothing, or "". A search that gave
// up has found nothing.
func MissingOutput(patterns []string) (pattern string, err error) {
	return newSearch().Missing(patterns)
}

// Missing is the first pattern that matches nothing, or "", with GaveUp where it was
// not looked for everywhere.
func (s *Search) Missing(patterns []string) (pattern string, err error) {
	for _, p := range patterns {
		if ok, err := s.matches(p); !ok {
			return p, err
		}
	}
	return "", nil
}

// matches says whether a pattern has a match. A link that leads nowhere is none.
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

// glob is every path that a pattern matches, in order.
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

// walk calls f for what a glob matches until that returns SkipAll.
func (s *Search) walk(pattern string, f func(path string) error) error {
	if !isGlob(pattern) {
		return nil
	}
	limit, begin := s.limit(), time.Now()
	base, rest := split(pattern)
	err := doublestar.GlobWalk(timed{os.DirFS(base), begin.Add(limit)}, rest, func(path string, _ fs.DirEntry) error {
		return f(filepath.Join(base, path))
	}, doublestar.WithFailOnIOErrors())
	if errors.Is(err, errTime) {
		s.lost.Add(int64(time.Since(begin)))
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

var errTime = errors.New("the time for the search is over")

// timed is a file system that reads no folder after a certain time. What may not be
// read has nothing in it.
type timed struct {
	fs.FS
	end time.Time
}

func (t timed) ReadDir(name string) ([]fs.DirEntry, error) {
	if time.Now().After(t.end) {
		return nil, errTime
	}
	entries, err := fs.ReadDir(t.FS, name)
	if err != nil {
		return nil, nil
	}
	return entries, nil
}

func (t timed) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(t.FS, name)
	if err != nil {
		return nil, fs.ErrNotExist
	}
	return info, nil
}
