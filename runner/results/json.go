package results

import (
	"math"
	"time"

	"gpurun/state/schema"
)

// A Document is a table for programs. Unknown numbers are null; none is rounded, and none is
// a percentage.
type Document struct {
	Schema   string      `json:"schema"`
	Now      time.Time   `json:"now"`
	Files    []string    `json:"files"`
	By       []string    `json:"by"`
	Over     []string    `json:"over"`
	Pivot    *string     `json:"pivot"`
	Versus   *string     `json:"versus"`
	Caption  string      `json:"caption"`
	Notes    []string    `json:"notes"`
	Warnings []string    `json:"warnings"`
	Metrics  []DocMetric `json:"metrics"`
	Rows     []DocRow    `json:"rows"`
}

// A DocMetric is a metric of a table.
type DocMetric struct {
	Name    string  `json:"name"`
	Goal    *string `json:"goal"`    // "max" or "min"
	Percent bool    `json:"percent"` // people read it as a percentage; here it is a fraction
}

func (m *Metric) document() DocMetric { return DocMetric{m.Name, orNull(string(m.Goal)), m.Percent} }

// A DocRow is one row of a table.
type DocRow struct {
	Params map[string]string `json:"params"`
	Cells  []DocCell         `json:"cells"`
	Best   *DocBest          `json:"best"` // what its setting was chosen among
}

// A DocCell is one cell of a table.
type DocCell struct {
	Metric  string   `json:"metric"`
	Pivot   *string  `json:"pivot"`  // value of the pivot
	Versus  bool     `json:"versus"` // a difference from the baseline
	Mean    *float64 `json:"mean"`
	SD      *float64 `json:"sd"`
	SEM     *float64 `json:"sem"`
	CI95    *float64 `json:"ci95"` // half its width
	N       int      `json:"n"`
	Of      int      `json:"of"`
	Best    bool     `json:"best"`
	Values  []DocOf  `json:"values"`
	Missing []DocGap `json:"missing"`
}

// A DocOf is one value that a mean is of.
type DocOf struct {
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
}

// A DocGap is a value that is missing, or from before.
type DocGap struct {
	Unit    string `json:"unit"`
	Why     string `json:"why"`
	Counted bool   `json:"counted"`
}

// A DocBest says what a setting was chosen among.
type DocBest struct {
	Metric   string   `json:"metric"`
	Of       int      `json:"of"`
	Complete int      `json:"complete"`
	By       *float64 `json:"by"`
}

// Document returns the table for programs.
func (t *Table) Document(now time.Time, files []string) Document {
	d := Document{
		Schema: schema.Version, Now: now.UTC(), Files: files, By: filled(t.Params), Over: filled(t.Over), Pivot: orNull(t.Pivot), Versus: orNull(t.Versus),
		Caption: t.Caption, Notes: filled(t.Notes), Warnings: filled(t.Warnings), Metrics: []DocMetric{}, Rows: []DocRow{},
	}
	for i, c := range t.Columns {
		if i == 0 || c.metric != t.Columns[i-1].metric {
			d.Metrics = append(d.Metrics, c.Metric.document())
		}
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		row := DocRow{Params: map[string]string{}, Cells: []DocCell{}}
		for k, name := range t.Params {
			row.Params[name] = r.Values[k]
		}
		for k := range r.Cells {
			row.Cells = append(row.Cells, r.Cells[k].document(&t.Columns[k]))
		}
		if c := r.Choice; c != nil {
			row.Best = &DocBest{c.Metric.Name, c.Of, c.Full, known(c.By)}
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

func (x *Cell) document(c *Column) DocCell {
	d := DocCell{
		Metric: c.Name, Pivot: orNull(c.Value), Versus: c.Versus, N: x.N, Of: x.Of, Best: x.Best, Values: []DocOf{}, Missing: []DocGap{},
		Mean: known(x.Mean), SD: known(x.SD), SEM: known(x.Summary.Err(SEM)), CI95: known(x.Summary.Err(CI95)),
	}
	for i, v := range x.Values {
		d.Values = append(d.Values, DocOf{x.Units[i], v})
	}
	for _, g := range x.Gaps {
		d.Missing = append(d.Missing, DocGap(g))
	}
	return d
}

func known(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// filled is never null.
func filled(list []string) []string { return append([]string{}, list...) }
