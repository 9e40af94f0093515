package source

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// A Problem is an error or a warning in a job file.
type Problem struct {
	File string `json:"file"`             // as given
	Line int    `json:"line,omitempty"`   // 1-based; 0 if it applies to the whole file
	Col  int    `json:"column,omitempty"` // 1-based, in characters; 0 if unknown
	Text string `json:"text"`             // what is wrong, with the text concerned
	Hint string `json:"hint,omitempty"`   // a fix, or the nearest known word
	Lint string `json:"lint,omitempty"`   // the lint that found it, as named in allow
}

// Because returns p with the text of err appended. If err has a fix, the fix becomes the hint.
func (p Problem) Because(err error) Problem {
	p.Text += err.Error()
	var f *Fault
	if errors.As(err, &f) {
		p.Hint = f.Hint
	}
	return p
}

// A Fault is an error in a value or a file, with a fix, but without a position.
type Fault struct{ Text, Hint string }

func (f *Fault) Error() string { return f.Text }

// Faultf returns a Fault with formatted text.
func Faultf(hint, format string, args ...any) error {
	return &Fault{fmt.Sprintf(format, args...), hint}
}

// Error formats the problem on one line: file:line:column, what is wrong, the fix.
func (p Problem) Error() string {
	text := p.Place() + p.Message()
	if p.Hint != "" {
		text += "; " + p.Hint
	}
	return text
}

// Place returns "file:line:column: ", or the known part of it.
func (p Problem) Place() string {
	switch {
	case p.Line == 0 && p.File == "":
		return ""
	case p.Line == 0:
		return p.File + ": "
	case p.Col == 0:
		return fmt.Sprintf("%s:%d: ", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Col)
}

// Message returns what is wrong and the lint that found it, without the position.
func (p Problem) Message() string {
	if p.Lint == "" {
		return p.Text
	}
	return p.Text + " [" + p.Lint + "]"
}

// A Report collects problems without duplicates: a mistake in a matrix is reported for the first
// expansion that has it, not for all.
type Report struct {
	Problems []Problem
	Warnings []Problem
	Reading  func(path string) // called with the path of each file just before it is read; may be nil
	seen     map[Problem]bool
}

// Note reports that gpurun is about to try to read a file, which may not exist.
func (r *Report) Note(path string) {
	if r.Reading != nil {
		r.Reading(path)
	}
}

// Add adds errors.
func (r *Report) Add(problems ...Problem) {
	for _, p := range problems {
		if r.first(p) {
			r.Problems = append(r.Problems, p)
		}
	}
}

// Warn adds a warning.
func (r *Report) Warn(p Problem) {
	if r.first(p) {
		r.Warnings = append(r.Warnings, p)
	}
}

func (r *Report) first(p Problem) bool {
	if r.seen == nil {
		r.seen = map[Problem]bool{}
	}
	if r.seen[p] {
		return false
	}
	r.seen[p] = true
	return true
}

// Sort orders problems by file, in the order of files, then by line and column.
func Sort(list []Problem, files []string) {
	order := map[string]int{}
	for i, f := range slices.Backward(files) {
		order[f] = i
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(order[a.File], order[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col),
		)
	})
}

// Nearest returns the known word that a mistyped word most likely stands for, or "" if none is near
// enough.
func Nearest(word string, known []string) string {
	return Closest(strings.ToLower(word), known, func(string) int { return 1 + len(word)/3 })
}

// Closest returns the known word nearest to word; if several are equally near, the first of them.
// It ignores each known word whose distance is larger than the result of most, and returns "" if none
// remains.
func Closest(word string, known []string, most func(known string) int) (best string) {
	least := len(word) + 1
	for _, k := range known {
		limit := min(most(k), least-1)
		if len(k) > len(word)+limit || len(word) > len(k)+limit {
			continue // the lengths alone differ too much
		}
		if d := Distance(word, k); d <= limit {
			best, least = k, d
		}
	}
	return best
}

// Distance returns the edit distance of two words; a swap of two adjacent letters counts as 1 if it
// is the only difference.
func Distance(a, b string) int {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) && i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:] {
		return 1
	}
	return levenshtein.ComputeDistance(a, b)
}

// DidYouMean returns a hint that names the known word nearest to word. If no known word is near
// enough, it returns the text in otherwise.
func DidYouMean(word string, known []string, otherwise string) string {
	if n := Nearest(word, known); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return otherwise
}

// Clip shortens s for a message.
func Clip(s string) string {
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
