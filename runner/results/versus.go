package results

import (
	"slices"
	"strings"
)

// compare fills the columns of differences from the baseline.
func (b *build) compare(t *Table) {
	t.Versus = b.factors[b.versus].name + "=" + b.factors[b.versus].values[b.base]
	at := slices.Index(b.rows, b.versus) // position in a row's values; -1 if it is the pivot
	index := map[string]*Row{}
	for _, r := range t.Rows {
		index[idKey(r.ids)] = r
	}
	for _, r := range t.Rows {
		for c := range t.Columns {
			col := &t.Columns[c]
			if !col.Versus {
				continue
			}
			own, diff := &r.Cells[c-1], &r.Cells[c]
			switch {
			case at < 0: // the baseline is another column
				base := slices.IndexFunc(t.Columns, func(o Column) bool { return o.metric == col.metric && o.id == b.base })
				*diff = difference(own, &r.Cells[base])
			case r.ids[at] == b.base:
				diff.Note = "baseline"
				continue
			default:
				ids := slices.Clone(r.ids)
				ids[at] = b.base
				base := &Cell{}
				if partner := index[idKey(ids)]; partner != nil {
					base = &partner.Cells[c-1]
				}
				*diff = difference(own, base)
			}
			if own.Of > 0 && diff.N == 0 {
				diff.Note = "no pair"
			}
		}
	}
}

const unmatched = "unmatched"

// difference subtracts the paired units of two cells. Units in only one of them have no pair.
func difference(own, base *Cell) Cell {
	d := Cell{}
	left := slices.Clone(base.Values) // base values without a pair so far
	for _, v := range own.Values {
		d.Of++
		i := slices.IndexFunc(left, func(w Sample) bool { return w.Unit == v.Unit && w.set == v.set })
		if i < 0 {
			d.Gaps = append(d.Gaps, Gap{Unit: v.Unit, Why: unmatched})
			continue
		}
		v.Value -= left[i].Value
		d.Values = append(d.Values, v)
		left = slices.Delete(left, i, i+1)
	}
	for _, w := range left {
		if gap := (Gap{Unit: w.Unit, Why: unmatched}); !slices.Contains(d.Gaps, gap) {
			d.Of++
			d.Gaps = append(d.Gaps, gap)
		}
	}
	d.summarize(CI95)
	return d
}

// unmatched returns the names of rows without a pair.
func (t *Table) unmatched() (names []string) {
	for _, r := range t.Rows {
		for c := range t.Columns {
			if r.Cells[c].Note == "no pair" {
				names = append(names, strings.TrimSpace(strings.Join(append(slices.Clone(r.Values), t.Columns[c].Value), " ")))
				break
			}
		}
	}
	return names
}
