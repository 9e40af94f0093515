package results

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec"
)

// caption describes the numbers.
func (b *build) caption(t *Table) string {
	text := "one job each"
	switch {
	case len(t.Over) == 0 && t.several():
		text = "mean ± " + t.Err.Words() + " over jobs with the same parameters, (n)"
	case len(t.Over) > 0:
		text = "mean ± " + t.Err.Words() + " over " + t.Over[0] + ", (n)"
		if len(t.Over) > 1 {
			text = "mean ± " + t.Err.Words() + " over " + t.Over[0] + ", each the mean over " + strings.Join(t.Over[1:], ", ") + ", (n of " + t.Over[0] + ")"
		}
	}
	for _, f := range b.where {
		is := "="
		if f.not {
			is = "≠"
		}
		text += "; " + f.name + is + strings.Join(f.values, ",")
	}
	var fixed []string
	for i, f := range b.factors[:b.params] {
		named := slices.Contains(b.rows, i) || slices.ContainsFunc(b.where, func(w filter) bool { return w.name == f.name })
		if !named && !b.varies(i) && f.values[0] != "" {
			fixed = append(fixed, f.name+"="+f.values[0])
		}
	}
	if len(fixed) > 0 {
		text += "; all with " + list(fixed, 8)
	}
	if t.Versus != "" {
		by := "job"
		if len(t.Over) > 0 {
			by = strings.Join(t.Over, ", ")
		}
		text += "; Δ is the mean paired difference from " + t.Versus + " ± " + CI95.Words() + ", paired by " + by
	}
	return text
}

// note adds the notes that help to read the table.
func (b *build) note(t *Table) {
	note := func(format string, args ...any) { t.Notes = append(t.Notes, fmt.Sprintf(format, args...)) }
	if b.best >= 0 {
		m := b.data.Metrics[b.best]
		note("showing the best complete setting of %s by %s (%s)", strings.Join(b.names(b.others), ", "), m.Name, m.Goal)
		if slices.Contains(b.metrics, b.best) {
			note("%s both selects the settings and is reported, so its values are optimistic: select by a validation metric", m.Name)
		}
		if b.pivot >= 0 {
			b.noteChoices(t, note)
		}
	}
	if t.Versus != "" {
		k := 0
		for _, r := range t.Rows {
			for c := range t.Columns {
				if t.Columns[c].Versus && r.Cells[c].N > 1 {
					k++
				}
			}
		}
		if k > 1 {
			note("%d intervals at 95%% each, not corrected for multiple comparisons", k)
		}
		if names := t.unmatched(); len(names) > 0 {
			note("not paired with %s: %s", t.Versus, list(names, 8))
		}
	}
	for _, m := range b.metrics {
		for _, j := range b.jobs {
			if m < len(j.Why) && j.Why[m] != "" && b.has[j.Kind][m] && j.why(m) == "missing" {
				note("%s of %s is missing: %s", b.data.Metrics[m].Name, j.Name, j.Why[m])
				break
			}
		}
	}
	sim := 0
	for _, j := range b.jobs {
		if j.Sim {
			sim++
		}
	}
	if sim > 0 {
		note("%s ran on simulated GPUs", of(sim, len(b.jobs)))
	}
}

func (b *build) noteChoices(t *Table, note func(string, ...any)) {
	for _, r := range t.Rows {
		for id, value := range b.factors[b.pivot].values {
			c := b.settled[idKey(slices.Concat(r.ids, []int32{int32(id)}))]
			if c == nil {
				continue
			}
			var words []string
			for k, f := range b.others {
				words = append(words, b.factors[f].name+"="+c.Values[k])
			}
			where := strings.TrimSpace(strings.Join(r.Values, " ") + " " + value)
			if c.Full == 0 {
				note("%s: %s", where, c.Words())
			} else {
				note("%s: %s (%s)", where, strings.Join(words, ", "), c.Words())
			}
		}
	}
}

// warn adds warnings about suspicious numbers.
func (b *build) warn(t *Table) {
	warn := func(format string, args ...any) { t.Warnings = append(t.Warnings, fmt.Sprintf(format, args...)) }
	if len(t.Over) > 0 {
		if rows, of, same := b.alike(t); same >= minRepeats {
			where := "in any row"
			if len(rows) < of {
				where = "in " + list(rows, 3)
			}
			warn("%s makes no difference %s: does the program use the %s?", t.Over[0], where, t.Over[0])
		}
	}
	commits := map[string]int{}
	var order []string
	for _, j := range b.jobs {
		if j.Commit != "" && slices.ContainsFunc(j.Values, func(v Value) bool { return v.Is }) {
			if commits[j.Commit]++; commits[j.Commit] == 1 {
				order = append(order, j.Commit)
			}
		}
	}
	if len(order) > 1 {
		var words []string
		for _, c := range order {
			words = append(words, c[:min(len(c), 8)]+map[bool]string{true: "+"}[strings.HasSuffix(c, "+") && len(c) > 8]+" ("+strconv.Itoa(commits[c])+")")
		}
		warn("values come from %d versions of the code (number of jobs in parentheses; + means uncommitted changes): %s", len(order), list(words, 6))
	}
	for _, m := range b.metrics {
		if !b.data.Metrics[m].Percent {
			continue
		}
		for _, j := range b.jobs {
			if x := j.value(m).X; finite(x) && (x > 1.5 || x < -1.5) {
				warn("%s of %s is %s, which already looks like a percentage: remove percent: true", b.data.Metrics[m].Name, j.Name, number(x, 4))
				break
			}
		}
	}
}

// minRepeats is how many seeds must repeat another seed's result to cause a warning. Fewer repeats
// may be a coincidence, such as equal accuracies on a small test set.
const minRepeats = 2

// alike returns the rows in which all seeds have identical results, the number of rows with several
// seeds, and the number of seeds that repeat another. It looks only at metrics with a goal, if
// there are any.
func (b *build) alike(t *Table) (rows []string, of, same int) {
	judged := func(c *Column) bool { return !c.Versus && c.Goal != jobspec.NoGoal }
	if !slices.ContainsFunc(t.Columns, func(c Column) bool { return judged(&c) }) {
		judged = func(c *Column) bool { return !c.Versus }
	}
	for _, r := range t.Rows {
		byID := map[int32][3]int{} // by value of the pivot: cells with several seeds, those with identical results, and their seeds
		var ids []int32
		for k := range t.Columns {
			c, x := &t.Columns[k], &r.Cells[k]
			if !judged(c) || x.N < 2 {
				continue
			}
			n := byID[c.id]
			if n[0] == 0 {
				ids = append(ids, c.id)
			}
			n[0]++
			n[2] = max(n[2], x.N)
			if x.SD == 0 {
				n[1]++
			}
			byID[c.id] = n
		}
		for _, id := range ids {
			of++
			if n := byID[id]; n[0] == n[1] {
				same += n[2] - 1
				var words []string
				for k, value := range r.Values {
					words = append(words, t.Params[k]+"="+value)
				}
				if id >= 0 {
					words = append(words, t.Pivot+"="+b.factors[b.pivot].values[id])
				}
				rows = append(rows, strings.Join(words, " "))
			}
		}
	}
	return rows, of, same
}

// of returns "N of ALL jobs", or "all jobs".
func of(n, all int) string {
	if n == all {
		return "all jobs"
	}
	return strconv.Itoa(n) + " of " + strconv.Itoa(all) + " jobs"
}

// sort sorts the rows by a metric, with the best or largest value first, or by a parameter.
func (t *Table) sort(by string) error {
	by, reverse := strings.CutPrefix(by, "-")
	if by == "" {
		return nil
	}
	if at := slices.Index(t.Params, by); at >= 0 {
		slices.SortStableFunc(t.Rows, func(x, y *Row) int { return turned(natural(x.Values[at], y.Values[at]), reverse) })
		return nil
	}
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	at := slices.Index(names, by)
	if at < 0 {
		return refuse("columns: "+list(slices.Concat(t.Params, slices.Compact(names)), 12), "--sort: no column %q", by)
	}
	up := t.Columns[at].Goal == jobspec.Min // smaller is better
	slices.SortStableFunc(t.Rows, func(x, y *Row) int {
		a, b := &x.Cells[at], &y.Cells[at]
		if a.N == 0 || b.N == 0 { // rows without a value come last in either order
			return b.N - a.N
		}
		return turned(cmp.Compare(a.Mean, b.Mean), reverse == up)
	})
	return nil
}

func turned(c int, reverse bool) int {
	if reverse {
		return -c
	}
	return c
}

// natural compares values as numbers if possible.
func natural(a, b string) int {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if err1 != nil || err2 != nil {
		return strings.Compare(a, b)
	}
	return cmp.Compare(x, y)
}
