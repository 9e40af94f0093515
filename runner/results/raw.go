package results

import (
	"cmp"
	"strconv"
)

// raw makes a row for each job with its unrounded values.
func (b *build) raw() (*Table, error) {
	t := &Table{Raw: true, Params: []string{"job", "state"}}
	for _, f := range b.factors[:b.params] {
		t.Params = append(t.Params, f.name)
	}
	for _, m := range b.metrics {
		t.Columns = append(t.Columns, Column{Metric: b.data.Metrics[m], metric: m})
	}
	for n, j := range b.jobs {
		r := &Row{Values: []string{j.Name, cmp.Or(j.State, "done")}}
		for i, f := range b.factors[:b.params] {
			r.Values = append(r.Values, f.values[b.at[n][i]])
		}
		for _, m := range b.metrics {
			c := Cell{Summary: Summarize(nil)}
			v := j.value(m)
			if m < len(j.Partial) {
				v = j.Partial[m]
			}
			if v.Is {
				c.Values = []Sample{{Value: v.X}}
				if finite(v.X) {
					c.Summary = Summarize([]float64{v.X})
				}
			}
			r.Cells = append(r.Cells, c)
		}
		t.Rows = append(t.Rows, r)
	}
	return t, t.sort(b.o.Sort)
}

// raw formats the single value of a cell without rounding. It returns "" if there is none.
func (c *Cell) raw() string {
	if len(c.Values) == 0 {
		return ""
	}
	return strconv.FormatFloat(c.Values[0].Value, 'g', -1, 64)
}
