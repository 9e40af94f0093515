package jobspec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// link assigns jobs to queues, resolves needs and refuses cycles.
func (l *loader) link() {
	l.queues()
	g := &grapher{loader: l, sets: map[string]*needSet{}, sorted: make([][]int32, len(l.files))}
	for i := range l.batch.Jobs {
		j := &l.batch.Jobs[i]
		if t := j.Spec.text; len(t.Needs) > 0 {
			j.Needs = g.needs(j, j.values())
		}
	}
	l.cycles()
}

// cycles reports jobs that wait for each other, through needs or through the order of a queue.
func (l *loader) cycles() {
	jobs := l.batch.Jobs
	last := make([]int32, len(l.batch.Queues)) // one more than the ID of each queue's last job so far; 0 for none
	before := make([]int32, len(jobs))
	for i := range jobs {
		before[i] = -1
		if q := jobs[i].Queue; q >= 0 {
			before[i], last[q] = last[q]-1, int32(i)+1
		}
	}
	found := 0
	findCycles(jobs, before, func(cycle []int32) bool {
		hint := ""
		var names []string
		for i, id := range cycle {
			if before[id] == cycle[(i+1)%len(cycle)] {
				hint = "jobs in a queue run one at a time, in file order"
			}
			names = append(names, jobs[id].Name)
		}
		if n := len(names); n > 10 {
			names = append(names[:8], fmt.Sprintf("… (%d more)", n-8))
		}
		j := &jobs[cycle[0]]
		t := j.Spec.text
		line, col := t.Line, t.Col
		if len(t.Needs) > 0 {
			line, col = t.Needs[0].Line, t.Needs[0].Col
		}
		l.files[j.File].src.Problem(line, col, hint, "these jobs wait for each other: %s", strings.Join(append(names, j.Name), " → "))
		found++
		return found < 10
	})
}

func (l *loader) queues() {
	b := l.batch
	index := map[string]int32{}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		t := j.Spec.text.Queue
		if t == nil {
			continue
		}
		q := b.queueKey(j.File, t.Render(j.values()))
		at, ok := index[q]
		if !ok {
			at = int32(len(b.Queues))
			index[q] = at
			b.Queues = append(b.Queues, q)
		}
		j.Queue = at
	}
}

// A grapher resolves needs. A list of needs shared by many jobs is resolved once into a shared
// slice.
type grapher struct {
	*loader
	sets   map[string]*needSet // by file and patterns
	sorted [][]int32           // job IDs of each file, sorted by name; built when a glob needs them
}

// A needSet is the set of jobs that a needs list matches. The same list in another file has a set
// of its own.
type needSet struct {
	ids  []int32
	self int32 // the first job of the set that itself needs the set, or -1
	told bool
}

// needs resolves a job's needs. A pattern never matches the job itself. But two jobs that need the
// same list, and that both match it, wait for each other, which is an error.
func (g *grapher) needs(j *Job, v *expand.Values) []int32 {
	set := g.set(j, v)
	at, self := slices.BinarySearch(set.ids, int32(j.ID))
	switch {
	case !self:
		return set.ids
	case set.self < 0:
		set.self = int32(j.ID)
		return slices.Delete(slices.Clone(set.ids), at, at+1)
	case !set.told:
		set.told = true
		t, other := j.Spec.text.Needs[0], g.batch.Jobs[set.self].Name
		g.files[j.File].src.Problem(t.Line, t.Col, "", "these jobs wait for each other: %s → %s → %s", other, j.Name, other)
	}
	return nil
}

func (g *grapher) set(j *Job, v *expand.Values) *needSet {
	t := j.Spec.text
	key := strconv.Itoa(j.File)
	for _, need := range t.Needs {
		key += "\x00" + need.Render(v)
	}
	if set := g.sets[key]; set != nil {
		return set
	}
	set := &needSet{self: -1}
	g.sets[key] = set
	for _, need := range t.Needs {
		set.ids = append(set.ids, g.pattern(j, need, need.Render(v))...)
	}
	slices.Sort(set.ids)
	set.ids = slices.Clip(slices.Compact(set.ids))
	return set
}

// pattern returns the jobs that one entry of needs matches.
func (g *grapher) pattern(j *Job, t *expand.Text, spelt string) []int32 {
	f := g.files[j.File]
	name := spelt
	if file, rest, ok := strings.Cut(spelt, ":"); ok {
		other := g.otherFile(f, file)
		if other == nil {
			f.src.Problem(t.Line, t.Col, "name it on the command line too: gpurun "+f.src.Path+" "+file, "needs: %q is not a file of this batch", file)
			return nil
		}
		f, name = other, rest
	}
	id, ok := f.called[name]
	if f.partial && (IsGlob(name) || !ok) {
		return nil // the file's invalid jobs were reported
	}
	if !IsGlob(name) {
		switch {
		case ok && int(id) == j.ID:
			g.files[j.File].src.Problem(t.Line, t.Col, "remove it", "%q needs itself", j.Name)
		case ok:
			return []int32{id}
		default:
			g.files[j.File].src.Problem(t.Line, t.Col, g.nearestJob(f, name), "needs: %s has no job %q", f.src.Path, source.Clip(name))
		}
		return nil
	}
	set := g.glob(f, name)
	if len(set) == 0 {
		g.files[j.File].src.Problem(t.Line, t.Col, g.nearestJob(f, strings.Trim(name, "*")), "needs: no job in %s matches %q", f.src.Path, source.Clip(name))
	}
	return set
}

func (g *grapher) nearestJob(f *fileJobs, name string) string {
	own := g.batch.Files[f.index]
	jobs := g.batch.Jobs[own.First:][:own.Count]
	for _, k := range jobs {
		if strings.HasPrefix(k.Name, name+"-") && k.Spec.text.Matrix.Count() > 1 {
			return fmt.Sprintf("its matrix expands to %q and others: write %q", k.Name, name+"-*")
		}
	}
	var known []string
	for _, k := range jobs[:min(len(jobs), 5000)] {
		known = append(known, k.Name)
	}
	return source.DidYouMean(name, known, "")
}

// otherFile finds a file of the batch by its path, which may be relative to f or as given on the
// command line, or by its base name if that is unique.
func (g *grapher) otherFile(f *fileJobs, path string) *fileJobs {
	abs := path
	if !filepath.IsAbs(path) {
		abs = filepath.Join(f.src.Dir, path)
	}
	real, _ := filepath.EvalSymlinks(abs)
	for _, o := range g.files {
		if o.src.Real == real || o.src.Path == path {
			return o
		}
	}
	var found *fileJobs
	for _, o := range g.files {
		if filepath.Base(o.src.Path) == path {
			if found != nil {
				return nil
			}
			found = o
		}
	}
	return found
}

// glob returns the jobs in a file whose names match. It narrows the search by the pattern's literal
// prefix, so that one pattern per job does not take quadratic time.
func (g *grapher) glob(f *fileJobs, pattern string) []int32 {
	name := func(id int32) string { return g.batch.Jobs[id].Name }
	ids := g.sorted[f.index]
	if ids == nil {
		own := g.batch.Files[f.index]
		for id := own.First; id < own.First+own.Count; id++ {
			ids = append(ids, int32(id))
		}
		slices.SortFunc(ids, func(a, b int32) int { return strings.Compare(name(a), name(b)) })
		g.sorted[f.index] = ids
	}
	head := pattern[:strings.IndexAny(pattern, "*?[")]
	from, _ := slices.BinarySearchFunc(ids, head, func(id int32, head string) int { return strings.Compare(name(id), head) })
	var set []int32
	matches := Glob(pattern).MatchString
	for _, id := range ids[from:] {
		if !strings.HasPrefix(name(id), head) {
			break
		}
		if matches(name(id)) {
			set = append(set, id)
		}
	}
	return set
}
