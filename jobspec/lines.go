package jobspec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gpurun/jobspec/lint"
	"gpurun/jobspec/source"
)

// A commandLine is one job: a command, which may continue on the next lines of the file.
type commandLine struct {
	Name      string // independent of the position in the file; unique in the file
	Text      string
	Line, Col int // position of its first character, 1-based, in characters
}

// A lineReader reads one file.
type lineReader struct {
	file     string
	problems []source.Problem
	lines    []commandLine
	names    map[string]int // number of lines with each name
	taken    []string       // what was removed from lines, without duplicates
	trimmed  int            // number of lines from which something was removed
	first    commandLine    // the first of those lines
}

// parseLines parses a list of commands. Every command becomes a job or a problem. note reports what
// was removed from lines, if anything.
func parseLines(file string, data []byte) (jobs []commandLine, problems []source.Problem, note source.Problem) {
	r := &lineReader{file: file, names: map[string]int{}}
	for _, l := range splitLines(data) {
		r.line(l)
	}
	if r.trimmed > 0 {
		note = source.Problem{File: file, Line: r.first.Line, Col: r.first.Col, Text: r.words(),
			Hint: "gpurun runs lines in parallel, as many as fit on the GPUs, and keeps them running after you log out"}
	}
	return r.lines, r.problems, note
}

// words describes what was removed, and from how many lines.
func (r *lineReader) words() string {
	text := strings.Join(r.taken, " and ") + " dropped from this line"
	switch r.trimmed {
	case 1:
	case 2:
		text += " and one more"
	default:
		text += fmt.Sprintf(" and %d more", r.trimmed-1)
	}
	return text
}

// splitLines joins each line that ends in a backslash with the next one, and drops blank lines and
// comments.
func splitLines(data []byte) []commandLine {
	var all []commandLine
	var l *commandLine // the line being continued
	for n, raw := range strings.Split(string(data), "\n") {
		text, more := continues(raw)
		if l != nil {
			l.Text += text
		} else if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed[0] == '#' {
			continue
		} else {
			all = append(all, commandLine{Text: strings.TrimLeft(text, " \t"), Line: n + 1, Col: 1 + utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(text, " \t"))})
			l = &all[len(all)-1]
		}
		if !more {
			l = nil
		}
	}
	for i := range all {
		all[i].Text = strings.TrimSpace(all[i].Text)
	}
	return all
}

// continues returns a line without the unescaped backslash at its end, and reports whether there
// was one.
func continues(line string) (string, bool) {
	bare := strings.TrimRight(line, `\`)
	if (len(line)-len(bare))%2 == 0 {
		return line, false
	}
	return line[:len(line)-1], true
}

func (r *lineReader) line(l commandLine) {
	s := lint.ParseCommandLine(l.Text)
	switch {
	case s.Err != "":
		r.problem(l, "each line runs on its own: put multi-line commands in a script, and shared setup in --setup",
			"%q is not a complete command: %s", source.Clip(l.Text), s.Err)
		return
	case s.Idle == "wait":
		r.problem(l, "remove it; to order jobs, write a job file with needs (gpurun convert makes one from these lines)",
			"%q has no effect: lines run in parallel, in any order", source.Clip(l.Text))
		return
	case s.Idle != "":
		r.problem(l, fmt.Sprintf("to run it before every line, use --setup %q; for a single line, join the commands with &&", l.Text),
			"%q would be a separate job and not affect the other lines", source.Clip(l.Text))
		return
	}
	if len(s.Taken) > 0 {
		r.took(l, s.Taken)
		l.Text = s.Text
	}
	l.Name = lineName(l.Text)
	r.names[l.Name]++
	if n := r.names[l.Name]; n > 1 {
		l.Name += fmt.Sprintf("-%d", n)
	}
	r.lines = append(r.lines, l)
}

func (r *lineReader) problem(l commandLine, hint, format string, args ...any) {
	r.problems = append(r.problems, source.Problem{File: r.file, Line: l.Line, Col: l.Col, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (r *lineReader) took(l commandLine, what []string) {
	if r.trimmed++; r.trimmed == 1 {
		r.first = l
	}
	for _, w := range what {
		if !strings.Contains(strings.Join(r.taken, " "), w) {
			r.taken = append(r.taken, w)
		}
	}
}

// These limit how much of a line's beginning (the program) and end (the arguments) its name
// contains.
const (
	headLength = 20
	tailLength = 28
)

// lineName returns a name for a line from its text and its hash.
func lineName(text string) string {
	sum := sha256.Sum256([]byte(text))
	return cmp.Or(shortened(slugOf(text)), "line") + "-" + hex.EncodeToString(sum[:4])
}

// slugOf returns text with hyphens in place of characters that are not allowed in names.
func slugOf(text string) string {
	words := strings.FieldsFunc(text, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._=", c))
	})
	return strings.TrimLeft(strings.Join(words, "-"), ".-=")
}

func shortened(slug string) string {
	if n := len(slug); n > headLength+tailLength {
		slug = strings.TrimRight(slug[:headLength], "-.") + ".." + strings.TrimLeft(slug[n-tailLength:], "-.")
	}
	return slug
}

// nameDistinctly renames long lines after the words in which they differ from other lines with the
// same first word. names holds the slugs of lines that were named before, by hash; nameDistinctly
// adds the slugs of the other long lines. apart is false for a list that was named by a version of
// gpurun that did not keep names: its lines are still named after their beginnings and ends.
func nameDistinctly(list []commandLine, names map[string]string, apart bool) {
	have := map[[2]string]int{} // number of lines with a given first word that contain a given word
	for _, l := range list {
		words := strings.Fields(l.Text)
		first := words[0]
		slices.Sort(words)
		for _, w := range slices.Compact(words) {
			have[[2]string{first, w}]++
		}
	}
	for i := range list {
		l := &list[i]
		short, words := shortened(slugOf(l.Text)), strings.Fields(l.Text)
		if short == slugOf(l.Text) {
			continue
		}
		common := func(w string) bool { return have[[2]string{words[0], w}] == have[[2]string{words[0], words[0]}] }
		hash := l.Name[len(short)+1:]
		if key := hash[:8]; names[key] == "" {
			names[key] = short
			if apart && slices.ContainsFunc(words, func(w string) bool { return !common(w) }) {
				names[key] = distinctiveWords(words, common)
			}
		}
		l.Name = names[hash[:8]] + "-" + hash
	}
}

// distinctiveWords returns a slug of a line's first words and its uncommon words, each preceded by
// its option.
func distinctiveWords(words []string, common func(word string) bool) string {
	text, at := "", 0
	for i, w := range words {
		next := words[min(i+1, len(words)-1)]
		if at += len(slugOf(w)) + 1; at <= headLength+1 || !common(w) || w[0] == '-' && next[0] != '-' && !common(next) {
			text += " " + w
		}
	}
	if slug := slugOf(text); len(slug) <= headLength+2*tailLength {
		return slug
	}
	return shortened(slugOf(text))
}

// looksLikeLines reports whether a file of unknown format may be a list of commands: each line is a
// complete command, and none looks like YAML or like the numbers in a block file.
func looksLikeLines(data []byte) bool {
	list := splitLines(data)
	for _, l := range list[:min(len(list), 1000)] {
		word, _, _ := strings.Cut(l.Text, " ")
		if s := lint.ParseCommandLine(l.Text); s.Err != "" || strings.HasSuffix(word, ":") || strings.ContainsAny(word[:1], "-0123456789") {
			return false
		}
	}
	return len(list) > 0
}
