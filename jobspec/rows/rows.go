// Package rows reads tables of parameters from files: CSV with a header, JSON Lines, a list
// of mappings in YAML or JSON, or the lines of a plain text file. Every mistake is reported
// with its place in that file.
package rows

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gpurun/jobspec/source"
)

// Line is the name of the only column of a plain text file.
const Line = "line"

// A Table has the rows of one file. Every row has a value for each column.
type Table struct {
	Names []Name
	Rows  []Row
}

// A Name is the head of a column.
type Name struct {
	Text      string
	Line, Col int
}

// A Row is one row, and the line it is on.
type Row struct {
	Values []Value
	Line   int
}

// A Value is one value, spelled as in the file.
type Value struct{ Text, Tag string }

// formats are told apart by the extension; any other file is plain text.
var formats = map[string]func(*reader){
	".csv": (*reader).csv, ".tsv": (*reader).csv,
	".jsonl": (*reader).jsonLines, ".ndjson": (*reader).jsonLines,
	".yaml": (*reader).list, ".yml": (*reader).list, ".json": (*reader).list,
}

// Read reads the table in s; it returns nil after a problem.
func Read(s *source.Source) *Table {
	r := &reader{Source: s, first: map[string]int{}}
	read := formats[strings.ToLower(filepath.Ext(s.Path))]
	if read == nil {
		read = (*reader).text
	}
	read(r)
	if !r.failed && len(r.Rows) == 0 {
		r.fail(0, 0, "", "has no rows")
	}
	if r.failed {
		return nil
	}
	return &r.Table
}

type reader struct {
	*source.Source
	Table
	first  map[string]int // the line of each row, by its values
	failed bool
}

func (r *reader) fail(line, col int, hint, format string, args ...any) {
	r.failed = true
	r.Problem(line, col, hint, format, args...)
}

// maxColumns bounds how many parameters a job may have: each takes a name, and each name a look at the others.
const maxColumns = 1000

// wide reports a table that has too many columns.
func (r *reader) wide(line, n int) bool {
	if n > maxColumns {
		r.fail(line, 1, "a row is a job, and a column a parameter: swap the two, or keep data in a file that the job reads", "this row has more than %d columns", maxColumns)
	}
	return n > maxColumns
}

// row adds a row. The same row twice would be the same job twice.
func (r *reader) row(line int, values []Value) {
	id := fmt.Sprintf("%q", values)
	if before, ok := r.first[id]; ok {
		r.fail(line, 1, "remove one; for repeats write a matrix parameter, such as seed: 0..4", "is the same as line %d", before)
		return
	}
	r.first[id] = line
	r.Rows = append(r.Rows, Row{values, line})
}

// text reads one value a line. Blank lines and those that begin with # are not rows.
func (r *reader) text() {
	r.Names = []Name{{Text: Line}}
	for i, text := range strings.Split(string(r.Data), "\n") {
		if text = strings.TrimSpace(text); text != "" && text[0] != '#' {
			r.row(i+1, []Value{{text, "!!str"}})
		}
	}
}

// A cell is one value under its name.
type cell struct {
	Name
	Value
}

// cells adds a row of named values in any order. The first row says which there are.
func (r *reader) cells(line, col int, list []cell) {
	if r.Names == nil {
		if r.wide(line, len(list)) {
			return
		}
		for _, c := range list {
			r.Names = append(r.Names, c.Name)
		}
		if len(list) == 0 {
			r.fail(line, col, "write a value for each parameter", "the first row is empty")
			return
		}
	}
	names := make([]string, len(r.Names))
	values, have := make([]Value, len(names)), make([]bool, len(names))
	for i, n := range r.Names {
		names[i] = n.Text
	}
	for _, c := range list {
		i := slices.Index(names, c.Name.Text)
		switch {
		case i < 0:
			r.fail(c.Line, c.Col, source.DidYouMean(c.Name.Text, names, "every row has the parameters of the first"), "the first row has no %q", c.Name.Text)
			return
		case have[i]:
			r.fail(c.Line, c.Col, "keep only one", "duplicate key %q", c.Name.Text)
			return
		}
		if strings.IndexByte(c.Value.Text, 0) >= 0 {
			r.fail(c.Line, c.Col, "remove it", "%q contains a NUL character, which no command may contain", c.Name.Text)
			return
		}
		values[i], have[i] = c.Value, true
	}
	if i := slices.Index(have, false); i >= 0 {
		r.fail(line, col, fmt.Sprintf("write null for no value of %s", names[i]), "this row has no %q, unlike the first", names[i])
		return
	}
	r.row(line, values)
}
