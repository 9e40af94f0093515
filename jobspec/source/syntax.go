package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// ParseYAML parses data, which must be a single document.
func ParseYAML(data []byte) (root *yaml.Node, err error) {
	// The parser may panic on malformed input.
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
		return nil, &SecondDocument{second.Line}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return nil, io.EOF
	}
	return doc.Content[0], nil
}

// jsonEscape matches an escape in JSON. In an escape such as \u00e9, it matches only the \u, but it
// matches a pair of surrogates as a whole.
var jsonEscape = Regexp(`\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|.)`)

// Document parses the file, which must be a single document. JSON may contain two kinds of escapes
// that the YAML parser refuses: \/ and pairs of surrogates, as in Python's "\ud83d\ude00".
func (s *Source) Document() (*yaml.Node, error) {
	root, err := ParseYAML(s.Data)
	if err == nil || !json.Valid(s.Data) {
		return root, err
	}
	return ParseYAML(jsonEscape().ReplaceAllFunc(s.Data, func(escape []byte) []byte {
		var text string
		if escape[1] == '/' || len(escape) > 2 {
			_ = json.Unmarshal([]byte(`"`+string(escape)+`"`), &text)
			return []byte(text)
		}
		return escape
	}))
}

// A SecondDocument error reports that a file has more than one document.
type SecondDocument struct{ Line int }

func (e *SecondDocument) Error() string { return "a second document" }

// Parse parses the file's document. It returns nil after a problem. keys are the words that may
// begin a line, for hints.
func (s *Source) Parse(keys []string) *yaml.Node {
	root, err := s.Document()
	var second *SecondDocument
	switch {
	case err == nil:
		return root
	case errors.Is(err, io.EOF):
		s.Problem(0, 0, "a job file starts with \"jobs:\"", "contains only comments")
	case errors.As(err, &second):
		s.Problem(second.Line, 1, "remove the line \"---\", or split the file in two", "a job file holds one YAML document, but another one starts here")
	default:
		s.syntax(err, keys)
	}
	return nil
}

var (
	anchorError = Regexp(`unknown anchor '([^']*)' referenced`)
	lineError   = Regexp(`^line \d+: `)
	// The usual mistake is a value that begins with a brace, a star or another character that is
	// special in YAML.
	unquoted = Regexp("(?:^|[:\\-\\[,])[ \\t]+([{*&%@`!|>][^#]*?)[ \\t]*(?:#.*)?$")
	// A quoted value with more text after it.
	quoted = Regexp(`(?:^|[:-])[ \t]+("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')[ \t]*[^\s#,:\]}]`)
	braced = Regexp(`\{[A-Za-z_][A-Za-z0-9_]*(:[^{} ][^{}]*)?\}`)
	// A quoted text, to the end of the line if its quote is not closed.
	inQuotes = Regexp(`"(?:[^"\\]|\\.)*"?|'[^']*'?`)
	// The first item of the rest of a list in brackets.
	listItem = Regexp(`^(?:\{[^{}]*\})?[^,\]}]*`)
)

// syntax turns the parser's error into a problem at the right line.
func (s *Source) syntax(err error, keys []string) {
	msg := lineError().ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")
	if m := anchorError().FindStringSubmatch(msg); m != nil {
		line, col := s.Find(1, 1, "*"+m[1])
		s.Problem(line, col, fmt.Sprintf("quote it: %q", "*"+m[1]), "%q is an alias without an anchor &%s before it", "*"+m[1], m[1])
		return
	}
	line := s.brokenLine()
	text := s.Line(line)
	col := 1 + utf8.RuneCountInString(text) - utf8.RuneCountInString(strings.TrimLeft(text, " "))
	hint, bare := "", inQuotes().ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat(" ", len(s)) })
	colon := strings.Contains(msg, "mapping values are not allowed")
	if i := strings.IndexByte(text, '\t'); i >= 0 && strings.TrimLeft(text[:i], " ") == "" {
		col, hint, msg = i+1, "indent with spaces", "YAML does not allow tabs as indentation"
	} else if missing := s.missingColon(line, keys); missing != "" {
		hint = missing
	} else if i := strings.IndexByte(text, '\\'); i >= 0 && (strings.Contains(msg, "escape") || strings.Contains(msg, "hexdecimal")) {
		col, hint = 1+utf8.RuneCountInString(text[:i]), "a backslash inside \"…\" starts an escape: use '…', or double it"
	} else if key, _, ok := strings.Cut(strings.TrimSpace(text), ":"); ok && strings.HasPrefix(key, "@") {
		hint = fmt.Sprintf("quote it: %q", key)
	} else if i := secondColon(text); colon && i >= 0 {
		col = 1 + utf8.RuneCountInString(text[:i])
		hint = "quote the whole value if it contains \": \", or write it under a \"|\""
	} else if at, value := wantsQuotes(text, bare); value != "" {
		col = 1 + utf8.RuneCountInString(text[:at])
		hint = fmt.Sprintf("quote it: %q", value)
	} else if strings.Contains(msg, "end of stream") {
		hint = "a quote or bracket opened here is not closed"
	} else if opens(bare) && strings.Contains(msg, "','") {
		hint = "a bracket opened here is not closed"
	} else if m := quoted().FindStringSubmatchIndex(text); m != nil {
		col = 1 + utf8.RuneCountInString(text[:m[3]])
		hint = fmt.Sprintf("the quoted value ends at %s: write the whole value without quotes under a \"|\"", text[m[2]:m[3]])
		if strings.Contains(msg, "','") {
			hint = fmt.Sprintf("add a comma after %s, or quote the whole value", text[m[2]:m[3]])
		}
	} else if m := braced().FindStringIndex(bare); m != nil {
		col = 1 + utf8.RuneCountInString(text[:m[0]])
		hint = "quote the whole value: \"… " + text[m[0]:m[1]] + " …\""
	} else if colon {
		hint = "check its indentation, and quote values that contain \": \""
	}
	switch {
	case hint != "":
	case strings.Contains(msg, "incompatible YAML document"):
		hint = "remove the line"
	case strings.Contains(msg, "did not find expected"):
		hint = "check its indentation"
	}
	s.Problem(line, col, hint, "%q is not valid YAML: %s", Clip(strings.TrimSpace(text)), msg)
}

// wantsQuotes returns the first value of a line that must be quoted, and its position; "" for none.
// bare is the line without quoted text.
func wantsQuotes(text, bare string) (at int, value string) {
	for from := 0; ; from = at {
		m := unquoted().FindStringSubmatchIndex(text[from:])
		if m == nil {
			return 0, ""
		}
		at, value = from+m[2], text[from+m[2]:from+m[3]]
		if opens(bare[:at]) { // it is an item in brackets
			value = strings.TrimSpace(listItem().FindString(value))
		}
		if !strings.Contains(value, ": ") {
			return at, value
		}
	}
}

// opens reports whether a line without quoted text opens more brackets than it closes.
func opens(line string) bool {
	return strings.Count(line, "[")+strings.Count(line, "{") > strings.Count(line, "]")+strings.Count(line, "}")
}

// missingColon returns a hint if a known key lacks its colon or the space after it; otherwise "".
// It checks the key at the beginning of this line, and the one at the beginning of the last line
// before it that is not blank or a comment.
func (s *Source) missingColon(line int, keys []string) string {
	if hint := WantsColon(s.Line(line), keys); hint != "" {
		return hint
	}
	for line--; line > 0; line-- {
		if text := strings.TrimSpace(s.Line(line)); text != "" && text[0] != '#' {
			if hint := WantsColon(text, keys); hint != "" {
				return hint + fmt.Sprintf(" (line %d)", line)
			}
			break
		}
	}
	return ""
}

var firstWord = Regexp(`^ *(?:- +)*([a-z_]+)(:?)([^ ]?)(.*)$`)

// WantsColon returns a hint if a line begins with one of keys without ": " after it; otherwise "".
func WantsColon(text string, keys []string) string {
	m := firstWord().FindStringSubmatch(text)
	if m == nil || !slices.Contains(keys, m[1]) {
		return ""
	}
	switch {
	case m[2] == "" && m[3] == "" && !strings.Contains(m[4], ":"):
		return fmt.Sprintf("is a colon missing after %q?", m[1])
	case m[2] != "" && m[3] != "":
		return fmt.Sprintf("add a space after \"%s:\"", m[1])
	}
	return ""
}

// secondColon returns the index of a line's second ": ", which turns the value into a mapping, or
// -1.
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

// brokenLine returns the first line that breaks the document. Because the parser reports the line
// where the surrounding block began, brokenLine searches for the longest valid prefix of the file,
// and returns the line after it.
func (s *Source) brokenLine() int {
	lines := s.split()
	good := func(n int) bool {
		_, err := ParseYAML(bytes.Join(lines[:n], nil))
		return err == nil || errors.Is(err, io.EOF)
	}
	low, high := 0, len(lines)
	for low < high-1 {
		mid := (low + high) / 2
		if good(mid) {
			low = mid
			continue
		}
		high = mid
		// An open bracket or quote breaks a prefix but may be closed later.
		for n := high + 1; n < len(lines) && n <= high+20; n++ {
			if good(n) {
				low, high = n, len(lines)
				break
			}
		}
	}
	return low + 1
}
