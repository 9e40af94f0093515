package files

import (
	"bufio"
	"bytes"
	"cmp"
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

// maxTable is the size in bytes of the largest metrics file that is read.
const maxTable = 1 << 30

// maxDocument is the size in bytes of the largest file that is read into memory as a whole.
const maxDocument = 64 << 20

// formats are the readers of metrics files by file extension. They pass the rows of a file to
// pickers.
var formats = map[string]func(io.Reader, []picker) error{
	".json": readJSON, ".jsonl": readJSON, ".ndjson": readJSON,
	".yaml": readYAML, ".yml": readYAML,
	".csv": func(r io.Reader, all []picker) error { return readCSV(r, ',', all) },
	".tsv": func(r io.Reader, all []picker) error { return readCSV(r, '\t', all) },
}

// A picker picks a metric's value from the rows of a file: from the last row that has one, or from
// the row in which another column is best.
type picker struct {
	metric jobspec.Metric
	text   string // the value's text
	why    string // why there is none, or ""
	best   float64
	any    bool // a row has been picked
}

func pickers(list []jobspec.Metric) []picker {
	all := make([]picker, len(list))
	for i, x := range list {
		all[i] = picker{metric: x, why: "no " + cmp.Or(x.At, x.Key)}
	}
	return all
}

// row considers one row. get returns the text of a column, if it has a value.
func (p *picker) row(get func(column string) (string, bool)) {
	text, there := get(p.metric.Key)
	if p.metric.At == "" {
		if there {
			p.text, p.why = text, ""
		}
		return
	}
	at, _ := get(p.metric.At)
	value, err := strconv.ParseFloat(strings.TrimSpace(at), 64)
	if err != nil || value != value || p.any && (p.metric.AtMax && value <= p.best || !p.metric.AtMax && value >= p.best) {
		return
	}
	p.any, p.best = true, value
	p.text, p.why = text, ""
	if !there {
		p.why = "no " + p.metric.Key + " where " + p.metric.At + " is best"
	}
}

// readCSV reads a table whose first line has the column names.
func readCSV(in io.Reader, comma rune, all []picker) error {
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
		return errors.New("is empty")
	}
	for i, name := range names {
		if _, twice := columns[strings.TrimSpace(name)]; !twice {
			columns[strings.TrimSpace(name)] = i
		}
	}
	var fields []string
	get := func(column string) (string, bool) {
		at, known := columns[column]
		if !known || at >= len(fields) {
			return "", false
		}
		text := strings.TrimSpace(fields[at])
		return strings.Clone(fields[at]), text != "" && text != column // a job may have repeated the header
	}
	for err == nil {
		if fields, err = r.Read(); err == nil {
			pick(all, get)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func pick(all []picker, get func(column string) (string, bool)) {
	for i := range all {
		all[i].row(get)
	}
}

// readJSON reads one document, or several in sequence (JSON Lines).
func readJSON(in io.Reader, all []picker) error {
	data, err := readWhole(in)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(quoteNaN(data)))
	d.UseNumber()
	return documents(d, "is not JSON", all)
}

func readYAML(in io.Reader, all []picker) error {
	data, err := readWhole(in)
	if err != nil {
		return err
	}
	return documents(yaml.NewDecoder(bytes.NewReader(data)), "is not YAML", all)
}

// documents picks values from all documents of a file up to the first invalid one. The file may be
// incomplete or edited by hand.
func documents(d interface{ Decode(any) error }, broken string, all []picker) error {
	var docs []any
	for {
		var doc any
		err := d.Decode(&doc)
		switch {
		case err == nil:
			docs = append(docs, doc)
		case len(docs) > 0:
			fromDocs(docs, all)
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("is empty")
		default:
			return errors.New(broken)
		}
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
func fromDocs(rows []any, all []picker) {
	list, isList := rows[0].([]any)
	isList = isList && len(rows) == 1
	if isList {
		rows = list
	}
	for _, row := range rows {
		pick(all, func(column string) (string, bool) { return at(row, column) })
	}
	for i := range all {
		p := &all[i]
		if text, ok := at(list, p.metric.Key); isList && ok && p.metric.At == "" { // a path such as -1.acc
			p.text, p.why = text, ""
		}
	}
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
