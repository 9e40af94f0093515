package results

import (
	"slices"
	"strings"
)

// compare fills the columns that tell the difference from the baseline.
func (b *build) compare(t *Table) {
	t.Versus = b.o.Versus.Name + "=" + b.o.Versus.Values[0]
	at := slices.Index(b.rows, b.versus) // in a row's values; -1 if it is the pivot
	index := map[string]int{}
	for i := range t.Rows {
		index[idKey(t.Rows[i].ids)] = i
	}
	for i := range t.Rows {
		r := &t.Rows[i]
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
				partner, there := index[idKey(ids)]
				if !there {
					*diff = difference(own, &Cell{})
				} else {
					*diff = difference(own, &t.Rows[partner].Cells[c-1])
				}
			}
			if own.Of > 0 && diff.N == 0 {
				diff.Note = "no pair"
			}
		}
	}
}

func idKey(ids []int32) string {
	var key []byte
	for _, id := range ids {
		key = appendID(key, id)
	}
	return string(key)
}

const unmatched = "unmatched"

// difference pairs the units of two cells. Those of only one of them have no pair.
func difference(own, base *Cell) Cell {
	d := Cell{}
	left := make([]bool, len(base.Units)) // that have a pair
	for i, unit := range own.Units {
		j := -1
		for k, other := range base.Units {
			if other == unit && !left[k] && own.set(i) == base.set(k) {
				j = k
				break
			}
		}
		d.Of++
		if j < 0 {
			d.Gaps = append(d.Gaps, Gap{unit, unmatched, false})
			continue
		}
		left[j] = true
		d.Units = append(d.Units, unit)
		d.Values = append(d.Values, own.Values[i]-base.Values[j])
	}
	for k, unit := range base.Units {
		if !left[k] && !slices.Contains(d.Gaps, Gap{unit, unmatched, false}) {
			d.Of++
			d.Gaps = append(d.Gaps, Gap{unit, unmatched, false})
		}
	}
	d.Summary = Summarize(d.Values)
	d.Err = d.Summary.Err(CI95)
	return d
}

// unmatched names the rows that have no pair.
func (t *Table) unmatched() (names []string) {
	for i := range t.Rows {
		r := &t.Rows[i]
		for c := range t.Columns {
			if r.Cells[c].Note == "no pair" {
				names = append(names, strings.TrimSpace(strings.Join(append(slices.Clone(r.Values), t.Columns[c].Value), " ")))
				break
			}
		}
	}
	return names
}
