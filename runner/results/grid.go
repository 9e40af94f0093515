package results

import (
	"encoding/binary"
	"slices"
	"strings"

	"gpurun/jobspec"
)

// Names of the factors for the job and the file, which tell jobs apart where parameters do not.
const (
	byJob  = "job"
	byFile = "file"
)

// A factor is a parameter and its values in the jobs, in the order of the batch.
type factor struct {
	name   string
	values []string
	ids    map[string]int32
}

func (f *factor) id(value string) int32 {
	id, known := f.ids[value]
	if !known {
		id = int32(len(f.values))
		f.ids[value] = id
		f.values = append(f.values, value)
	}
	return id
}

// meant returns the values that an option such as hidden=64,64 means: the whole text, if a job has
// that value, or else the separate values.
func (f *factor) meant(values []string) []string {
	if whole := strings.Join(values, ","); slices.Contains(f.values, whole) {
		return []string{whole}
	}
	return values
}

// A grid holds the selected jobs and the IDs of their factors' values.
type grid struct {
	data    Data
	jobs    []*Job
	factors []*factor
	params  int       // number of factors that are parameters, which come first
	at      [][]int32 // by job, by factor
	has     map[uint64][]bool
	units   []unit // reused for each cell

	seen  map[string]int // reused for each bucket that is split
	index map[unitKey]int
}

// newGrid selects the jobs that have metrics and pass the filters.
func newGrid(d Data, where []filter) (*grid, error) {
	g := &grid{data: d, has: map[uint64][]bool{}, seen: map[string]int{}, index: map[unitKey]int{}}
	for i := range d.Jobs {
		j := &d.Jobs[i]
		has := g.has[j.Kind]
		if has == nil {
			has = make([]bool, len(d.Metrics))
			g.has[j.Kind] = has
		}
		for m := range j.Values {
			has[m] = has[m] || j.Values[m].Is
		}
		for m := range j.Named {
			has[m] = has[m] || j.Named[m]
		}
	}
	for i := range d.Jobs {
		if slices.Contains(g.has[d.Jobs[i].Kind], true) {
			g.jobs = append(g.jobs, &d.Jobs[i])
		}
	}
	if len(g.jobs) == 0 {
		none := refuse("let the jobs write {\"acc\": 0.93} to $GPURUN_RESULT, or read numbers from their logs and files: metrics: {acc: 'acc = (\\S+)'}; no job will rerun",
			"no job has a metric")
		none.Empty = true
		return nil, none
	}
	g.number()
	for _, f := range where {
		if err := g.filter(f); err != nil {
			return nil, err
		}
	}
	if len(where) > 0 {
		g.number()
	}
	return g, nil
}

// number assigns an ID to each value of each factor.
func (g *grid) number() {
	g.factors, g.at = nil, make([][]int32, len(g.jobs))
	index := map[string]int{}
	add := func(name string) {
		if _, known := index[name]; !known {
			index[name] = len(g.factors)
			g.factors = append(g.factors, &factor{name: name, ids: map[string]int32{}})
		}
	}
	for _, j := range g.jobs { // parameters first, because they may use the other factors' names
		for _, p := range j.Params {
			add(p.Name)
		}
	}
	g.params = len(g.factors)
	add(byFile)
	add(byJob)
	for n, j := range g.jobs {
		row := make([]int32, len(g.factors))
		for i := range row {
			row[i] = -1
		}
		for _, p := range j.Params {
			i := index[p.Name]
			row[i] = g.factors[i].id(p.Value)
		}
		for i, f := range g.factors {
			switch {
			case row[i] >= 0:
			case i < g.params:
				row[i] = f.id("")
			case f.name == byFile:
				row[i] = f.id(j.Entry.File)
			default:
				row[i] = f.id(j.Entry.Name)
			}
		}
		g.at[n] = row
	}
}

// find returns the index of a factor. what is the option that names the factor, for error messages.
func (g *grid) find(name, what string) (int, error) {
	if i := slices.IndexFunc(g.factors, func(f *factor) bool { return f.name == name }); i >= 0 {
		return i, nil
	}
	var known []string
	for _, f := range g.factors[:g.params] {
		known = append(known, f.name)
	}
	hint := "these jobs have no parameters"
	if len(known) > 0 {
		hint = "parameters: " + strings.Join(known, ", ")
	}
	return 0, refuse(hint, "%s: no job has a parameter %q", what, name)
}

func (g *grid) findAll(names []string, what string) ([]int, error) {
	var list []int
	for _, name := range names {
		i, err := g.find(name, what)
		if err != nil {
			return nil, err
		}
		if slices.Contains(list, i) {
			return nil, refuse("list it once", "%s: %s is listed twice", what, name)
		}
		list = append(list, i)
	}
	return list, nil
}

// filter removes the jobs that a filter rejects.
func (g *grid) filter(f filter) error {
	at, err := g.find(f.name, "--where")
	if err != nil {
		return err
	}
	fac := g.factors[at]
	f.values = fac.meant(f.values)
	for _, v := range f.values {
		if _, known := fac.ids[v]; !known {
			return refuse("values of "+f.name+": "+list(fac.values, 8), "--where %s=%s: no job has this value", f.name, v)
		}
	}
	var jobs []*Job
	var rows [][]int32
	for n, j := range g.jobs {
		if slices.Contains(f.values, fac.values[g.at[n][at]]) != f.not {
			jobs, rows = append(jobs, j), append(rows, g.at[n])
		}
	}
	if len(jobs) == 0 {
		return refuse("", "--where matches no job")
	}
	g.jobs, g.at = jobs, rows
	return nil
}

// list joins the first few words.
func list(words []string, most int) string {
	if more := len(words) - most; more > 0 {
		return strings.Join(words[:most], ", ") + ", …"
	}
	return strings.Join(words, ", ")
}

// varies reports whether jobs differ in a factor.
func (g *grid) varies(i int) bool { return len(g.factors[i].values) > 1 }

// metrics returns the indices of the named metrics, or by default of all that jobs have.
func (g *grid) metrics(names []string) ([]int, error) {
	var show, known []int
	for m := range g.data.Metrics {
		if slices.ContainsFunc(g.jobs, func(j *Job) bool { return g.has[j.Kind][m] }) {
			known = append(known, m)
		}
	}
	if names == nil {
		return known, nil
	}
	for _, name := range names {
		m, err := g.metric(name, known, "--metric")
		if err != nil {
			return nil, err
		}
		show = append(show, m)
	}
	return show, nil
}

func (g *grid) metric(name string, known []int, what string) (int, error) {
	var words []string
	for _, m := range known {
		if g.data.Metrics[m].Name == name {
			return m, nil
		}
		words = append(words, g.data.Metrics[m].Name)
	}
	return 0, refuse("metrics: "+list(words, 12), "%s: no job has a metric %q", what, name)
}

// better reports whether a is better than b.
func better(goal jobspec.Goal, a, b float64) bool {
	return goal == jobspec.Max && a > b || goal == jobspec.Min && a < b
}

// ids returns the value IDs of a job for some factors.
func (g *grid) ids(job int, factors []int) []int32 {
	ids := make([]int32, len(factors))
	for i, f := range factors {
		ids[i] = g.at[job][f]
	}
	return ids
}

func idKey(ids []int32) string {
	var key []byte
	for _, id := range ids {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	return string(key)
}
