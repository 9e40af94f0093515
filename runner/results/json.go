package results

import (
	"time"

	"gpurun/state/schema"
)

// A Document is a table for programs. Unknown numbers are null; numbers are neither rounded nor
// converted to percentages.
type Document struct {
	schema.Head
	Files    []string    `json:"files"`
	By       []string    `json:"by"`
	Over     []string    `json:"over"`
	Pivot    *string     `json:"pivot"`
	Versus   *string     `json:"versus"`
	Headline *string     `json:"headline"` // the best setting so far; null without a metric that has a goal
	Caption  string      `json:"caption"`
	Notes    []string    `json:"notes"`
	Warnings []string    `json:"warnings"`
	Metrics  []DocMetric `json:"metrics"`
	Columns  []string    `json:"columns"` // headers of the cells, as in the printed table
	Rows     []DocRow    `json:"rows"`
}

// Copies holds the table in other formats.
type Copies struct {
	schema.Head
	LaTeX    string `json:"latex"`
	Markdown string `json:"markdown"`
	CSV      string `json:"csv"`
}

// Copies returns the table in the formats that users paste.
func (t *Table) Copies(now time.Time) Copies {
	return Copies{schema.At(now), t.LaTeX(), t.Markdown(), t.CSV()}
}

// A DocMetric is a metric of a table.
type DocMetric struct {
	Name    string  `json:"name"`
	Goal    *string `json:"goal"`    // "max" or "min"
	Percent bool    `json:"percent"` // shown to users as a percentage; here a fraction
}

func (m *Metric) document() DocMetric {
	return DocMetric{m.Name, schema.Known(string(m.Goal)), m.Percent}
}

// A DocRow is one row of a table.
type DocRow struct {
	Params map[string]string `json:"params"`
	Cells  []DocCell         `json:"cells"`
	Best   *DocBest          `json:"best"` // how the setting was chosen
}

// A DocCell is one cell of a table.
type DocCell struct {
	Metric  string   `json:"metric"`
	Pivot   *string  `json:"pivot"`  // value of the pivot
	Versus  bool     `json:"versus"` // the difference from the baseline
	Mean    *float64 `json:"mean"`
	SD      *float64 `json:"sd"`
	SEM     *float64 `json:"sem"`
	CI95    *float64 `json:"ci95"` // half-width of the interval
	N       int      `json:"n"`
	Of      int      `json:"of"`
	Best    bool     `json:"best"` // it is the best cell, or its interval overlaps the best one's
	Text    string   `json:"text"` // as shown to users, without n: "92.45 ± 0.42"; "" without a value
	Values  []Sample `json:"values"`
	Missing []Gap    `json:"missing"`
}

// A DocBest describes how a setting was chosen.
type DocBest struct {
	Metric   string   `json:"metric"`
	Of       int      `json:"of"`
	Complete int      `json:"complete"`
	By       *float64 `json:"by"`
}

// A RawDocument lists the metrics of each job, for programs.
type RawDocument struct {
	schema.Head
	Files   []string    `json:"files"`
	Metrics []DocMetric `json:"metrics"`
	Jobs    []RawJob    `json:"jobs"`
}

// A RawJob is a job and its metrics.
type RawJob struct {
	Job    string              `json:"job"`
	State  string              `json:"state"` // "done" if all values are valid
	Params map[string]string   `json:"params"`
	Values map[string]*float64 `json:"metrics"` // null if the value is missing or not a finite number
}

// Document returns the table for programs: a RawDocument if the table is raw, otherwise a Document.
func (t *Table) Document(now time.Time) any {
	d := Document{
		Head: schema.At(now), Files: t.Files, By: schema.List(t.Params), Over: schema.List(t.Over), Pivot: schema.Known(t.Pivot), Versus: schema.Known(t.Versus),
		Headline: schema.Known(t.Headline), Columns: []string{}, Caption: t.Caption, Notes: schema.List(t.Notes), Warnings: schema.List(t.Warnings), Metrics: []DocMetric{}, Rows: []DocRow{},
	}
	for i, c := range t.Columns {
		if i == 0 || c.metric != t.Columns[i-1].metric {
			d.Metrics = append(d.Metrics, c.Metric.document())
		}
		d.Columns = append(d.Columns, c.Title(t.alone()))
	}
	if t.Raw {
		return RawDocument{d.Head, t.Files, d.Metrics, t.jobs()}
	}
	for _, r := range t.Rows {
		row := DocRow{Params: map[string]string{}, Cells: []DocCell{}}
		for k, name := range t.Params {
			row.Params[name] = r.Values[k]
		}
		for k := range r.Cells {
			row.Cells = append(row.Cells, r.Cells[k].document(&t.Columns[k]))
		}
		if c := r.Choice; c != nil {
			row.Best = &DocBest{c.Metric.Name, c.Of, c.Full, schema.Finite(c.By)}
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

func (t *Table) jobs() []RawJob {
	jobs := []RawJob{}
	for _, r := range t.Rows {
		j := RawJob{Job: r.Values[0], State: r.Values[1], Params: map[string]string{}, Values: map[string]*float64{}}
		for k, name := range t.Params[2:] {
			j.Params[name] = r.Values[2+k]
		}
		for k, c := range t.Columns {
			j.Values[c.Name] = schema.Finite(r.Cells[k].Mean)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func (x *Cell) document(c *Column) DocCell {
	return DocCell{
		Metric: c.Name, Pivot: schema.Known(c.Value), Versus: c.Versus, N: x.N, Of: x.Of, Best: x.Best, Text: c.text(x), Values: schema.List(x.Values), Missing: schema.List(x.Gaps),
		Mean: schema.Finite(x.Mean), SD: schema.Finite(x.SD), SEM: schema.Finite(x.Summary.Err(SEM)), CI95: schema.Finite(x.Summary.Err(CI95)),
	}
}
