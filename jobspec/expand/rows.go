package expand

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gpurun/jobspec/source"
)

// lineColumn is the name of the only column of a plain text file.
const lineColumn = "line"

// A table holds the rows of a file. Every row has a value for each column.
type table struct {
	Names []column
	Rows  []row
}

// A column is the name of a column and its position.
type column struct {
	Text      string
	Line, Col int
}

// A row is one row and its line number.
type row struct {
	Values []tableValue
	Line   int
}

// A tableValue is a value as spelled in the file.
type tableValue struct{ Text, Tag string }

// formats maps extensions to formats. Any other file is plain text.
var formats = map[string]func(*tableReader){
	".csv": (*tableReader).csv, ".tsv": (*tableReader).csv,
	".jsonl": (*tableReader).jsonLines, ".ndjson": (*tableReader).jsonLines,
	".yaml": (*tableReader).list, ".yml": (*tableReader).list, ".json": (*tableReader).list,
}

// readTable reads a table of parameters: CSV with a header, JSON Lines, a list of mappings in YAML
// or JSON, or the lines of a plain text file. It reports a mistake at its position in the file, and
// then returns nil.
func readTable(s *source.Source) *table {
	r := &tableReader{Source: s, first: map[string]int{}}
	read := formats[strings.ToLower(filepath.Ext(s.Path))]
	if read == nil {
		read = (*tableReader).text
	}
	read(r)
	if !r.failed && len(r.Rows) == 0 {
		r.fail(0, 0, "", "has no rows")
	}
	if r.failed {
		return nil
	}
	return &r.table
}

type tableReader struct {
	*source.Source
	table
	first  map[string]int // line of each row, by the row's values
	failed bool
}

func (r *tableReader) fail(line, col int, hint, format string, args ...any) {
	r.failed = true
	r.Problem(line, col, hint, format, args...)
}

// maxColumns bounds the number of parameters of a job, because each name is compared with all
// others.
const maxColumns = 1000

// wide reports a problem and returns true if a row has too many columns.
func (r *tableReader) wide(line, n int) bool {
	if n > maxColumns {
		r.fail(line, 1, "each row is a job and each column a parameter: transpose the file, or let the job read the file", "this row has more than %d columns", maxColumns)
	}
	return n > maxColumns
}

// row adds a row. A duplicate row is refused, because it would duplicate a job.
func (r *tableReader) row(line int, values []tableValue) {
	id := fmt.Sprintf("%q", values)
	if before, ok := r.first[id]; ok {
		r.fail(line, 1, "remove one; to repeat jobs, add a matrix parameter such as seed: 0..4", "is the same as line %d", before)
		return
	}
	r.first[id] = line
	r.Rows = append(r.Rows, row{values, line})
}

// text reads one value per line. Blank lines and lines that begin with # are skipped.
func (r *tableReader) text() {
	r.Names = []column{{Text: lineColumn}}
	for i, text := range strings.Split(string(r.Data), "\n") {
		if text = strings.TrimSpace(text); text != "" && text[0] != '#' {
			r.row(i+1, []tableValue{{text, "!!str"}})
		}
	}
}

// A cell is a value with its name.
type cell struct {
	name  column
	value tableValue
}

// cells adds a row of named values, which may be in any order. The first row defines the columns.
func (r *tableReader) cells(line, col int, list []cell) {
	if r.Names == nil {
		if r.wide(line, len(list)) {
			return
		}
		for _, c := range list {
			r.Names = append(r.Names, c.name)
		}
		if len(list) == 0 {
			r.fail(line, col, "write a value for each parameter", "the first row is empty")
			return
		}
	}
	names := make([]string, len(r.Names))
	values, have := make([]tableValue, len(names)), make([]bool, len(names))
	for i, n := range r.Names {
		names[i] = n.Text
	}
	for _, c := range list {
		i := slices.Index(names, c.name.Text)
		switch {
		case i < 0:
			r.fail(c.name.Line, c.name.Col, source.DidYouMean(c.name.Text, names, "every row needs the parameters of the first"), "the first row has no %q", c.name.Text)
			return
		case have[i]:
			r.fail(c.name.Line, c.name.Col, "keep only one", "duplicate key %q", c.name.Text)
			return
		}
		if strings.IndexByte(c.value.Text, 0) >= 0 {
			r.fail(c.name.Line, c.name.Col, "remove it", "%q contains a NUL character, which commands cannot contain", c.name.Text)
			return
		}
		values[i], have[i] = c.value, true
	}
	if i := slices.Index(have, false); i >= 0 {
		r.fail(line, col, fmt.Sprintf("for no value, write %s: null", names[i]), "this row has no %q, unlike the first", names[i])
		return
	}
	r.row(line, values)
}
