package results

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// number formats a value with the given number of digits after the decimal point. If that number is
// negative, the value gets an exponent: 1.2e-09 for -1. A value far larger than the others, such as
// the loss of a run that diverged, gets an exponent, too.
func number(x float64, digits int) string {
	if digits >= 0 && math.Abs(x) >= 1e15 {
		digits = -3
	}
	if digits < 0 {
		return strconv.FormatFloat(x, 'e', -digits, 64)
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-") // no -0.00
	}
	return s
}

// shown returns a value as users see it: as a percentage if the metric is one.
func (c *Column) shown(x float64) float64 {
	if c.Percent {
		return x * 100
	}
	return x
}

// number formats a mean.
func (c *Column) number(x float64) string {
	s := number(c.shown(x), c.Digits)
	if c.Versus && x > 0 {
		s = "+" + s
	}
	return s
}

// err formats the number after ±.
func (c *Column) err(x float64) string {
	return number(c.shown(x), max(c.Digits, -1))
}

// Title returns the column's header.
func (c *Column) Title(alone bool) string {
	unit := ""
	if c.Percent {
		unit = " (%)"
	}
	name := c.Name + unit
	if c.Value != "" && alone {
		name = c.Value
	} else if c.Value != "" {
		name = c.Name + " " + c.Value + unit
	}
	if c.Versus {
		return "Δ " + name
	}
	return name
}

// alone reports whether all columns belong to one metric, so that the values of the pivot suffice
// as headers.
func (t *Table) alone() bool {
	return !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name != t.Columns[0].Name })
}

// chosen reports whether some row has a choice to describe.
func (t *Table) chosen() bool {
	return slices.ContainsFunc(t.Rows, func(r *Row) bool { return r.Choice != nil })
}

// digits sets the number of digits of each column, so that the median deviation has two significant
// digits. If there are no deviations, the values get four significant digits.
func (t *Table) digits() {
	for i := range t.Columns {
		c := &t.Columns[i]
		var errs, means []float64
		whole := true
		for k := range t.Columns {
			if t.Columns[k].metric != c.metric || t.Columns[k].Versus != c.Versus {
				continue
			}
			for _, r := range t.Rows {
				x := &r.Cells[k]
				if x.N == 0 {
					continue
				}
				mean, e := math.Abs(c.shown(x.Mean)), c.shown(x.Err)
				if e > noise*mean {
					errs = append(errs, e)
				}
				if mean > 0 {
					means = append(means, mean)
				}
				whole = whole && mean == math.Trunc(mean) && mean < 1e15
			}
		}
		c.Digits = digitsFor(median(means), median(errs), whole)
	}
}

// noise is the relative size of deviations that are only rounding errors.
const noise = 1e-9

// Outside these powers of ten, values are written with an exponent.
const (
	leastPlain = -6
	mostPlain  = 12
)

func digitsFor(mean, err float64, whole bool) int {
	big := 0
	if mean > 0 {
		big = magnitude(mean, 4)
	}
	if big < leastPlain || big > mostPlain {
		if err > 0 {
			return -min(max(big-magnitude(err, 2)+1, 1), 9)
		}
		return -3
	}
	switch {
	case err > 0:
		return min(max(1-magnitude(err, 2), 0), 12)
	case whole:
		return 0
	}
	return min(max(3-big, 0), 12)
}

// magnitude returns the power of ten of a positive number after rounding to the given number of
// digits: with 2 digits, 0.9996 has the same power as 1.
func magnitude(x float64, digits int) int {
	_, power, _ := strings.Cut(strconv.FormatFloat(x, 'e', digits-1, 64), "e")
	n, _ := strconv.Atoi(power)
	return n
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	if n := len(x); n%2 == 0 {
		return (x[n/2-1] + x[n/2]) / 2
	}
	return x[len(x)/2]
}

// A spelling defines how a format writes the parts of a cell.
type spelling struct {
	value func(mean, err string, best bool) string // err is "" for a single value
	word  func(string) string
	nSaid bool // the caption gives n for complete cells

	several bool // some cells sum up several jobs, so n = 1 is worth saying
}

// cell formats one cell: "0.912 ± 0.004 (2/3: s42 nan)".
func (s spelling) cell(x *Cell, c *Column) string {
	if x.Of == 0 || x.Note != "" {
		return s.word(x.Note)
	}
	words := gaps(x.Gaps)
	if x.N == 0 && x.Of == 1 {
		return s.word(words)
	}
	text, err, n := s.word("–"), "", ""
	if x.N > 1 {
		err = c.err(x.Err)
	}
	if x.N > 0 {
		text = s.value(c.number(x.Mean), err, x.Best)
	}
	switch {
	case x.N < x.Of:
		n = strconv.Itoa(x.N) + "/" + strconv.Itoa(x.Of)
	case (x.Of > 1 || s.several && x.N > 0) && !(s.nSaid && words == ""):
		n = strconv.Itoa(x.N)
	}
	if words != "" && n != "" {
		n += ": "
	}
	if n += s.word(words); n != "" {
		text += " (" + n + ")"
	}
	return text
}

// cells returns the table as text, starting with the header.
func (t *Table) cells(s spelling) [][]string {
	rows := make([][]string, 0, len(t.Rows)+1)
	var head []string
	for _, name := range t.Params {
		head = append(head, s.word(name))
	}
	s.several = t.several()
	alone := t.alone()
	for i := range t.Columns {
		title := t.Columns[i].Title(alone)
		if t.Raw {
			title = t.Columns[i].Name // raw numbers are not percentages
		}
		head = append(head, s.word(title))
	}
	chosen := t.chosen()
	if chosen {
		head = append(head, "best")
	}
	rows = append(rows, head)
	for _, r := range t.Rows {
		var row []string
		for _, v := range r.Values {
			row = append(row, s.word(v))
		}
		for c := range t.Columns {
			text := r.Cells[c].raw()
			if !t.Raw {
				text = s.cell(&r.Cells[c], &t.Columns[c])
			}
			row = append(row, text)
		}
		if chosen {
			row = append(row, s.word(r.Choice.Words()))
		}
		rows = append(rows, row)
	}
	return rows
}
