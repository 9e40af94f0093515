package results

import (
	"fmt"
	"math"
	"slices"
	"strings"

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

// A settled has the choices of all rows and columns.
type settled map[string]*chosen

func (b *build) place(x *bucket) string {
	n := len(b.rows)
	if b.pivot >= 0 {
		n++
	}
	var key []byte
	for _, id := range x.ids[:n] {
		key = appendID(key, id)
	}
	return string(key)
}

// settle chooses the best setting for each row and column. Without Options.Best there is
// nothing to choose.
func (b *build) settle(t *Table, buckets []*bucket) (settled, error) {
	if b.best < 0 {
		return nil, nil
	}
	if len(b.others) == 0 {
		return nil, refuse("leave a parameter out of --by", "--best %s: no parameter is left to choose by", b.o.Best)
	}
	all, goal := settled{}, b.data.Metrics[b.best].Goal
	for _, x := range buckets {
		at := b.place(x)
		s := all[at]
		if s == nil {
			s = &chosen{Choice: Choice{Metric: b.data.Metrics[b.best], By: math.NaN(), Values: slices.Repeat([]string{""}, len(b.others))}}
			all[at] = s
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
	for _, s := range all {
		if s.bucket != nil {
			ids := s.bucket.ids[len(s.bucket.ids)-len(b.others):]
			for i, f := range b.others {
				s.Values[i] = b.factors[f].values[ids[i]]
			}
		}
	}
	return all, nil
}

// keeps reports whether a bucket is the one that was chosen for its row and column, and
// notes the choice there.
func (s settled) keeps(x *bucket, r *Row, b *build) bool {
	c := s[b.place(x)]
	at := 0
	if b.pivot >= 0 {
		at = int(x.ids[len(b.rows)])
	}
	for len(r.choices) <= at {
		r.choices = append(r.choices, nil)
	}
	r.choices[at] = &c.Choice
	return c.bucket == x
}

// marks marks the best cells: in a pivoted row among its columns, else among the rows that
// agree in all parameters but the last. Only what is complete is compared.
func (b *build) marks(t *Table) {
	for i, c := range t.Columns {
		if c.Goal == jobspec.NoGoal || c.Versus {
			continue
		}
		if b.pivot >= 0 {
			if slices.ContainsFunc(t.Columns[:i], func(o Column) bool { return o.metric == c.metric }) {
				continue // all of its columns have been compared
			}
			for r := range t.Rows {
				var cells []*Cell
				for k := range t.Columns {
					if t.Columns[k].metric == c.metric && !t.Columns[k].Versus {
						cells = append(cells, &t.Rows[r].Cells[k])
					}
				}
				mark(cells, c)
			}
			continue
		}
		groups := map[string][]*Cell{}
		for r := range t.Rows {
			last := max(0, len(b.rows)-1)
			key := strings.Join(t.Rows[r].Values[:last], "\x00")
			groups[key] = append(groups[key], &t.Rows[r].Cells[i])
		}
		for _, cells := range groups {
			mark(cells, c)
		}
	}
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
