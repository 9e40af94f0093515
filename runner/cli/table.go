package cli

import (
	"encoding/json"
	"io"
	"strings"

	"gpurun/runner/terminal"
)

// table writes rows in columns, by what terminals show rather than by bytes. The
// last column is never padded or cut.
func table(w io.Writer, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], terminal.Width(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		b.Reset()
		for i, cell := range row {
			if i < len(row)-1 {
				cell = terminal.Pad(cell, widths[i]) + "  "
			}
			b.WriteString(cell)
		}
		io.WriteString(w, strings.TrimRight(b.String(), " ")+"\n")
	}
}

// writeJSON prints v as --json does: one document, indented.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
