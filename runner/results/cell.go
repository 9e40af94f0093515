package results

import (
	"slices"
	"strconv"
	"strings"
)

// A Cell is what the jobs of a row have measured of one metric.
type Cell struct {
	Summary
	Err    float64  // what stands behind ±; NaN if n < 2
	Of     int      // how many units there would be
	Values []Sample // of the units that count
	Gaps   []Gap
	Best   bool   // of those that it is compared with
	Note   string // of a difference: "baseline", or "no pair"
}

// A Sample is one value that a mean is of.
type Sample struct {
	Unit  string  `json:"unit"` // s42
	Value float64 `json:"value"`

	set string // what was averaged within the unit; "" if nothing was
}

// A Gap is a job whose value is missing, or is not what it would be now.
type Gap struct {
	Unit    string `json:"unit"`    // s42, or s42/f3
	Why     string `json:"why"`     // failed, running, nan
	Counted bool   `json:"counted"` // its value is from before
}

// Full reports whether nothing is missing.
func (c *Cell) Full() bool { return c.Of > 0 && c.N == c.Of }

// A bucket is the jobs of one row, column and setting, in the order of the batch.
type bucket struct {
	ids   []int32  // of the row, the column and the setting
	jobs  []int    // in the grid
	units []int    // by job: the value of the outermost of what is averaged over
	names []string // of the units
	sets  []string // of each: what is averaged within it; nil if nothing is
}

// A place is the value of the outermost of what is averaged over, and which of the jobs that
// no parameter tells apart.
type place struct {
	id  int32
	nth int
}

// split groups the jobs of a bucket into units: the values of the outermost parameter that
// is averaged over. Jobs that no parameter tells apart are repeats, units of their own.
func (b *bucket) split(g *grid, over []int) {
	b.units = make([]int, len(b.jobs))
	seen, index := g.seen, g.index
	clear(seen)
	clear(index)
	for i, n := range b.jobs {
		u, ids := place{id: -1}, g.ids(n, over)
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

// label names a job among those that are averaged: s42, or s42/f3.
func (g *grid) label(n int, over []int) string {
	var parts []string
	for _, f := range over {
		first, _, _ := strings.Cut(g.factors[f].name, "_")
		parts = append(parts, strings.ToLower(first[:min(1, len(first))])+g.factors[f].values[g.at[n][f]])
	}
	return strings.Join(parts, "/")
}

// cell summarizes one metric of a bucket. A unit counts once all of its jobs have a value.
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
			c.Gaps = append(c.Gaps, Gap{g.label(n, over), why, counted})
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

// summarize sums up the values.
func (c *Cell) summarize(e Err) {
	x := make([]float64, len(c.Values))
	for i, v := range c.Values {
		x[i] = v.Value
	}
	c.Summary = Summarize(x)
	c.Err = c.Summary.Err(e)
}

// A unit adds up the jobs of one value of what is averaged over.
type unit struct {
	sum  float64
	jobs int
	bad  bool // one of them has no value
}

// why says what is wrong with a job's value, or returns "".
func (j *Job) why(metric int) string {
	switch v := j.value(metric); {
	case v.Is && v.X != v.X:
		return "nan"
	case v.Is && !finite(v.X):
		return "inf"
	case v.Is || j.State != "" && j.State != Stale:
		return j.State
	}
	return "missing"
}

// value returns what a job has measured of a metric.
func (j *Job) value(metric int) Value {
	if metric < len(j.Values) {
		return j.Values[metric]
	}
	return Value{}
}

// Stale is the state of a job that is done but would run again.
const Stale = "stale"

// gaps says in a few words what is missing: "s42 nan, s43 failed", or "8 pending".
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
