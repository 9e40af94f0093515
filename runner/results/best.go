package results

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec"
	"gpurun/state"
)

// A Choice is the complete setting with the best mean.
type Choice struct {
	Metric Metric
	Values []string // of the parameters that form a setting
	Of     int      // number of settings
	Full   int      // number of complete settings
	By     float64  // lead over the second best; NaN if there is none
}

// Words describes the choice: "1 of 5, by 0.003".
func (c *Choice) Words() string {
	if c == nil {
		return ""
	}
	by := c.By
	if c.Metric.Percent {
		by *= 100
	}
	digits := digitsFor(by, by, false)
	switch {
	case c.Full == 0:
		return fmt.Sprintf("none of %d complete", c.Of)
	case math.IsNaN(c.By) && c.Of == 1:
		return "1 of 1"
	case c.Full < c.Of && math.IsNaN(c.By):
		return fmt.Sprintf("1 of %d, the only complete one", c.Of)
	case c.Full < c.Of:
		return fmt.Sprintf("1 of %d (%d complete), by %s", c.Of, c.Full, number(by, digits))
	}
	return fmt.Sprintf("1 of %d, by %s", c.Of, number(by, digits))
}

// A chosen is the best setting so far for one row and column.
type chosen struct {
	Choice
	bucket *bucket
	mean   float64
}

func (b *build) place(x *bucket) string {
	return idKey(x.ids[:len(x.ids)-len(b.others)])
}

// chooseBest chooses the best setting for each row and column. It does nothing without Options.Best.
func (b *build) chooseBest(t *Table, buckets []*bucket) error {
	if b.best < 0 {
		return nil
	}
	if len(b.others) == 0 {
		return refuse("remove a parameter from --by", "--best %s: no parameters left to choose from", b.o.Best)
	}
	b.settled = map[string]*chosen{}
	goal := b.data.Metrics[b.best].Goal
	for _, x := range buckets {
		at := b.place(x)
		s := b.settled[at]
		if s == nil {
			s = &chosen{Choice: Choice{Metric: b.data.Metrics[b.best], By: math.NaN(), Values: make([]string, len(b.others))}}
			b.settled[at] = s
		}
		c := x.cell(b.grid, b.best, b.over, t.Err)
		if c.Of == 0 {
			continue
		}
		s.Of++
		if !c.Full() {
			continue
		}
		s.Full++
		switch gap := math.Abs(c.Mean - s.mean); {
		case s.bucket == nil:
			s.bucket, s.mean = x, c.Mean
		case better(goal, c.Mean, s.mean):
			s.bucket, s.mean, s.By = x, c.Mean, gap
		case math.IsNaN(s.By) || gap < s.By:
			s.By = gap
		}
	}
	for _, s := range b.settled {
		if s.bucket != nil {
			ids := s.bucket.ids[len(s.bucket.ids)-len(b.others):]
			for i, f := range b.others {
				s.Values[i] = b.factors[f].values[ids[i]]
			}
		}
	}
	return nil
}

// datasets are the names of parameters that identify a data set. Settings are compared only within
// a data set.
var datasets = []string{"dataset", "data", "task", "benchmark", "env"}

// A rival is a cell that competes with other cells of its metric for the best value.
type rival struct {
	*Cell
	row    *Row
	column *Column
}

// values returns the rival's parameter values, then its pivot value.
func (x *rival) values() []string { return append(slices.Clone(x.row.Values), x.column.Value) }

// mark marks the best cells of each metric that has a goal, and the cells whose intervals overlap
// theirs. It compares only complete cells that agree in the parameters in Within, by default the data
// set. If a pivoted table shows none of these parameters, each row's cells compete only with each
// other. The headline names the best cells of one metric.
func (b *build) mark(t *Table) {
	names := append(slices.Clone(t.Params), t.Pivot)
	on := slices.IndexFunc(b.factors[:b.params], func(f *factor) bool { return slices.Contains(datasets, strings.ToLower(f.name)) })
	within := b.o.Within
	if within == nil && on >= 0 {
		within = []string{b.factors[on].name}
	}
	named := slices.ContainsFunc(within, func(name string) bool { return slices.Contains(names, name) })
	for m, c := range t.Columns {
		ofMetric := func(o Column) bool { return o.metric == c.metric && !o.Versus }
		if c.Goal == jobspec.NoGoal || c.Versus || slices.ContainsFunc(t.Columns[:m], ofMetric) {
			continue // nothing to compare, or this metric has been compared
		}
		var order []string
		groups := map[string][]rival{}
		for _, r := range t.Rows {
			for k := range t.Columns {
				x := rival{&r.Cells[k], r, &t.Columns[k]}
				if !ofMetric(*x.column) || x.Of == 0 {
					continue
				}
				key := ""
				for p, value := range x.values() {
					if slices.Contains(within, names[p]) || !named && b.pivot >= 0 && p < len(x.row.Values) {
						key += value + "\x00"
					}
				}
				if groups[key] == nil {
					order = append(order, key)
				}
				groups[key] = append(groups[key], x)
			}
		}
		var winners []rival
		open := 0
		for _, key := range order {
			var best *rival
			several := slices.ContainsFunc(groups[key], func(x rival) bool { return x.N > 1 })
			counts := func(x rival) bool { return x.Full() && (x.N > 1 || !several) } // a single value may be luck
			for i, x := range groups[key] {
				if x.open() {
					open++
				}
				switch {
				case !counts(x):
				case best == nil || better(c.Goal, x.Mean, best.Mean):
					best = &groups[key][i]
				}
			}
			if best == nil || len(groups[key]) < 2 {
				continue
			}
			winners = append(winners, *best)
			for _, x := range groups[key] {
				x.Best = counts(x) && (c.number(x.Mean) == c.number(best.Mean) || math.Abs(x.Mean-best.Mean) <= x.Err+best.Err)
			}
		}
		if len(winners) > 0 && t.Headline == "" && (b.best < 0 || c.metric == b.best) {
			t.Headline = b.headline(t, names, winners, on, open)
		}
	}
}

// headline names the best settings: "best so far: resnet18, lr 0.1: 92.45 ± 0.42 on cifar10;
// 3 settings incomplete".
func (b *build) headline(t *Table, names []string, best []rival, on, open int) string {
	head, more := "best", ""
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Goal != jobspec.NoGoal && c.metric != best[0].column.metric }) {
		head += " " + best[0].column.Name
	}
	if open > 0 {
		head, more = head+" so far", fmt.Sprintf("; %s incomplete", state.Count(open, "setting"))
	}
	var settings []string
	for _, x := range best[:min(len(best), 3)] {
		var words []string
		where := ""
		if on >= 0 && !b.varies(on) {
			where = " on " + b.factors[on].values[0]
		}
		for p, value := range x.values() {
			if _, err := strconv.ParseFloat(value, 64); on >= 0 && names[p] == b.factors[on].name {
				where = " on " + value
			} else if err == nil {
				words = append(words, names[p]+" "+value)
			} else if value != "" {
				words = append(words, value)
			}
		}
		settings = append(settings, strings.Join(words, ", ")+": "+x.column.text(x.Cell)+where)
	}
	return head + ": " + strings.Join(settings, "; ") + more
}
