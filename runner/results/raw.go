package results

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/state/schema"
)

// A RawTable has a row for each job, and every number as it was measured.
type RawTable struct {
	Params  []string
	Metrics []Metric
	Jobs    []RawJob
}

// A RawJob is a row of a RawTable.
type RawJob struct {
	Job    string              `json:"job"`
	State  string              `json:"state"` // "done" if nothing is wrong with its values
	Params map[string]string   `json:"params"`
	Values map[string]*float64 `json:"metrics"` // null for a value that is missing or no number

	nan map[string]string
}

// Raw returns what each job has measured.
func Raw(d Data, o Options) (*RawTable, error) {
	g, err := newGrid(d, o.Where)
	if err != nil {
		return nil, err
	}
	metrics, err := g.metrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	t := &RawTable{}
	for _, i := range g.own() {
		t.Params = append(t.Params, g.factors[i].name)
	}
	for _, m := range metrics {
		t.Metrics = append(t.Metrics, d.Metrics[m])
	}
	for n, j := range g.jobs {
		row := RawJob{Job: j.Name, State: j.State, Params: map[string]string{}, Values: map[string]*float64{}, nan: map[string]string{}}
		if row.State == "" {
			row.State = "done"
		}
		for _, i := range g.own() {
			row.Params[g.factors[i].name] = g.factors[i].values[g.at[n][i]]
		}
		for _, m := range metrics {
			name := d.Metrics[m].Name
			row.Values[name] = nil
			if v := j.value(m); v.Is {
				if row.Values[name] = known(v.X); !finite(v.X) {
					row.nan[name] = strconv.FormatFloat(v.X, 'g', -1, 64)
				}
			}
		}
		t.Jobs = append(t.Jobs, row)
	}
	return t, t.sort(o.Sort)
}

// sort sorts the jobs by a parameter or a metric.
func (t *RawTable) sort(by string) error {
	if by == "" {
		return nil
	}
	b := &build{o: Options{Sort: by}}
	sorted := &Table{Params: append([]string{"job", "state"}, t.Params...)}
	for i, m := range t.Metrics {
		sorted.Columns = append(sorted.Columns, Column{Metric: m, metric: i})
		b.metrics = append(b.metrics, i)
	}
	b.grid = &grid{data: Data{Metrics: t.Metrics}}
	for i, j := range t.Jobs {
		r := Row{Values: []string{j.Job, j.State}, ids: []int32{int32(i)}}
		for _, p := range t.Params {
			r.Values = append(r.Values, j.Params[p])
		}
		for _, m := range t.Metrics {
			c := Cell{}
			if x := j.Values[m.Name]; x != nil {
				c.Summary = Summary{1, *x, 0}
			}
			r.Cells = append(r.Cells, c)
		}
		sorted.Rows = append(sorted.Rows, r)
	}
	if err := b.sort(sorted); err != nil {
		return err
	}
	jobs := slices.Clone(t.Jobs)
	for i, r := range sorted.Rows {
		t.Jobs[i] = jobs[r.ids[0]]
	}
	return nil
}

// Text returns the rows of the table, the head first. word cleans what users wrote.
func (t *RawTable) Text(word func(string) string) [][]string {
	head := []string{"job", "state"}
	for _, p := range t.Params {
		head = append(head, word(p))
	}
	for _, m := range t.Metrics {
		head = append(head, word(m.Name))
	}
	rows := [][]string{head}
	for _, j := range t.Jobs {
		row := []string{word(j.Job), word(j.State)}
		for _, p := range t.Params {
			row = append(row, word(j.Params[p]))
		}
		for _, m := range t.Metrics {
			text := j.nan[m.Name]
			if x := j.Values[m.Name]; x != nil {
				text = exact(*x)
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return rows
}

// CSV writes a line for each job.
func (t *RawTable) CSV(w io.Writer) error {
	return csv.NewWriter(w).WriteAll(t.Text(func(s string) string { return s }))
}

// Markdown writes a row for each job.
func (t *RawTable) Markdown(w io.Writer) error {
	return markdown(w, t.Text(mdEscaped), len(t.Params)+2, nil)
}

// LaTeX writes a row for each job.
func (t *RawTable) LaTeX(w io.Writer) error {
	return latex(w, t.Text(texEscaped), strings.Repeat("l", len(t.Params)+2)+strings.Repeat("r", len(t.Metrics)), nil)
}

// A RawDocument is what each job has measured, for programs.
type RawDocument struct {
	Schema  string      `json:"schema"`
	Now     time.Time   `json:"now"`
	Files   []string    `json:"files"`
	Metrics []DocMetric `json:"metrics"`
	Jobs    []RawJob    `json:"jobs"`
}

// Document returns the table for programs.
func (t *RawTable) Document(now time.Time, files []string) RawDocument {
	d := RawDocument{schema.Version, now.UTC(), files, []DocMetric{}, append([]RawJob{}, t.Jobs...)}
	for i := range t.Metrics {
		d.Metrics = append(d.Metrics, t.Metrics[i].document())
	}
	return d
}
