package configedit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// yamlFormat edits YAML. The parser reports where a value begins, in lines and characters, but not
// where it ends, so this code finds the end.
type yamlFormat struct {
	data  []byte
	empty bool // the file has no value
}

func (c *yamlFormat) parse(data []byte) (*yaml.Node, error) {
	c.data = data
	root, err := source.ParseYAML(data)
	if c.empty = errors.Is(err, io.EOF); c.empty {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	}
	return root, err
}

func (*yamlFormat) values(root *yaml.Node) (v any, err error) {
	defer func() { // the parser may panic on malformed input
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("yaml: %v", r)
		}
	}()
	err = root.Decode(&v)
	return plainValues(v), err
}

func (*yamlFormat) spell(v Value) (string, error) { return yamlText(v, 0), nil }

// offset returns the byte offset of a node. YAML has line breaks other than \n.
func (c *yamlFormat) offset(n *yaml.Node) int {
	at := 0
	for line, column := 1, 1; at < len(c.data) && (line < n.Line || line == n.Line && column < n.Column); column++ {
		r, size := utf8.DecodeRune(c.data[at:])
		at += size
		if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) && !(r == '\r' && bytes.HasPrefix(c.data[at:], []byte("\n"))) {
			line, column = line+1, 0
		}
	}
	return at
}

const (
	quoteStyles = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle
	blockStyles = yaml.LiteralStyle | yaml.FoldedStyle
)

// These match the text at a position.
var (
	property    = regexp.MustCompile(`^[&!][^ \t\r\n,\]}]*`)
	space       = regexp.MustCompile(`^(?:[ \t\r\n]|#[^\n]*)*`)
	inQuotes    = regexp.MustCompile(`(?s)^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')`)
	blockHeader = regexp.MustCompile(`^[|>][-+0-9]*`)
	firstIndent = regexp.MustCompile(`^[ \t\r\n]*[\r\n]( *)[ \t]*[^ \t\r\n]`)
)

// A place is the position of a value in the text.
type place struct {
	properties int  // the end of the value's anchor and tag
	tag        span // a standard tag (!!int), which is removed with its value
	from, to   int  // the value; to is -1 if its end is unknown
}

func (c *yamlFormat) place(n *yaml.Node) place {
	p := place{from: c.offset(n), to: -1}
	for p.properties = p.from; ; p.from += len(space.Find(c.data[p.from:])) {
		word := property.Find(c.data[p.from:])
		if word == nil || word[0] == '&' && n.Anchor == "" || word[0] == '!' && n.Style&yaml.TaggedStyle == 0 {
			break
		}
		from := p.from
		p.from += len(word)
		p.properties = p.from
		if strings.HasPrefix(string(word), "!!") {
			p.tag = span{from: from, to: p.from}
			for n.Value != "" && p.tag.to < len(c.data) && c.data[p.tag.to] == ' ' {
				p.tag.to++
			}
		}
	}
	switch {
	case n.Kind == yaml.AliasNode:
		p.to = p.from + 1 + len(n.Value)
	case n.Kind != yaml.ScalarNode || n.Style&blockStyles != 0:
	case n.Style&quoteStyles != 0:
		if text := inQuotes.Find(c.data[p.from:]); text != nil {
			p.to = p.from + len(text)
		}
	case n.Value == "":
		p.from, p.to = p.properties, p.properties
	default:
		p.to = c.plainEnd(p.from, n.Value)
	}
	return p
}

// plainEnd returns the end of a plain value that begins at offset at, or -1 if the text there
// differs from the value in more than white space.
func (c *yamlFormat) plainEnd(at int, value string) int {
	for _, r := range value {
		if unicode.IsSpace(r) {
			continue
		}
		for at < len(c.data) {
			got, size := utf8.DecodeRune(c.data[at:])
			at += size
			if got == r {
				break
			}
			if !unicode.IsSpace(got) {
				return -1
			}
		}
	}
	return at
}

func (c *yamlFormat) replace(n, parent *yaml.Node, v Value) ([]span, error) {
	p := c.place(n)
	if n.Style&quoteStyles != 0 && p.to > p.from {
		return c.write(n, parent, p, yamlText(v, c.data[p.from]))
	}
	return c.write(n, parent, p, yamlText(v, 0))
}

// write replaces the text of a value.
func (c *yamlFormat) write(n, parent *yaml.Node, p place, text string) (spans []span, err error) {
	if p.tag.to > p.tag.from {
		spans = append(spans, p.tag)
	}
	switch {
	case n.Style&blockStyles != 0:
		return append(spans, c.block(n, parent, p.from, text)...), nil
	case p.to < 0:
		return nil, errors.New("cannot find the end of the value")
	case p.to == p.from:
		text = c.gap(p.from) + text
	}
	return append(spans, span{p.from, p.to, text}), nil
}

// These match the text before an empty value. After text that matches separated, a new value needs
// no separator; after text that matches named, it needs a space.
var (
	separated = regexp.MustCompile(`(?:^|[ \t\n{\[,])$`)
	named     = regexp.MustCompile(`(?:[:-]|[&!][^ \t\r\n]*)$`)
)

// gap returns the separator to insert before a value that replaces an empty one.
func (c *yamlFormat) gap(at int) string {
	switch before := c.data[:at]; {
	case separated.Match(before):
		return ""
	case named.Match(before):
		return " "
	}
	return ": "
}

// block replaces a | or > value with text and removes its lines. A comment after the indicator
// stays.
func (c *yamlFormat) block(n, parent *yaml.Node, at int, text string) []span {
	header := blockHeader.Find(c.data[at:])
	from := c.breakBefore(at)
	least := c.indentOf(parent, n) + 1
	if m := firstIndent.FindSubmatch(c.data[from:]); m != nil && !bytes.ContainsAny(header, "123456789") {
		least = max(least, len(m[1]))
	}
	lines := regexp.MustCompile(`^(?:[ \t\r\n]*[\r\n]` + strings.Repeat(" ", least) + `[ \t]*[^ \t\r\n][^\r\n]*)*`)
	return []span{{at, at + len(header), text}, {from, from + len(lines.Find(c.data[from:])), ""}}
}

// breakBefore returns the end of the text on the line that contains at.
func (c *yamlFormat) breakBefore(at int) int {
	if i := bytes.IndexAny(c.data[at:], "\r\n"); i >= 0 {
		return at + i
	}
	return len(c.data)
}

// indentOf returns the 0-based column beyond which the lines of a block value must be indented.
func (c *yamlFormat) indentOf(parent *yaml.Node, n *yaml.Node) int {
	if i := slices.Index(parent.Content, n); parent.Kind == yaml.MappingNode && i > 0 {
		return parent.Content[i-1].Column - 1
	}
	return parent.Column - 1
}

// insert adds a pair to a mapping or to an empty value.
func (c *yamlFormat) insert(n *yaml.Node, pair string) ([]span, error) {
	if c.empty {
		if len(c.data) > 0 && c.data[len(c.data)-1] != '\n' {
			pair = "\n" + pair
		}
		return []span{{len(c.data), len(c.data), pair + "\n"}}, nil
	}
	p := c.place(n)
	switch {
	case n.Kind == yaml.ScalarNode && n.Style&blockStyles == 0:
		return c.write(n, nil, p, "{"+pair+"}")
	case n.Style&yaml.FlowStyle != 0:
		if len(n.Content) > 0 {
			pair += ", "
		}
		return []span{{p.from + 1, p.from + 1, pair}}, nil
	case len(n.Content) == 0:
		return nil, errors.New("cannot add a key to this value")
	}
	return []span{c.insertAfterLast(n, pair)}, nil
}

// insertAfterLast inserts a pair after the last value of a block mapping if the end of that value is
// known, otherwise before the last key, since all keys share a column.
func (c *yamlFormat) insertAfterLast(n *yaml.Node, pair string) span {
	k, last := n.Content[len(n.Content)-2], n.Content[len(n.Content)-1]
	nl := "\n"
	if strings.Contains(string(c.data), "\r\n") {
		nl = "\r\n"
	}
	indent := strings.Repeat(" ", k.Column-1)
	if p := c.place(last); last.Kind == yaml.ScalarNode && p.to > p.from {
		at := c.breakBefore(p.to)
		return span{at, at, nl + indent + pair}
	}
	at := c.offset(k)
	return span{at, at, pair + nl + indent}
}
