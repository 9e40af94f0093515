package results

import (
	"encoding/csv"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Text returns the rows of the table, starting with the header. word cleans text from users, and
// bold marks the best values.
func (t *Table) Text(word, bold func(string) string) [][]string {
	return t.cells(spelling{value: plusMinus(bold), word: word})
}

// text formats the value of a cell: "92.45 ± 0.42".
func (c *Column) text(x *Cell) string {
	switch x.N {
	case 0:
		return x.Note
	case 1:
		return c.number(x.Mean)
	}
	return c.number(x.Mean) + " ± " + c.err(x.Err)
}

// plusMinus formats a mean and its error as plain text.
func plusMinus(bold func(string) string) func(mean, err string, best bool) string {
	return func(mean, err string, best bool) string {
		if err != "" {
			mean += " ± " + err
		}
		if best {
			return bold(mean)
		}
		return mean
	}
}

// Markdown formats the table with its caption and notes.
func (t *Table) Markdown() string {
	rows := t.cells(spelling{value: plusMinus(func(s string) string { return "**" + s + "**" }), word: mdEscaped})
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			for n := range row {
				b.WriteString("| " + map[bool]string{true: "---", false: "---:"}[n < len(t.Params)] + " ")
			}
			b.WriteString("|\n")
		}
	}
	for _, line := range t.Remarks() {
		b.WriteString("\n" + mdEscaped(line) + "\n")
	}
	return b.String()
}

// Remarks returns the lines below the table. Raw tables have none.
func (t *Table) Remarks() []string {
	if t.Raw {
		return nil
	}
	lines := append([]string{t.Caption}, t.Notes...)
	for _, w := range t.Warnings {
		lines = append(lines, "warning: "+w)
	}
	return lines
}

var mdEscapes = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "&", "&amp;", "[", `\[`, "\n", " ")

func mdEscaped(s string) string { return mdEscapes.Replace(clean(s)) }

// clean removes control characters, which names and values may contain.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// LaTeX formats the table for the booktabs package, with caption and notes as comments.
func (t *Table) LaTeX() string {
	n, uniform := t.uniform()
	rows := t.cells(spelling{value: texValue, word: texEscaped, nSaid: uniform})
	lines := t.Remarks()
	if uniform && len(t.Over) > 0 {
		lines[0] = ofUnits.ReplaceAllString(lines[0], ", n = "+strconv.Itoa(n))
	}
	align := strings.Repeat("l", len(t.Params)) + strings.Repeat("r", len(t.Columns))
	if t.chosen() {
		align += "l"
	}
	var b strings.Builder
	b.WriteString("% \\usepackage{booktabs}\n")
	for _, line := range lines {
		b.WriteString("% " + clean(line) + "\n")
	}
	b.WriteString("\\begin{tabular}{" + align + "}\n\\toprule\n")
	for i, row := range rows {
		b.WriteString(strings.Join(row, " & ") + " \\\\\n")
		if i == 0 {
			b.WriteString("\\midrule\n")
		}
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n")
	return b.String()
}

// ofUnits matches the part of a caption that explains the numbers in parentheses.
var ofUnits = regexp.MustCompile(`, \(n( of [^)]*)?\)`)

var exponent = regexp.MustCompile(`e([+-]\d+)`)

func texValue(mean, err string, best bool) string {
	power := func(e string) string {
		n, _ := strconv.Atoi(e[1:])
		return ` \times 10^{` + strconv.Itoa(n) + `}`
	}
	mean, err = exponent.ReplaceAllStringFunc(mean, power), exponent.ReplaceAllStringFunc(err, power)
	if err != "" {
		mean += ` \pm ` + err
	}
	if best {
		mean = `\mathbf{` + mean + `}`
	}
	return "$" + mean + "$"
}

// uniform reports whether all cells with values are complete and have the same n.
func (t *Table) uniform() (n int, ok bool) {
	for _, r := range t.Rows {
		for k := range r.Cells {
			x := &r.Cells[k]
			if x.Of == 0 || x.Note != "" {
				continue
			}
			if !x.Full() || n > 0 && x.N != n {
				return 0, false
			}
			n = x.N
		}
	}
	return n, n > 0
}

var texEscapes = strings.NewReplacer(`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "&", `\&`, "%", `\%`, "$", `\$`, "#", `\#`, "_", `\_`,
	"[", "{[}", "*", "{*}", "~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`, "|", `\textbar{}`, `"`, "''",
	"–", "--", "Δ", `$\Delta$`, "±", `$\pm$`, "−", "$-$", "≠", `$\neq$`)

// texEscaped escapes text for LaTeX. A [ or * at the start of a row would be an argument of the
// command that ends the row above it.
func texEscaped(s string) string { return texEscapes.Replace(clean(s)) }

// CSV returns the unrounded numbers, with fractions instead of percentages.
func (t *Table) CSV() string {
	var b strings.Builder
	out := csv.NewWriter(&b)
	if t.Raw {
		_ = out.WriteAll(t.cells(spelling{word: func(s string) string { return s }}))
		return b.String()
	}
	head := append([]string{}, t.Params...)
	for i := range t.Columns {
		c := &t.Columns[i]
		name := c.Name
		if c.Value != "" {
			name += " " + c.Value
		}
		err := string(t.Err)
		if c.Versus {
			name, err = name+" vs "+t.Versus, string(CI95)
		}
		head = append(head, name, name+"_"+err, name+"_n", name+"_of", name+"_missing")
	}
	if t.chosen() {
		head = append(head, "best_of", "best_complete", "best_by")
	}
	_ = out.Write(head)
	for _, r := range t.Rows {
		row := append([]string{}, r.Values...)
		for k := range r.Cells {
			x := &r.Cells[k]
			row = append(row, exact(x.Mean), exact(x.Err), strconv.Itoa(x.N), strconv.Itoa(x.Of), gaps(x.Gaps))
		}
		if r.Choice != nil {
			row = append(row, strconv.Itoa(r.Choice.Of), strconv.Itoa(r.Choice.Full), exact(r.Choice.By))
		}
		_ = out.Write(row)
	}
	out.Flush()
	return b.String()
}

// exact formats a number without loss of precision. It returns "" for NaN.
func exact(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
