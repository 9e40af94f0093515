package results

import (
	"math"
	"slices"
	"strings"

	"gpurun/jobspec"
)

// A Table shows the metrics of jobs.
type Table struct {
	Raw      bool     // a row for each job, with unrounded numbers
	Params   []string // parameters that identify the rows, in order
	Columns  []Column
	Rows     []*Row
	Over     []string // parameters averaged over, the outermost first
	Pivot    string   // parameter whose values are columns, or ""
	Versus   string   // baseline of the differences, such as "algorithm=fedavg", or ""
	Err      Err
	Headline string // the best setting so far, or ""
	Files    []string
	Caption  string
	Notes    []string
	Warnings []string
}

// A Column is one metric, or the paired difference of a metric from the baseline.
type Column struct {
	Metric
	Value  string // of the pivot
	Versus bool
	Digits int // after the decimal point

	metric int
	id     int32 // of the pivot's value; -1 without a pivot
}

// several reports whether any cell sums up several jobs.
func (t *Table) several() bool {
	return slices.ContainsFunc(t.Rows, func(r *Row) bool { return slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Of > 1 }) })
}

// A Row is one setting of the parameters.
type Row struct {
	Values []string // of Params
	Cells  []Cell   // by column
	Choice *Choice  // with Options.Best and without a pivot

	ids []int32
}

// build holds the state while a table is built.
type build struct {
	*grid
	o       Options
	where   []filter
	metrics []int
	over    []int
	rows    []int // factors that identify the rows
	others  []int // factors that form the settings to choose from
	pivot   int   // -1 for none
	versus  int
	base    int32              // the baseline's value
	best    int                // metric to choose by; -1 for none
	settled map[string]*chosen // chosen setting by row and column, with best
}

// Build makes a table of the metrics of jobs.
func Build(d Data, o Options) (*Table, error) {
	if !slices.Contains([]Err{"", SD, SEM, CI95}, o.Err) {
		return nil, refuse("sd, sem or ci95", "err: unknown value %q", o.Err)
	}
	where, err := parseFilters(o.Where)
	if err != nil {
		return nil, err
	}
	g, err := newGrid(d, where)
	if err != nil {
		return nil, err
	}
	b := &build{grid: g, o: o, where: where, pivot: -1, versus: -1, best: -1}
	if b.metrics, err = g.metrics(o.Metrics); err != nil {
		return nil, err
	}
	if o.Raw {
		return b.raw()
	}
	if err := b.choose(); err != nil {
		return nil, err
	}
	buckets := b.buckets()
	for _, name := range []string{byJob, byFile} {
		if i := slices.IndexFunc(g.factors, func(f *factor) bool { return f.name == name }); i >= 0 && b.collides(buckets) && g.varies(i) && !slices.Contains(b.rows, i) {
			b.rows = append([]int{i}, b.rows...)
			buckets = b.buckets()
		}
	}
	return b.table(buckets)
}

// choose resolves the options for these jobs.
func (b *build) choose() (err error) {
	if b.o.Best != "" {
		all, _ := b.grid.metrics(nil)
		if b.best, err = b.metric(b.o.Best, all, "--best"); err != nil {
			return err
		}
		if m := b.data.Metrics[b.best]; m.Goal == jobspec.NoGoal {
			return refuse("add metrics: {"+m.Name+": {goal: max}} (or min) to the job file; no job will rerun", "--best %s: the metric has no goal (max or min)", m.Name)
		}
	}
	if b.over, err = b.overs(); err != nil {
		return err
	}
	if b.o.Pivot != "" {
		if b.pivot, err = b.find(b.o.Pivot, "--pivot"); err != nil {
			return err
		}
		if slices.Contains(b.over, b.pivot) {
			return refuse("name what to average over: --over …", "--pivot %s: the table averages over it", b.o.Pivot)
		}
	}
	if b.o.Versus != "" {
		if err := b.baseline(); err != nil {
			return err
		}
	}
	return b.chooseRows()
}

// overs returns the factors to average over.
func (b *build) overs() ([]int, error) {
	if b.o.Over != nil {
		return b.findAll(b.o.Over, "--over")
	}
	for _, name := range Seeds {
		for i, f := range b.factors[:b.params] {
			if strings.EqualFold(f.name, name) && f.name != b.o.Pivot && !slices.Contains(b.o.By, f.name) {
				return []int{i}, nil
			}
		}
	}
	return nil, nil
}

func (b *build) baseline() error {
	base, err := parseFilters([]string{b.o.Versus})
	if err != nil {
		return err
	}
	v := base[0]
	if b.versus, err = b.find(v.name, "--versus"); err != nil {
		return err
	}
	f := b.factors[b.versus]
	v.values = f.meant(v.values)
	if v.not || len(v.values) != 1 {
		return refuse("write --versus algorithm=fedavg", "--versus needs one parameter and one value")
	}
	id, known := f.ids[v.values[0]]
	switch {
	case !known:
		return refuse("values of "+v.name+": "+list(f.values, 8), "--versus %s=%s: no job has this value", v.name, v.values[0])
	case slices.Contains(b.over, b.versus):
		return refuse("name what to average over: --over …", "--versus %s: the table averages over it", v.name)
	case !b.varies(b.versus):
		return refuse("", "--versus %s=%s: no other value to compare it with", v.name, v.values[0])
	}
	b.base = id
	return nil
}

// chooseRows selects the factors that identify the rows.
func (b *build) chooseRows() error {
	taken := func(i int) bool { return i == b.pivot || slices.Contains(b.over, i) }
	var rest []int // factors that vary but are not named
	for i := range b.params {
		if !taken(i) && b.varies(i) {
			rest = append(rest, i)
		}
	}
	if b.o.By == nil && b.best < 0 {
		b.rows = rest
	} else {
		named, err := b.findAll(b.o.By, "--by")
		if err != nil {
			return err
		}
		for _, i := range named {
			if slices.Contains(b.over, i) {
				return refuse("name what to average over: --over …", "--by %s: the table averages over it", b.factors[i].name)
			}
		}
		b.rows = slices.DeleteFunc(named, func(i int) bool { return i == b.pivot })
		rest = slices.DeleteFunc(rest, func(i int) bool { return slices.Contains(b.rows, i) })
		switch {
		case b.best >= 0:
			b.others = slices.DeleteFunc(rest, func(i int) bool { return i == b.versus })
			if b.versus >= 0 && b.versus != b.pivot && !slices.Contains(b.rows, b.versus) {
				b.rows = append(b.rows, b.versus)
			}
		case len(rest) > 0:
			name := b.factors[rest[0]].name
			over := strings.Join(append(b.names(b.over), name), ",")
			return refuse("add it to --by, average over it too (--over "+over+"), or choose the best (--best METRIC)", "--by: %s varies within these rows", name)
		}
	}
	within, err := b.findAll(b.o.Within, "--within")
	if err != nil {
		return err
	}
	for _, i := range within {
		if i != b.pivot && !slices.Contains(b.rows, i) {
			return refuse("rows: "+strings.Join(b.names(b.rows), ", "), "--within %s: not a row parameter", b.factors[i].name)
		}
	}
	if b.versus >= 0 && b.versus != b.pivot && !slices.Contains(b.rows, b.versus) {
		return refuse("add it to --by", "--versus %s: not a row parameter", b.factors[b.versus].name)
	}
	return nil
}

func (b *build) names(factors []int) []string {
	names := make([]string, len(factors))
	for i, f := range factors {
		names[i] = b.factors[f].name
	}
	return names
}

// buckets groups the jobs by row, column and setting, and sorts the buckets by these.
func (b *build) buckets() []*bucket {
	named := slices.Clone(b.rows)
	if b.pivot >= 0 {
		named = append(named, b.pivot)
	}
	named = append(named, b.others...)
	index := map[string]*bucket{}
	var list []*bucket
	for n := range b.jobs {
		ids := b.ids(n, named)
		key := idKey(ids)
		x := index[key]
		if x == nil {
			x = &bucket{ids: ids}
			index[key] = x
			list = append(list, x)
		}
		x.jobs = append(x.jobs, n)
	}
	slices.SortFunc(list, func(x, y *bucket) int { return slices.Compare(x.ids, y.ids) })
	for _, x := range list {
		x.split(b.grid, b.over)
	}
	return list
}

// collides reports whether a bucket has jobs from different entries that have the same metric but
// are not repeats of each other: jobs with equal averaged parameters, or one job with a seed and
// another without.
func (b *build) collides(buckets []*bucket) bool {
	first := b.jobs[0].Entry
	if !slices.ContainsFunc(b.jobs, func(j *Job) bool { return j.Entry != first }) {
		return false
	}
	for _, x := range buckets {
		type measured struct {
			over   string
			metric int
		}
		seen, lacking := map[measured]Entry{}, map[int]string{}
		for _, n := range x.jobs {
			over, lacks := idKey(b.ids(n, b.over)), b.lacks(n)
			for _, m := range b.metrics {
				e := b.jobs[n].Entry
				if !b.has[b.jobs[n].Kind][m] {
					continue
				}
				at := measured{over, m}
				if other, twice := seen[at]; twice && other != e {
					return true
				}
				seen[at] = e
				if other, known := lacking[m]; known && other != lacks {
					return true
				}
				lacking[m] = lacks
			}
		}
	}
	return false
}

// lacks returns the averaged parameters that a job does not have.
func (b *build) lacks(job int) string {
	var names []string
	for _, f := range b.over {
		if b.factors[f].values[b.at[job][f]] == "" {
			names = append(names, b.factors[f].name)
		}
	}
	return strings.Join(names, ",")
}

// table builds the rows and columns.
func (b *build) table(buckets []*bucket) (*Table, error) {
	t := &Table{Params: b.names(b.rows), Over: b.names(b.over), Err: b.o.Err}
	if t.Err == "" {
		t.Err = SD
	}
	b.columns(t)
	if err := b.chooseBest(t, buckets); err != nil {
		return nil, err
	}
	for _, x := range buckets {
		ids := x.ids[:len(b.rows)]
		if n := len(t.Rows); n == 0 || !slices.Equal(t.Rows[n-1].ids, ids) {
			t.Rows = append(t.Rows, b.row(t, ids))
		}
		row := t.Rows[len(t.Rows)-1]
		if b.best >= 0 && b.settled[b.place(x)].bucket != x {
			continue
		}
		for i, c := range t.Columns {
			if !c.Versus && (c.id < 0 || c.id == x.ids[len(b.rows)]) {
				row.Cells[i] = x.cell(b.grid, c.metric, b.over, t.Err)
			}
		}
	}
	if b.best >= 0 && b.pivot < 0 {
		t.Params = append(t.Params, b.names(b.others)...)
		for _, r := range t.Rows {
			r.Choice = &b.settled[idKey(r.ids)].Choice
			r.Values = append(r.Values, r.Choice.Values...)
		}
	}
	if b.versus >= 0 {
		b.compare(t)
	}
	t.digits()
	b.mark(t)
	t.Caption = b.caption(t)
	b.note(t)
	b.warn(t)
	return t, t.sort(b.o.Sort)
}

// columns builds the columns: each metric for each value of the pivot.
func (b *build) columns(t *Table) {
	ids := []int32{-1}
	if b.pivot >= 0 {
		t.Pivot, ids = b.factors[b.pivot].name, nil
		for id := range b.factors[b.pivot].values {
			ids = append(ids, int32(id))
		}
	}
	for _, m := range b.metrics {
		for _, id := range ids {
			c := Column{Metric: b.data.Metrics[m], metric: m, id: id}
			if id >= 0 {
				c.Value = b.factors[b.pivot].values[id]
			}
			t.Columns = append(t.Columns, c)
			if b.versus >= 0 && (b.versus != b.pivot || id != b.base) {
				c.Versus = true
				t.Columns = append(t.Columns, c)
			}
		}
	}
}

func (b *build) row(t *Table, ids []int32) *Row {
	r := &Row{ids: ids, Values: make([]string, len(ids)), Cells: make([]Cell, len(t.Columns))}
	for i, f := range b.rows {
		r.Values[i] = b.factors[f].values[ids[i]]
	}
	for i := range r.Cells {
		r.Cells[i].Summary, r.Cells[i].Err = Summarize(nil), math.NaN()
	}
	return r
}
