package expand

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// csv reads a header and rows. It ignores spaces around unquoted values. It also ignores rows
// without any value, which spreadsheets often add.
func (r *tableReader) csv() {
	c := csv.NewReader(strings.NewReader(string(r.Data)))
	c.TrimLeadingSpace, c.FieldsPerRecord = true, -1
	if strings.EqualFold(filepath.Ext(r.Path), ".tsv") {
		c.Comma, c.TrimLeadingSpace = '\t', false
	}
	for {
		fields, err := c.Read()
		var bad *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.As(err, &bad):
			r.fail(bad.Line, r.column(bad.Line, bad.Column), `write a quote inside a value as "", and the whole value in quotes`, "is not valid CSV: %s", bad.Err)
			return
		}
		line, _ := c.FieldPos(0)
		if r.wide(line, len(fields)) {
			return
		}
		for i, f := range fields {
			if at, col := c.FieldPos(i); !strings.HasPrefix(r.rest(at, col), `"`) {
				fields[i] = strings.TrimSpace(f)
			}
		}
		switch {
		case r.Names == nil:
			r.header(c, fields)
		case !slices.ContainsFunc(fields, func(f string) bool { return f != "" }):
		case len(fields) != len(r.Names):
			r.fail(line, 1, "quote values that contain a comma, or add commas for missing values", "this row has %s, but the header has %d", values(len(fields)), len(r.Names))
		default:
			row := make([]tableValue, len(fields))
			for i, f := range fields {
				row[i] = plain(f)
			}
			r.row(line, row)
		}
		if r.failed {
			return
		}
	}
}

func values(n int) string {
	if n == 1 {
		return "1 value"
	}
	return fmt.Sprintf("%d values", n)
}

// header reads the names of the columns.
func (r *tableReader) header(c *csv.Reader, fields []string) {
	for i, f := range fields {
		line, at := c.FieldPos(i)
		col := r.column(line, at)
		switch {
		case f == "":
			r.fail(line, col, "give it a name, or leave it out (pandas: to_csv(index=False))", "column %d has no name", i+1)
		case len(fields) == 1 && strings.ContainsAny(f, ";\t"):
			r.fail(line, col, "separate values with commas", "the header has only one column: %q", source.Clip(f))
		}
		r.Names = append(r.Names, column{f, line, col})
	}
}

// plain returns an unquoted value as YAML would read it; an empty value is null.
func plain(text string) tableValue {
	n := yaml.Node{Kind: yaml.ScalarNode, Value: text}
	tag := n.ShortTag()
	if tag == "!!timestamp" || tag == "!!merge" {
		tag = "!!str"
	}
	return tableValue{text, tag}
}

// rest returns the part of a line that begins at a column, counted in bytes.
func (r *tableReader) rest(line, col int) string {
	text := r.Line(line)
	return text[min(max(0, col-1), len(text)):]
}

// column converts a column from bytes to characters.
func (r *tableReader) column(line, col int) int {
	text := r.Line(line)
	return 1 + utf8.RuneCountInString(text[:min(max(0, col-1), len(text))])
}
