package results

import (
	"fmt"
	"math"
	"slices"

	"gpurun/jobspec"
)

// A Choice is the setting with the best mean, among those for which nothing is missing.
type Choice struct {
	Metric Metric
	Values []string // of the parameters among which it was chosen
	Of     int      // settings
	Full   int      // of which nothing is missing
	By     float64  // how much better it is than the next; NaN if there is none
}

// Words says what was chosen among: "1 of 5, by 0.003".
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
		return fmt.Sprintf("none of %d is complete", c.Of)
	case math.IsNaN(c.By) && c.Of == 1:
		return "1 of 1"
	case c.Full < c.Of && math.IsNaN(c.By):
		return fmt.Sprintf("1 of %d, the only complete one", c.Of)
	case c.Full < c.Of:
		return fmt.Sprintf("1 of %d (%d complete), by %s", c.Of, c.Full, number(by, digits))
	}
	return fmt.Sprintf("1 of %d, by %s", c.Of, number(by, digits))
}

// A chosen is a choice for one row and column, while it is made.
type chosen struct {
	Choice
	bucket *bucket
	mean   float64
}

func (b *build) place(x *bucket) string {
	return idKey(x.ids[:len(x.ids)-len(b.others)])
}

// settle chooses the best setting for each row and column. Without Options.Best there is
// nothing to choose.
func (b *build) settle(t *Table, buckets []*bucket) error {
	if b.best < 0 {
		return nil
	}
	if len(b.others) == 0 {
		return refuse("leave a parameter out of --by", "--best %s: no parameter is left to choose by", b.o.Best)
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

// marks marks the best cells: in a pivoted row among its columns, else among the rows that agree
// in Within, or in all parameters but the last, unless Best has chosen settings for them that
// differ, too. Only what is complete is compared.
func (b *build) marks(t *Table) {
	for i, c := range t.Columns {
		alike := func(o Column) bool { return o.metric == c.metric && !o.Versus }
		if c.Goal == jobspec.NoGoal || c.Versus || slices.ContainsFunc(t.Columns[:i], alike) {
			continue // or its columns have been compared
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

// differ counts the parameters in which rows differ.
func differ(rows []*Row) (n int) {
	for k := range rows[0].Values {
		if slices.ContainsFunc(rows, func(r *Row) bool { return r.Values[k] != rows[0].Values[k] }) {
			n++
		}
	}
	return n
}

// mark marks the best of some cells, and those that read the same.
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
		x.Best = x.Full() && c.number(x.Mean) == c.number(best.Mean)
	}
}
