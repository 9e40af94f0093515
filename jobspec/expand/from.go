package expand

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// from reads the rows of a file as one axis, with a parameter for each column.
func (r *matrixReader) from(k, v *yaml.Node) {
	path, err := Absolute(r.Dir, v.Value)
	if err == nil && v.Value == "" {
		err = source.Faultf("write from: params.csv", "the file name is empty")
	}
	var data []byte
	if err == nil {
		r.Out.Note(path)
		if data, err = source.ReadRegular(path); err != nil {
			err = source.Faultf(r.otherPlace(v.Value, path), "%s: %s", v.Value, strings.ReplaceAll(err.Error(), "job file", "file of rows"))
		}
	}
	if err != nil {
		r.fails = true
		r.Out.Add(source.Problem{File: r.Path, Line: v.Line, Col: v.Column, Text: "from: "}.Because(err))
		return
	}
	if ext := strings.ToLower(filepath.Ext(path)); slices.Contains(notText, ext) {
		r.fail(v, "save it as CSV", "from: %s: cannot read %s files, only CSV, JSON Lines, YAML and plain text", v.Value, ext)
		return
	}
	var t *table
	s := source.OfRows(beside(r.Path, v.Value), data, r.Out)
	if s != nil {
		t = readTable(s)
	}
	if t == nil {
		r.fails = true
		return
	}
	names, lists := make([]string, 0, len(t.Names)), make([][]*Param, len(t.Names))
	for i, n := range t.Names {
		if !r.declares(n.Text, k, s, n.Line, n.Col) {
			continue
		}
		names = append(names, n.Text)
		for _, row := range t.Rows {
			p := &Param{Name: n.Text, Text: row.Values[i].Text, Tag: row.Values[i].Tag}
			if lists[i] = append(lists[i], p); r.toParse(p) {
				r.rowAt[p] = place{s, row.Line, 1}
			}
		}
	}
	if len(names) == len(t.Names) {
		r.group(names, lists, "from")
	}
}

// notText are extensions of tables that are not text files.
var notText = []string{".xlsx", ".xls", ".ods", ".parquet", ".feather", ".pkl", ".pickle", ".npy", ".npz", ".db", ".sqlite"}

// beside returns the path, relative to the current folder, of a file that a job file names.
func beside(jobFile, path string) string {
	if filepath.IsAbs(path) || strings.ContainsAny(path[:1], "~$") {
		return path
	}
	return filepath.Join(filepath.Dir(jobFile), path)
}

// otherPlace returns a hint for a missing file of rows: where the file is, or which file the user
// may have meant. It returns "" if the path is not reachable.
func (r *matrixReader) otherPlace(name, path string) string {
	if !source.Reachable(path) {
		return ""
	}
	if here, err := filepath.Abs(name); err == nil && here != path && source.Reachable(here) {
		if _, err := os.Stat(here); err == nil {
			if rel, err := filepath.Rel(r.Dir, here); err == nil {
				return "paths are relative to the job file: write " + rel
			}
		}
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	var near []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.EqualFold(filepath.Ext(e.Name()), filepath.Ext(name)) {
			near = append(near, e.Name())
		}
	}
	slices.Sort(near)
	if n := source.Nearest(filepath.Base(path), near); n != "" {
		return "did you mean " + filepath.Join(filepath.Dir(name), n) + "?"
	}
	return "paths are relative to the job file's folder, " + r.Dir
}
