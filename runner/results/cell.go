package results

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Cell summarizes one metric of the jobs of a row.
type Cell struct {
	Summary
	Err    float64  // the number after ±; NaN if n < 2
	Of     int      // number of units, with or without a value
	Values []Sample // of complete units
	Gaps   []Gap
	Best   bool   // best of the cells that it was compared with
	Note   string // of a difference: "baseline" or "no pair"
}

// A Sample is one value that goes into a mean.
type Sample struct {
	Unit  string  `json:"unit"` // s42
	Value float64 `json:"value"`

	set string // identifies the jobs averaged within the unit; "" if it has only one
}

// A Gap is a job whose value is missing or outdated.
type Gap struct {
	Unit    string `json:"unit"`    // s42, or s42/f3
	Why     string `json:"why"`     // failed, running, nan
	Counted bool   `json:"counted"` // an outdated value is included in the mean

	final bool // no run will change it: the job was pruned, or is done without a finite value
}

// Full reports whether no value is missing.
func (c *Cell) Full() bool { return c.Of > 0 && c.N == c.Of }

// open reports whether a run may still change the cell.
func (c *Cell) open() bool {
	return slices.ContainsFunc(c.Gaps, func(g Gap) bool { return !g.final && !g.Counted })
}

// A bucket holds the jobs of one row, column and setting, in the order of the batch.
type bucket struct {
	ids   []int32  // IDs of the values of row, column and setting
	jobs  []int    // indices in the grid
	units []int    // unit of each job
	names []string // name of each unit
	sets  []string // jobs averaged within each unit; nil if every unit has one job
}

// A unitKey identifies a unit by its value of the outermost averaged parameter, and by a number
// that tells apart jobs with the same parameters.
type unitKey struct {
	id  int32
	nth int
}

// split groups the jobs of a bucket into units, one for each value of the outermost parameter that
// is averaged over. Jobs with the same parameters are repeats, each a unit of its own.
func (b *bucket) split(g *grid, over []int) {
	b.units = make([]int, len(b.jobs))
	seen, index := g.seen, g.index
	clear(seen)
	clear(index)
	for i, n := range b.jobs {
		u, ids := unitKey{id: -1}, g.ids(n, over)
		if len(over) > 0 {
			u.id = ids[0]
		}
		tuple := idKey(ids) + g.jobs[n].Entry.Name
		u.nth = seen[tuple]
		seen[tuple]++
		at, known := index[u]
		if !known {
			at = len(b.names)
			index[u] = at
			b.names = append(b.names, g.label(n, over[:min(1, len(over))]))
			if len(over) > 1 {
				b.sets = append(b.sets, "")
			}
		}
		if len(over) > 1 {
			b.sets[at] += tuple[4:]
		}
		b.units[i] = at
	}
}

// label names a job among the averaged jobs: s42, or s42/f3. It returns "" if the job has none of the
// parameters.
func (g *grid) label(n int, over []int) string {
	var parts []string
	for _, f := range over {
		if g.factors[f].values[g.at[n][f]] == "" {
			continue
		}
		first, _, _ := strings.Cut(g.factors[f].name, "_")
		parts = append(parts, strings.ToLower(first[:min(1, len(first))])+g.factors[f].values[g.at[n][f]])
	}
	return strings.Join(parts, "/")
}

// cell summarizes one metric of a bucket. A unit counts only if all its jobs have a value.
func (b *bucket) cell(g *grid, metric int, over []int, e Err) Cell {
	g.units = append(g.units[:0], make([]unit, len(b.names))...)
	c, units := Cell{}, g.units
	for i, n := range b.jobs {
		j, u := g.jobs[n], &units[b.units[i]]
		if !g.has[j.Kind][metric] {
			continue
		}
		if u.jobs++; u.jobs == 1 {
			c.Of++
		}
		why := j.why(metric)
		v := j.value(metric)
		counted := why == j.State && v.Is
		if counted {
			u.sum += v.X
		} else {
			u.bad = true
		}
		if why != "" {
			c.Gaps = append(c.Gaps, Gap{g.label(n, over), why, counted, j.State == "" || j.State == pruned})
		}
	}
	c.Values = make([]Sample, 0, c.Of)
	for i, u := range units {
		if u.jobs == 0 || u.bad {
			continue
		}
		v := Sample{Unit: b.names[i], Value: u.sum / float64(u.jobs)}
		if b.sets != nil {
			v.set = b.sets[i]
		}
		c.Values = append(c.Values, v)
	}
	c.summarize(e)
	return c
}

// summarize computes the mean and deviation of the values.
func (c *Cell) summarize(e Err) {
	x := make([]float64, len(c.Values))
	for i, v := range c.Values {
		x[i] = v.Value
	}
	c.Summary = Summarize(x)
	c.Err = c.Summary.Err(e)
}

// A unit sums up the jobs with one value of the outermost averaged parameter.
type unit struct {
	sum  float64
	jobs int
	bad  bool // one of the jobs has no value
}

// why returns the reason why a job has no valid value of a metric, or "".
func (j *Job) why(metric int) string {
	switch v := j.value(metric); {
	case v.Is && v.X != v.X:
		return "nan"
	case v.Is && math.IsInf(v.X, -1):
		return "-inf"
	case v.Is && !finite(v.X):
		return "inf"
	case v.Is || j.State != "" && j.State != Stale:
		return j.State
	}
	return "missing"
}

// value returns a job's value of a metric.
func (j *Job) value(metric int) Value {
	if metric < len(j.Values) {
		return j.Values[metric]
	}
	return Value{}
}

// Stale is the state of a job that has succeeded but would run again.
const Stale = "stale"

// pruned is the state of a job that was stopped because it fell behind; runs do not repeat it.
const pruned = "pruned"

// gaps describes missing values: "s42 nan, s43 failed", or "8 pending".
func gaps(list []Gap) string {
	var words []string
	byWhy := map[string][]string{}
	for _, x := range list {
		if byWhy[x.Why] == nil {
			words = append(words, x.Why)
		}
		byWhy[x.Why] = append(byWhy[x.Why], x.Unit)
	}
	for i, why := range words {
		switch units := byWhy[why]; {
		case units[0] == "" && len(units) == 1:
		case len(units) > 3 || slices.Contains(units, ""):
			words[i] = strconv.Itoa(len(units)) + " " + why
		default:
			words[i] = strings.Join(units, ",") + " " + why
		}
	}
	return strings.Join(words, ", ")
}
