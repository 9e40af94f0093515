package results

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec"
)

// A Choice is the setting with the best mean among the complete ones.
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

// marks marks the best cells among complete ones. With a pivot, it compares the columns of a row.
// Otherwise it compares rows that agree in Within, or by default in all parameters but the last,
// unless Best chose settings for them that differ too.
func (b *build) marks(t *Table) {
	for i, c := range t.Columns {
		alike := func(o Column) bool { return o.metric == c.metric && !o.Versus }
		if c.Goal == jobspec.NoGoal || c.Versus || slices.ContainsFunc(t.Columns[:i], alike) {
			continue // or this metric has been compared
		}
		groups := map[string][]*Row{}
		for r := range t.Rows {
			key := ""
			for k := range b.rows {
				if b.pivot >= 0 || b.o.Within == nil && k < len(b.rows)-1 || slices.Contains(b.o.Within, t.Params[k]) {
					key += t.Rows[r].Values[k] + "\x00"
				}
			}
			groups[key] = append(groups[key], &t.Rows[r])
		}
		for _, rows := range groups {
			if b.pivot < 0 && b.o.Within == nil && differ(rows) > 1 {
				continue
			}
			var cells []*Cell
			for _, r := range rows {
				for k := range t.Columns {
					if alike(t.Columns[k]) {
						cells = append(cells, &r.Cells[k])
					}
				}
			}
			mark(cells, c)
		}
	}
}

// differ counts the parameters whose values differ between rows.
func differ(rows []*Row) (n int) {
	for k := range rows[0].Values {
		if slices.ContainsFunc(rows, func(r *Row) bool { return r.Values[k] != rows[0].Values[k] }) {
			n++
		}
	}
	return n
}

// mark marks the best of some cells, and those whose intervals overlap with it.
func mark(cells []*Cell, c Column) {
	var best *Cell
	full := 0
	for _, x := range cells {
		if !x.Full() {
			continue
		}
		if full++; best == nil || better(c.Goal, x.Mean, best.Mean) {
			best = x
		}
	}
	if full < 2 {
		return
	}
	for _, x := range cells {
		x.Best = x.Full() && (c.number(x.Mean) == c.number(best.Mean) || math.Abs(x.Mean-best.Mean) <= x.Err+best.Err)
	}
}

// datasets are the names of parameters that identify a data set. Settings are compared only within
// a data set.
var datasets = []string{"dataset", "data", "task", "benchmark", "env"}

// headline returns the best setting on each data set: "best so far: resnet18, lr 0.1: 92.45 ± 0.42
// on cifar10; 3 settings incomplete". It is empty if there is nothing to compare.
func (b *build) headline(t *Table) string {
	m := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Goal != jobspec.NoGoal && (b.best < 0 || c.metric == b.best) })
	on := slices.IndexFunc(b.factors[:b.params], func(f *factor) bool { return slices.Contains(datasets, strings.ToLower(f.name)) })
	type candidate struct {
		*Cell
		words string
	}
	best, names, open, all := map[string]candidate{}, []string{}, 0, 0
	for i := 0; m >= 0 && i < len(t.Rows); i++ {
		for k, x := range t.Rows[i].Cells {
			c, where, words := &t.Columns[k], "", []string{}
			if c.metric != t.Columns[m].metric || c.Versus || x.Of == 0 {
				continue
			}
			if all++; !x.Full() {
				open++
			}
			if on >= 0 && !b.varies(on) {
				where = " on " + b.factors[on].values[0]
			}
			for p, value := range append(slices.Clone(t.Rows[i].Values), c.Value) {
				name := append(slices.Clone(t.Params), t.Pivot)[p]
				if _, err := strconv.ParseFloat(value, 64); on >= 0 && name == b.factors[on].name {
					where = " on " + value
				} else if err == nil {
					words = append(words, name+" "+value)
				} else if value != "" {
					words = append(words, value)
				}
			}
			was, known := best[where]
			if x.N == 0 || known && (was.Full() && !x.Full() || was.Full() == x.Full() && !better(c.Goal, x.Mean, was.Mean)) {
				continue
			}
			if best[where] = (candidate{&x, strings.Join(words, ", ") + ": " + c.text(&x) + where}); !known {
				names = append(names, where)
			}
		}
	}
	if len(names) == 0 || all == len(names) {
		return ""
	}
	head, more := "best", ""
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Goal != jobspec.NoGoal && c.metric != t.Columns[m].metric }) {
		head += " " + t.Columns[m].Name
	}
	if open > 0 {
		head, more = head+" so far", fmt.Sprintf("; %d setting%s incomplete", open, map[bool]string{false: "s"}[open == 1])
	}
	for i, where := range names {
		names[i] = best[where].words
	}
	return head + ": " + strings.Join(names[:min(len(names), 3)], "; ") + more
}
