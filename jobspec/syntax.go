package jobspec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// parseYAML reads the one document of data.
func parseYAML(data []byte) (root *yaml.Node, err error) {
	// The parser is known to panic on some malformed input.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("yaml: %v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, &secondDocument{second.Line}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return nil, io.EOF
	}
	return doc.Content[0], nil
}

type secondDocument struct{ line int }

func (e *secondDocument) Error() string { return "a second document" }

// parse reads the file's document, and nil after a problem.
func (s *source) parse() *yaml.Node {
	root, err := parseYAML(s.data)
	var second *secondDocument
	switch {
	case err == nil:
		return root
	case errors.Is(err, io.EOF):
		s.problem(0, 0, "a job file starts with \"jobs:\"", "holds nothing but comments")
	case errors.As(err, &second):
		s.problem(second.line, 1, "take out the line \"---\", or write two files", "a second YAML document begins here; a job file has one")
	default:
		s.syntax(err)
	}
	return nil
}

var (
	anchorError = regexp.MustCompile(`unknown anchor '([^']*)' referenced`)
	lineError   = regexp.MustCompile(`^line \d+: `)
	// What everybody gets wrong: a value that begins with a brace, a star or another
	// character that means something to YAML.
	unquoted = regexp.MustCompile("(?:^|[:\\-\\[,])[ \\t]+([{*&%@`!|>][^#]*?)[ \\t]*(?:#.*)?$")
	braced   = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*(:[^{}]*)?\}`)
)

// syntax turns the parser's complaint into a problem with the line it is about.
func (s *source) syntax(err error) {
	msg := lineError.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")
	if m := anchorError.FindStringSubmatch(msg); m != nil {
		line, col := s.find(1, 1, "*"+m[1])
		s.problem(line, col, fmt.Sprintf("quote it: %q", "*"+m[1]), "%q is an alias, and no anchor &%s stands before it", "*"+m[1], m[1])
		return
	}
	line := s.brokenLine()
	text := s.line(line)
	col := 1 + utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(text, " "))
	hint := ""
	colon := strings.Contains(msg, "mapping values are not allowed")
	if i := strings.IndexByte(text, '\t'); i >= 0 && strings.TrimLeft(text[:i], " ") == "" {
		col, hint, msg = i+1, "indent with spaces", "a tab is no indentation in YAML"
	} else if missing := s.missingColon(line); missing != "" {
		hint = missing
	} else if i := strings.IndexByte(text, '\\'); i >= 0 && badEscape(msg) {
		col, hint = 1+utf8.RuneCountInString(text[:i]), "a backslash inside \"…\" begins an escape: use '…', or write it twice"
	} else if m := unquoted.FindStringSubmatchIndex(text); m != nil && !strings.Contains(text[m[2]:m[3]], ": ") {
		col = 1 + utf8.RuneCountInString(text[:m[2]])
		hint = fmt.Sprintf("quote it: %q", text[m[2]:m[3]])
	} else if i := secondColon(text); colon && i >= 0 {
		col = 1 + utf8.RuneCountInString(text[:i])
		hint = "a value with \": \" in it must be quoted as a whole, or written below a \"|\""
	} else if m := braced.FindStringIndex(text); m != nil {
		col = 1 + utf8.RuneCountInString(text[:m[0]])
		hint = "quote the whole value: \"… " + text[m[0]:m[1]] + " …\""
	} else if colon {
		hint = "does it begin in the same column as the lines that it belongs to? a value with \": \" in it must be quoted"
	}
	switch {
	case hint != "":
	case strings.Contains(msg, "incompatible YAML document"):
		hint = "take the line out"
	case strings.Contains(msg, "end of stream"):
		hint = "a quote or bracket that opens here is not closed"
	case strings.Contains(msg, "did not find expected"):
		hint = "does it begin in the same column as the lines that it belongs to?"
	}
	s.problem(line, col, hint, "%q is not YAML: %s", clip(strings.TrimSpace(text)), msg)
}

func badEscape(msg string) bool {
	return strings.Contains(msg, "escape") || strings.Contains(msg, "hexdecimal")
}

// missingColon asks for what is missing behind a word of ours that begins this line
// or the last one before it that says anything, or "".
func (s *source) missingColon(line int) string {
	if hint := wantsColon(s.line(line)); hint != "" {
		return hint
	}
	for line--; line > 0; line-- {
		if text := strings.TrimSpace(s.line(line)); text != "" && text[0] != '#' {
			if hint := wantsColon(text); hint != "" {
				return hint + fmt.Sprintf(" (line %d)", line)
			}
			break
		}
	}
	return ""
}

var firstWord = regexp.MustCompile(`^ *(?:- +)*([a-z_]+)(:?)([^ ]?)[^:]*$`)

// wantsColon says what is missing in a line that begins with a word of ours and
// has no ": " behind it.
func wantsColon(text string) string {
	m := firstWord.FindStringSubmatch(text)
	if m == nil || !slices.Contains(slices.Concat(topKeys, jobKeys, listKeys, settingNames(settingDefs())), m[1]) {
		return ""
	}
	switch {
	case m[2] == "" && m[3] == "":
		return fmt.Sprintf("is a colon missing behind %q?", m[1])
	case m[2] != "" && m[3] != "":
		return fmt.Sprintf("a space is missing behind \"%s:\"", m[1])
	}
	return ""
}

// secondColon is where the second ": " of a line stands, or -1: the one that
// makes a mapping of a value.
func secondColon(text string) int {
	first := strings.Index(text, ": ")
	if first < 0 {
		return -1
	}
	if next := strings.Index(text[first+2:], ": "); next >= 0 {
		return first + 2 + next
	}
	return -1
}

// brokenLine is the first line that breaks the document. The parser names the
// line where the surrounding block began; what is wanted is the line after the
// longest beginning of the file that is a document.
func (s *source) brokenLine() int {
	s.line(1)
	good := func(lines int) bool {
		end := len(s.data)
		if lines < len(s.starts) {
			end = s.starts[lines]
		}
		_, err := parseYAML(s.data[:end])
		return err == nil || errors.Is(err, io.EOF)
	}
	low, high := 0, len(s.starts)
	for low < high-1 {
		if mid := (low + high) / 2; good(mid) {
			low = mid
			continue
		} else {
			high = mid
		}
		// An open bracket or quote breaks a beginning and is closed further on.
		for n := high + 1; n < len(s.starts) && n <= high+20; n++ {
			if good(n) {
				low, high = n, len(s.starts)
				break
			}
		}
	}
	return low + 1
}
