package files

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec"
)

// maxTable is the largest file of metrics, in bytes.
const maxTable = 1 << 30

// maxDocument is the largest file that must be in memory as a whole, in bytes.
const maxDocument = 64 << 20

// A cell is the text of a metric's value, or why there is none.
type cell struct{ text, why string }

// formats are the readers of metrics files by file extension.
var formats = map[string]func(io.Reader, []jobspec.Metric) ([]cell, error){
	".json": readJSON, ".jsonl": readJSON, ".ndjson": readJSON,
	".yaml": readYAML, ".yml": readYAML,
	".csv": func(r io.Reader, list []jobspec.Metric) ([]cell, error) { return readCSV(r, ',', list) },
	".tsv": func(r io.Reader, list []jobspec.Metric) ([]cell, error) { return readCSV(r, '\t', list) },
}

// A picker picks a metric's value from the rows of a file: from the last row that has one, or from
// the row in which another column is best.
type picker struct {
	metric jobspec.Metric
	cell   cell
	best   float64
	any    bool // a row has been picked
}

func pickers(list []jobspec.Metric) []picker {
	all := make([]picker, len(list))
	for i, x := range list {
		all[i] = picker{metric: x, cell: cell{why: "no " + x.Key}}
		if x.At != "" {
			all[i].cell.why = "no " + x.At
		}
	}
	return all
}

func cellsOf(all []picker) []cell {
	cells := make([]cell, len(all))
	for i := range all {
		cells[i] = all[i].cell
	}
	return cells
}

// row considers one row. get returns the text of a column, if it has a value.
func (p *picker) row(get func(column string) (string, bool)) {
	text, there := get(p.metric.Key)
	if p.metric.At == "" {
		if there {
			p.cell = cell{text: text}
		}
		return
	}
	at, _ := get(p.metric.At)
	value, err := strconv.ParseFloat(strings.TrimSpace(at), 64)
	if err != nil || value != value || p.any && (p.metric.AtMax && value <= p.best || !p.metric.AtMax && value >= p.best) {
		return
	}
	p.any, p.best = true, value
	p.cell = cell{text: text}
	if !there {
		p.cell.why = "no " + p.metric.Key + " where " + p.metric.At + " is best"
	}
}

// readCSV reads a table whose first line has the column names.
func readCSV(in io.Reader, comma rune, list []jobspec.Metric) ([]cell, error) {
	buf := bufio.NewReaderSize(in, 64<<10)
	first, _ := buf.Peek(4 << 10)
	if mark := "\ufeff"; strings.HasPrefix(string(first), mark) {
		_, _ = buf.Discard(len(mark))
	}
	head, _, _ := strings.Cut(string(first), "\n")
	if comma == ',' && !strings.Contains(head, ",") {
		for _, other := range []rune{';', '\t'} {
			if strings.ContainsRune(head, other) {
				comma = other
				break
			}
		}
	}
	r := csv.NewReader(buf)
	r.Comma, r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord, r.TrimLeadingSpace = comma, -1, true, true, comma == ','
	columns := map[string]int{}
	names, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("is empty")
	}
	for i, name := range names {
		if _, twice := columns[strings.TrimSpace(name)]; !twice {
			columns[strings.TrimSpace(name)] = i
		}
	}
	all := pickers(list)
	for err == nil {
		var fields []string
		if fields, err = r.Read(); err != nil {
			break
		}
		for i := range all {
			all[i].row(func(column string) (string, bool) {
				at, known := columns[column]
				if !known || at >= len(fields) || strings.TrimSpace(fields[at]) == "" || strings.TrimSpace(fields[at]) == column {
					return "", false // a job may have repeated the header
				}
				return strings.Clone(fields[at]), true
			})
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return cellsOf(all), nil
}

// readJSON reads one document, or several in sequence (JSON Lines).
func readJSON(in io.Reader, list []jobspec.Metric) ([]cell, error) {
	data, err := readWhole(in)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(quoteNaN(data))))
	d.UseNumber()
	return documents(d, "is not JSON", list)
}

// readYAML reads one document or several.
func readYAML(in io.Reader, list []jobspec.Metric) ([]cell, error) {
	data, err := readWhole(in)
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	return documents(d, "is not YAML", list)
}

// documents picks values from all documents of a file up to the first invalid one. The file may be
// incomplete or edited by hand.
func documents(d interface{ Decode(any) error }, broken string, list []jobspec.Metric) ([]cell, error) {
	var docs []any
	for {
		var doc any
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF), err != nil && len(docs) > 0:
			return fromDocs(docs, list)
		case err != nil:
			return nil, errors.New(broken)
		}
		docs = append(docs, doc)
	}
}

func readWhole(in io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = errors.New("is too large")
	}
	return data, err
}

// fromDocs picks values from documents. Both a list of objects and a sequence of documents are
// tables.
func fromDocs(docs []any, list []jobspec.Metric) ([]cell, error) {
	if len(docs) == 0 {
		return nil, errors.New("is empty")
	}
	all, rows := pickers(list), docs
	if rest, isList := docs[0].([]any); isList && len(docs) == 1 {
		rows = rest
		for i := range all {
			if text, ok := at(docs[0], all[i].metric.Key); ok && all[i].metric.At == "" {
				all[i].metric.Key, all[i].cell = "", cell{text: text} // its rows need no search
			}
		}
	}
	for _, row := range rows {
		for i := range all {
			if all[i].metric.Key != "" {
				all[i].row(func(column string) (string, bool) { return at(row, column) })
			}
		}
	}
	return cellsOf(all), nil
}

// at returns the text of the value at a dotted path. A key may itself contain dots. A number is an
// index into a list; a negative one counts from the end.
func at(doc any, path string) (text string, ok bool) {
	switch x := doc.(type) {
	case map[string]any:
		if value, known := x[path]; known {
			return scalar(value)
		}
		for i, c := range path {
			if c != '.' {
				continue
			}
			if value, known := x[path[:i]]; known {
				if text, ok := at(value, path[i+1:]); ok {
					return text, true
				}
			}
		}
	case map[any]any:
		named := make(map[string]any, len(x))
		for k, v := range x {
			named[fmt.Sprint(k)] = v
		}
		return at(named, path)
	case []any:
		first, rest, deeper := strings.Cut(path, ".")
		i, err := strconv.Atoi(first)
		if i < 0 {
			i += len(x)
		}
		switch {
		case err != nil || i < 0 || i >= len(x):
		case deeper:
			return at(x[i], rest)
		default:
			return scalar(x[i])
		}
	}
	return "", false
}

// scalar returns the text of a single value other than null.
func scalar(value any) (string, bool) {
	switch value.(type) {
	case nil, map[string]any, map[any]any, []any:
		return "", false
	}
	return fmt.Sprint(value), true
}
