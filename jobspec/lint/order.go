package lint

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"gpurun/jobspec/expand"
)

// order reports jobs that read a file that another job in the batch creates, but do not wait for
// that job. It warns about missing inputs that no job creates.
func (b *batchChecker) order() {
	b.jobs(func(e *Expansion) bool {
		if len(e.Inputs) == 0 {
			return true
		}
		found, same := false, e.WorkDir == nil && len(e.Job.Needs) == 0
		for _, t := range e.Inputs {
			same = same && t.Constant()
			if path, err := b.path(e, t); err == nil && b.inputOrder(e, t, path) {
				found = true
			}
		}
		return found || same
	})
}

// inputOrder checks one input of a job, and reports whether it found a problem.
func (b *batchChecker) inputOrder(e *Expansion, t *expand.Text, path string) bool {
	by, ok := b.producers().of(path)
	glob := isGlob(path)
	switch {
	case ok && by == e.ID:
	case ok:
		p := b.Job(by)
		if b.ordered(&p, e) || b.ordered(e, &p) && b.exists(path) {
			return false
		}
		b.find(e, Order, t, glob || b.exists(path), fmt.Sprintf("add needs: [%q]", p.Name),
			"job %q reads %s but does not wait for job %q, which creates it", e.Name, path, p.Name)
		return true
	case glob || len(e.Needs) > 0 || e.Queue >= 0 || b.exists(path):
	default:
		b.find(e, Missing, t, true, "fix the path, or add the job that creates it to needs",
			"input %s does not exist, and no job in this batch creates it", path)
		return true
	}
	return false
}

// producers maps paths to the first job that creates them.
type producers struct {
	paths  map[string]int32
	sorted []string              // sorted paths; set once an input is a glob
	globs  map[string][]madeGlob // by the literal prefix of the pattern
	known  map[string]int32      // cached results
	spent  int                   // number of matches tried
}

type madeGlob struct {
	pattern string
	job     int32
}

// maxMatches bounds the total number of matches tried, because a lint must not delay a big batch.
const maxMatches = 200000

func newProducers() *producers {
	return &producers{paths: map[string]int32{}, globs: map[string][]madeGlob{}, known: map[string]int32{}}
}

// producers returns the outputs of the batch, which are collected on first use.
func (b *batchChecker) producers() *producers {
	if b.made != nil {
		return b.made
	}
	m := newProducers()
	b.made = m
	for id := range int32(b.Len) {
		e := b.Job(id)
		for _, t := range e.Outputs {
			if path, err := b.path(&e, t); err == nil {
				m.add(path, id)
			}
		}
	}
	return m
}

func (m *producers) add(path string, job int32) {
	if isGlob(path) {
		head := literalHead(path)
		m.globs[head] = append(m.globs[head], madeGlob{path, job})
	} else if _, taken := m.paths[path]; !taken {
		m.paths[path] = job
	}
}

// of returns the job that has an output equal to path, a folder that contains it, or a glob that
// matches it. If path is a glob, an output that it matches counts, too.
func (m *producers) of(path string) (int32, bool) {
	by, ok := m.known[path]
	if !ok {
		by = m.find(path)
		m.known[path] = by
	}
	return by, by >= 0
}

func (m *producers) find(path string) int32 {
	for folder := path; ; folder = filepath.Dir(folder) {
		if by, ok := m.paths[folder]; ok {
			return by
		}
		if folder == "/" || folder == "." {
			break
		}
	}
	found := int32(-1)
	try := func(pattern, path string, by int32) {
		if found >= 0 && by >= found || m.spent == maxMatches {
			return
		}
		m.spent++
		if ok, _ := doublestar.PathMatch(pattern, path); ok {
			found = by
		}
	}
	for n := range len(path) + 1 {
		for _, g := range m.globs[path[:n]] {
			try(g.pattern, path, g.job)
		}
	}
	if found < 0 && isGlob(path) {
		if m.sorted == nil {
			m.sorted = slices.Sorted(maps.Keys(m.paths))
		}
		head := literalHead(path)
		from, _ := slices.BinarySearch(m.sorted, head)
		for _, p := range m.sorted[from:] {
			if !strings.HasPrefix(p, head) {
				break
			}
			try(path, p, m.paths[p])
		}
	}
	return found
}

// literalHead returns the literal prefix that all paths matching a glob share.
func literalHead(pattern string) string {
	return pattern[:strings.IndexAny(pattern, `*?[{\`)]
}
