package fold

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"gpurun/jobspec/expand"
	"gpurun/jobspec/source"
)

// A column is a parameter, with its value in each row.
type column struct {
	name   string
	values []string
	raw    bool
}

// A part is a piece of text: a literal or a column.
type part struct {
	lit string
	col *column
}

// folding is the state of folding one table.
type folding struct {
	n     int // number of rows
	cols  []*column
	texts [][]part // parts of each cell's text
}

// entry creates the entry for a table.
func (t *table) entry(base string) Entry {
	f := &folding{n: len(t.rows)}
	f.columns(t.rows)
	if of, n := f.number(f.cols); n < f.n {
		reps, values := make([]int, n), make([]string, f.n)
		for r, i := range of {
			reps[i]++
			values[r] = strconv.Itoa(reps[i])
		}
		f.cols = append(f.cols, &column{name: "rep", values: values})
	}
	e := Entry{Name: base, Glob: base, Jobs: t.jobs, params: f.sets()}
	if f.n > 1 {
		e.Glob += "-*"
		f.name(&e)
	}
	e.rows = slices.Concat(e.params...)
	for i, set := range e.params {
		e.params[i] = f.distinct(set)
	}
	f.fill(&e, t.rows[0])
	return e
}

// number numbers the distinct rows of some columns from 0, in order of first occurrence. It returns
// the number of each row, and how many distinct rows there are.
func (f *folding) number(set []*column) (of []int, n int) {
	of, first := make([]int, f.n), map[string]int{}
	for r := range of {
		id := ""
		for _, c := range set {
			id += fmt.Sprintf("%d:%s", len(c.values[r]), c.values[r])
		}
		if _, known := first[id]; !known {
			first[id] = len(first)
		}
		of[r] = first[id]
	}
	return of, len(first)
}

func (f *folding) count(set ...*column) int {
	_, n := f.number(set)
	return n
}

// distinct returns copies of columns that have only their distinct rows.
func (f *folding) distinct(set []*column) []*column {
	of, n := f.number(set)
	out := make([]*column, len(set))
	for i, c := range set {
		out[i] = &column{c.name, make([]string, n), c.raw}
		for r, v := range c.values {
			out[i].values[of[r]] = v
		}
	}
	return out
}

// sets splits the columns into sets whose product is the table. The sets are pairwise independent. If
// there are no such sets, all columns form one set.
func (f *folding) sets() (out [][]*column) {
	var sets [][]*column
	for _, c := range f.cols {
		set := []*column{c}
		sets = slices.DeleteFunc(sets, func(s []*column) bool {
			depends := slices.ContainsFunc(s, func(o *column) bool {
				return f.count(o, c) < f.count(o)*f.count(c)
			})
			if depends {
				set = slices.Concat(s, set)
			}
			return depends
		})
		sets = append(sets, set)
	}
	product := 1
	for _, s := range sets {
		product *= f.count(s...)
	}
	if out = sets; product != f.count(f.cols...) {
		out = [][]*column{slices.Clone(f.cols)}
	}
	for _, s := range out {
		slices.SortFunc(s, func(a, b *column) int { return slices.Index(f.cols, a) - slices.Index(f.cols, b) })
	}
	slices.SortFunc(out, func(a, b []*column) int { return slices.Index(f.cols, a[0]) - slices.Index(f.cols, b[0]) })
	return out
}

// add appends a part to text, joining adjacent literals.
func add(text []part, p part) []part {
	if n := len(text) - 1; n >= 0 && p.col == nil && text[n].col == nil {
		text[n].lit += p.lit
		return text
	}
	return append(text, p)
}

// express returns the columns and literals that together expand to the value of each row, or nil if
// there are none.
func (f *folding) express(values []string) (text []part) {
	for _, c := range f.cols {
		if !c.raw && slices.Equal(c.values, values) {
			return []part{{col: c}}
		}
	}
	at := make([]int, f.n)
	for {
		done := true
		for r, v := range values {
			done = done && at[r] == len(v)
		}
		if done {
			return text
		}
		var best *column
		for _, c := range f.cols {
			fits, size := !c.raw, 0
			for r, v := range values {
				if fits = fits && strings.HasPrefix(v[at[r]:], c.values[r]); !fits {
					break
				}
				size += len(c.values[r])
			}
			if fits && size > 0 && (best == nil || size > len(strings.Join(best.values, ""))) {
				best = c
			}
		}
		if best != nil {
			for r := range at {
				at[r] += len(best.values[r])
			}
			text = add(text, part{col: best})
			continue
		}
		for r, v := range values {
			if at[r] == len(v) || v[at[r]] != values[0][at[0]] {
				return nil
			}
		}
		text = add(text, part{lit: values[0][at[0] : at[0]+1]})
		for r := range at {
			at[r]++
		}
	}
}

// atom matches a separator, or a piece of text between separators. component does the same for
// paths.
var (
	atom      = source.Regexp(`[^/=:,_ "']+|[/=:,_ "']`)
	component = source.Regexp(`[^/]+|/`)
	extension = source.Regexp(`\.[A-Za-z][A-Za-z0-9]*$`)
	numbered  = source.Regexp(`^([A-Za-z]+)(?:0|[1-9][0-9]*)$`)
)

// aligned divides texts into pieces. It returns nil unless all texts have the same separators.
func aligned(values []string, piece *regexp.Regexp) (rows [][]string) {
	for _, v := range values {
		a := piece.FindAllString(v, -1)
		for i, s := range a {
			if len(rows) > 0 && (len(a) != len(rows[0]) || s != rows[0][i] && (strings.Contains(`/=:,_ "'`, s) || strings.Contains(`/=:,_ "'`, rows[0][i]))) {
				return nil
			}
		}
		if rows = append(rows, a); len(a) == 0 || len(a) != len(rows[0]) {
			return nil
		}
	}
	return rows
}

// split divides texts with the same separators into pieces. Pieces that existing columns cannot
// express stay together if they depend on each other, or if whole is set.
func (f *folding) split(values []string, whole bool) (pieces [][]string) {
	ext, short := extension().FindString(values[0]), make([]string, f.n)
	if slices.ContainsFunc(values, func(v string) bool { return !strings.HasSuffix(v, ext) }) {
		ext = ""
	}
	for r, v := range values {
		short[r] = strings.TrimSuffix(v, ext)
	}
	rows := aligned(short, atom())
	if rows == nil {
		rows = aligned(short, component())
	}
	if rows == nil {
		return [][]string{values}
	}
	count := func(values []string) int { return f.count(&column{values: values}) }
	for i := range rows[0] {
		p, wide := make([]string, f.n), make([]string, f.n)
		n := len(pieces)
		for r := range rows {
			if p[r] = rows[r][i]; n >= 2 {
				wide[r] = pieces[n-2][r] + pieces[n-1][r] + p[r]
			}
		}
		if n >= 2 && f.express(p) == nil && f.express(pieces[n-2]) == nil && (whole || count(wide) < count(p)*count(pieces[n-2])) {
			pieces = append(pieces[:n-2], wide)
			continue
		}
		pieces = append(pieces, p)
	}
	for i := len(pieces) - 1; i >= 0; i-- {
		word := numbered().FindStringSubmatch(pieces[i][0])
		if word == nil || f.express(pieces[i]) != nil || slices.ContainsFunc(pieces[i], func(v string) bool { w := numbered().FindStringSubmatch(v); return w == nil || w[1] != word[1] }) {
			continue
		}
		numbers := make([]string, f.n)
		for r, v := range pieces[i] {
			numbers[r] = v[len(word[1]):]
		}
		if step(f.distinct([]*column{{values: numbers}})[0].values) != 1 {
			continue // such as resnet18 and resnet50
		}
		pieces = slices.Replace(pieces, i, i+1, slices.Repeat([]string{word[1]}, f.n), numbers)
	}
	return append(pieces, slices.Repeat([]string{ext}, f.n))
}

// reserved are words that mean something else in a matrix, or name the parameters that only number jobs.
var reserved = strings.Fields("from zip sample rep i run trial worker")

func (f *folding) param(c *cell, values []string) *column {
	name := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(c.hint, "_"), "_")
	if name == "" || len(name) > 40 {
		name = "arg"
	}
	lower := strings.ToLower(name)
	if !expand.Free(lower) || slices.Contains(reserved, lower) && (name != "rep" || c.inShell()) {
		name = "p_" + name
	}
	for n, base := 2, name; slices.ContainsFunc(f.cols, func(o *column) bool { return strings.EqualFold(o.name, name) }); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	col := &column{name, values, c.Raw}
	f.cols = append(f.cols, col)
	return col
}

// columns creates the parameters of a table, those of simple texts first, so that the rest can be
// expressed with them.
func (f *folding) columns(rows [][]cell) {
	first := rows[0]
	values, order, rank := make([][]string, len(first)), []int{}, make([]int, len(first))
	f.texts = make([][]part, len(first))
	for i := range first {
		for r := range rows {
			values[i] = append(values[i], rows[r][i].Text)
		}
		all := strings.Join(values[i], "")
		if f.count(&column{values: values[i]}) == 1 {
			f.texts[i] = []part{{lit: first[i].Text}}
			continue
		}
		order = append(order, i)
		switch rank[i] = len(all); {
		case first[i].Raw:
		case strings.ContainsAny(all, "/_:,") || !first[i].inShell():
			rank[i] += 2 << 40
		case first[i].hint == "":
			rank[i] += 1 << 40
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank[a] - rank[b] })
	for _, i := range order {
		if first[i].Raw {
			f.texts[i] = []part{{col: f.param(&first[i], values[i])}}
			continue
		}
		if f.texts[i] = f.express(values[i]); f.texts[i] != nil {
			continue
		}
		for _, p := range f.split(values[i], first[i].hint == "rep") {
			text := f.express(p)
			if text == nil && strings.Join(p, "") != "" {
				text = []part{{col: f.param(&first[i], p)}}
			}
			for _, t := range text {
				f.texts[i] = add(f.texts[i], t)
			}
		}
	}
	place := map[*column]int{}
	for i, text := range slices.Backward(f.texts) {
		for _, p := range text {
			place[p.col] = i
		}
	}
	slices.SortStableFunc(f.cols, func(a, b *column) int { return place[a] - place[b] })
}

// label matches a value that can be part of a job's name.
var label = source.Regexp(`^[A-Za-z0-9+=@,_.-]{1,40}$`)

// name extends the entry's name with what distinguishes its jobs. If the values of a set cannot be
// used in a name, its rows are numbered.
func (f *folding) name(e *Entry) {
	for s, set := range e.params {
		var parts []*column
		for _, c := range set {
			if f.count(append(parts, c)...) > f.count(parts...) && !slices.ContainsFunc(c.values, func(v string) bool { return !label().MatchString(v) }) {
				parts = append(parts, c)
			}
		}
		if of, n := f.number(set); f.count(parts...) < n || len(parts) > 3 || len(e.params) > 1 && len(parts) > 1 {
			values := make([]string, f.n)
			for r, i := range of {
				values[r] = strconv.Itoa(i + 1)
			}
			parts = []*column{{name: fmt.Sprint([]string{"i", "run", "trial", "worker"}[s%4], strings.Repeat("_", s/4)), values: values}}
			e.params[s] = append(parts, set...)
		}
		for _, c := range parts {
			e.Name += "-{" + c.name + "}"
		}
	}
}

// fields replaces the parameters in text with their values in row r.
func fields(text string, cols []*column, r int) string {
	for _, c := range cols {
		text = strings.ReplaceAll(text, "{"+c.name+"}", c.values[r])
	}
	return text
}

// matching returns a glob that contains parameters of the entry. For each job of the entry, the glob
// matches the names of exactly those jobs of other that this job waited for. matching returns "" if
// there is no such glob.
func (e *Entry) matching(other *Entry, waited func(i, k int) bool) string {
	f, glob := &folding{n: len(e.Jobs), cols: e.rows}, other.Name
	for _, c := range other.rows {
		values := make([]string, f.n)
		for r, k := range e.Jobs {
			for q, i := range other.Jobs {
				if v := c.values[q]; waited(i, k) && values[r] != v {
					values[r] = map[bool]string{true: v, false: "*"}[values[r] == ""]
				}
			}
		}
		text := ""
		for _, p := range f.express(values) {
			if text += p.lit; p.col != nil {
				text += "{" + p.col.name + "}"
			}
		}
		glob = strings.ReplaceAll(glob, "{"+c.name+"}", cmp.Or(text, "*"))
	}
	for r, k := range e.Jobs {
		for q, i := range other.Jobs {
			if ok, _ := path.Match(fields(glob, e.rows, r), fields(other.Name, other.rows, q)); ok != waited(i, k) || !strings.Contains(glob, "{") {
				return ""
			}
		}
	}
	return glob
}

// needsQuotes reports whether a shell would change s if it were not in quotes.
func needsQuotes(s string) bool { return shellescape.Quote(s) != s }

// fill sets the entry's texts from the cells of the table.
func (f *folding) fill(e *Entry, row []cell) {
	names := e.names()
	for i := range row {
		c, text := &row[i], ""
		name, env := strings.CutPrefix(c.kind, "env ")
		for _, p := range f.texts[i] {
			lit := p.lit
			switch {
			case p.col != nil && (p.col.raw || !c.inShell() || !slices.ContainsFunc(p.col.values, needsQuotes)):
				lit = "{" + p.col.name + "}"
			case p.col != nil:
				lit = "{" + p.col.name + ":q}"
			case c.inShell() && !c.Raw && (lit != "" || len(f.texts[i]) == 1):
				lit = expand.Escape(shellescape.Quote(lit), names...)
			case env:
				lit = expand.Escape(strings.ReplaceAll(lit, "$", "$$"), names...)
			default:
				lit = expand.Escape(lit, names...)
			}
			text += lit
		}
		switch last := len(e.run) - 1; {
		case c.kind == "command":
			e.run = append(e.run, "")
		case env:
			name, inherits := strings.CutSuffix(name, "+")
			if inherits {
				text += "$" + name
			}
			e.env = append(e.env, name+"="+text)
		case !c.inShell():
			e.keys = append(e.keys, [2]string{c.kind, text})
		case e.run[last] == "":
			e.run[last] = text
		default:
			e.run[last] += " " + text
		}
	}
}
