package jobspec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
)

// String formats the problem on one line: file:line:column, what is wrong, the fix.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		b.WriteString(":" + strconv.Itoa(p.Line))
		if p.Col > 0 {
			b.WriteString(":" + strconv.Itoa(p.Col))
		}
	}
	b.WriteString(": " + p.Message())
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Message returns what is wrong and the lint that found it, without the position.
func (p Problem) Message() string {
	if p.Lint == "" {
		return p.Text
	}
	return p.Text + " [" + p.Lint + "]"
}

// Error makes a Problem an error.
func (p Problem) Error() string { return p.String() }

// A report collects problems, each once: a mistake in a matrix is reported for the
// first expansion that has it, not for all of them.
type report struct {
	problems []Problem
	warnings []Problem
	seen     map[Problem]bool
}

func (r *report) add(p Problem) {
	if r.first(p) {
		r.problems = append(r.problems, p)
	}
}

func (r *report) warn(p Problem) {
	if r.first(p) {
		r.warnings = append(r.warnings, p)
	}
}

func (r *report) first(p Problem) bool {
	if r.seen == nil {
		r.seen = map[Problem]bool{}
	}
	if r.seen[p] {
		return false
	}
	r.seen[p] = true
	return true
}

// sortProblems orders problems by file as given, line and column.
func sortProblems(list []Problem, files []string) {
	order := map[string]int{}
	for i, f := range files {
		if _, ok := order[f]; !ok {
			order[f] = i
		}
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(order[a.File], order[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col),
		)
	})
}

// nearest returns the known word most likely meant by a mistyped one, or "".
func nearest(word string, known []string) string {
	best, dist := "", 1+len(word)/3
	for _, k := range known {
		if len(k) > len(word)+dist || len(word) > len(k)+dist {
			continue
		}
		if d := levenshtein.ComputeDistance(strings.ToLower(word), k); d <= dist && (best == "" || d < dist) {
			best, dist = k, d
		}
	}
	return best
}

// didYouMean returns a hint with the nearest known word, or otherwise.
func didYouMean(word string, known []string, otherwise string) string {
	if n := nearest(word, known); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return otherwise
}

// clip shortens s for a message.
func clip(s string) string {
	const most = 60
	s, _, cut := strings.Cut(s, "\n")
	if r := []rune(s); len(r) > most {
		s, cut = string(r[:most]), true
	}
	if cut {
		s += "…"
	}
	return s
}
