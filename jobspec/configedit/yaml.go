package configedit

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// yamlFormat edits YAML. The parser reports where a value begins, in lines and
// characters; this code finds where it ends.
type yamlFormat struct {
	data  []byte
	lines []int // offset of each line, as the parser counts lines
	empty bool  // the file has no value at all
}

func (c *yamlFormat) parse(data []byte) (*yaml.Node, error) {
	c.data, c.lines = data, yamlLines(data)
	root, err := source.ParseYAML(data)
	if c.empty = errors.Is(err, io.EOF); c.empty {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	}
	return root, err
}

// yamlLines finds the lines: YAML has more line breaks than \n.
func yamlLines(data []byte) []int {
	starts := []int{0}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		i += n
		if r == '\r' && i < len(data) && data[i] == '\n' {
			continue
		}
		if r == '\n' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029 {
			starts = append(starts, i)
		}
	}
	return starts
}

// offset returns the byte at which a node begins.
func (c *yamlFormat) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(c.lines) {
		return len(c.data)
	}
	at := c.lines[n.Line-1]
	for col := 1; col < n.Column && at < len(c.data); col++ {
		_, size := utf8.DecodeRune(c.data[at:])
		at += size
	}
	return at
}

const quoteStyles = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle

func (c *yamlFormat) replace(n, parent *yaml.Node, p Value) ([]span, error) {
	at := c.offset(n)
	if n.Kind == yaml.AliasNode {
		return []span{{at, at + 1 + len(n.Value), yamlText(p, 0)}}, nil
	}
	var spans []span
	at, after, tag := c.properties(n, at)
	if tag.to > tag.from {
		spans = append(spans, tag)
	}
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0, n.Style&yaml.SingleQuotedStyle != 0:
		quote := c.byteAt(at)
		end := c.closing(at, quote)
		if end < 0 {
			return nil, errors.New("cannot find where it ends")
		}
		return append(spans, span{at, end + 1, yamlText(p, quote)}), nil
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return append(spans, c.blockScalar(n, parent, at, p)...), nil
	case n.Value == "":
		return append(spans, span{after, after, c.gap(after) + yamlText(p, 0)}), nil
	}
	end, ok := c.plainEnd(at, n.Value)
	if !ok {
		return nil, errors.New("cannot find where it ends")
	}
	return append(spans, span{at, end, yamlText(p, 0)}), nil
}

// properties skips an anchor and a tag; after is the byte that follows them. A YAML
// core tag (!!int) goes away with the value it was for.
func (c *yamlFormat) properties(n *yaml.Node, at int) (value, after int, tag span) {
	after = at
	for at < len(c.data) && (c.data[at] == '&' && n.Anchor != "" || c.data[at] == '!' && n.Style&yaml.TaggedStyle != 0) {
		from := at
		for at < len(c.data) && !strings.ContainsRune(" \t\r\n,]}", rune(c.data[at])) {
			at++
		}
		after = at
		if c.data[from] == '!' && strings.HasPrefix(string(c.data[from:at]), "!!") {
			tag = span{from: from, to: at}
			for tag.to < len(c.data) && c.data[tag.to] == ' ' && n.Value != "" {
				tag.to++
			}
		}
		at = c.skipSpace(at)
	}
	return at, after, tag
}

// skipSpace skips space, line breaks and comments.
func (c *yamlFormat) skipSpace(at int) int {
	for at < len(c.data) {
		switch c.data[at] {
		case ' ', '\t', '\r', '\n':
			at++
		case '#':
			for at < len(c.data) && c.data[at] != '\n' {
				at++
			}
		default:
			return at
		}
	}
	return at
}

func (c *yamlFormat) byteAt(at int) byte {
	if at < len(c.data) {
		return c.data[at]
	}
	return 0
}

// closing returns the quote that ends the one at from, or -1.
func (c *yamlFormat) closing(from int, quote byte) int {
	for i := from + 1; i < len(c.data); i++ {
		switch {
		case quote == '"' && c.data[i] == '\\':
			i++
		case c.data[i] != quote:
		case quote == '\'' && c.byteAt(i+1) == '\'':
			i++
		default:
			return i
		}
	}
	return -1
}

// plainEnd follows a plain value through its text, whose line breaks and spaces may
// differ from those of the value.
func (c *yamlFormat) plainEnd(at int, value string) (int, bool) {
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
				return 0, false
			}
		}
	}
	return at, true
}

// gap returns what must separate the text at a position from a value that was empty.
func (c *yamlFormat) gap(at int) string {
	if at == 0 {
		return ""
	}
	switch c.data[at-1] {
	case ' ', '\t', '\n':
		return ""
	case '{', '[', ',':
		return ""
	}
	if c.data[at-1] == ':' || c.data[at-1] == '-' || strings.ContainsAny(c.lastWord(at), "&!") {
		return " "
	}
	return ": "
}

func (c *yamlFormat) lastWord(at int) string {
	from := at
	for from > 0 && !strings.ContainsRune(" \t\r\n", rune(c.data[from-1])) {
		from--
	}
	return string(c.data[from:at])
}

// blockScalar removes the lines of a | or > value. A comment after the indicator
// stays.
func (c *yamlFormat) blockScalar(n *yaml.Node, parent *yaml.Node, at int, p Value) []span {
	end := at
	for end < len(c.data) && strings.ContainsRune("|>+-0123456789", rune(c.data[end])) {
		end++
	}
	head := span{at, end, yamlText(p, 0)}
	least := c.indentOf(parent, n) + 1
	line := n.Line
	for line < len(c.lines) && c.lines[line] <= at {
		line++ // the anchor may be on an earlier line
	}
	from, to := 0, 0
	for ; line < len(c.lines); line++ {
		text := c.lineText(line)
		indent := len(text) - len(strings.TrimLeft(text, " "))
		if strings.TrimSpace(text) == "" {
			continue
		}
		if indent < least {
			break
		}
		if to == 0 {
			from = c.breakBefore(at)
			if !strings.ContainsAny(string(c.data[at:end]), "123456789") {
				least = indent
			}
		}
		to = c.lines[line] + len(text)
	}
	if to == 0 {
		return []span{head}
	}
	return []span{head, {from, to, ""}}
}

// lineText returns a line by index, without its break.
func (c *yamlFormat) lineText(i int) string {
	to := len(c.data)
	if i+1 < len(c.lines) {
		to = c.lines[i+1]
	}
	return strings.TrimRight(string(c.data[c.lines[i]:to]), "\r\n\u0085\u2028\u2029")
}

// breakBefore returns the end of the text on the line that contains at.
func (c *yamlFormat) breakBefore(at int) int {
	for at < len(c.data) && c.data[at] != '\n' && c.data[at] != '\r' {
		at++
	}
	return at
}

// indentOf returns the 0-based column that the lines of a block value must exceed.
func (c *yamlFormat) indentOf(parent *yaml.Node, n *yaml.Node) int {
	if parent == nil {
		return -1
	}
	if i := slices.Index(parent.Content, n); parent.Kind == yaml.MappingNode && i > 0 {
		return parent.Content[i-1].Column - 1
	}
	return parent.Column - 1
}

// insert adds a key to a mapping or to an empty value.
func (c *yamlFormat) insert(n *yaml.Node, keys []string, p Value) ([]span, error) {
	value := yamlText(p, 0)
	for i := len(keys) - 1; i > 0; i-- {
		value = "{" + yamlKey(keys[i]) + ": " + value + "}"
	}
	pair := yamlKey(keys[0]) + ": " + value
	if c.empty {
		if len(c.data) > 0 && c.data[len(c.data)-1] != '\n' {
			pair = "\n" + pair
		}
		return []span{{len(c.data), len(c.data), pair + "\n"}}, nil
	}
	at := c.offset(n)
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&quoteStyles == 0:
		_, after, _ := c.properties(n, at)
		return []span{{after, after, c.gap(after) + "{" + pair + "}"}}, nil
	case n.Kind == yaml.ScalarNode:
		return []span{{at, at + len(n.Value), "{" + pair + "}"}}, nil
	case n.Style&yaml.FlowStyle != 0:
		at, _, _ = c.properties(n, at)
		if len(n.Content) > 0 {
			pair += ", "
		}
		return []span{{at + 1, at + 1, pair}}, nil
	case len(n.Content) == 0:
		return nil, fmt.Errorf("cannot add a key there")
	}
	return []span{c.besideLast(n, pair)}, nil
}

// besideLast puts a pair after the last value of a block mapping if its end is known,
// otherwise before the last key, whose column all keys share.
func (c *yamlFormat) besideLast(n *yaml.Node, pair string) span {
	k, last := n.Content[len(n.Content)-2], n.Content[len(n.Content)-1]
	nl := "\n"
	if strings.Contains(string(c.data), "\r\n") {
		nl = "\r\n"
	}
	indent := strings.Repeat(" ", k.Column-1)
	if end, ok := c.end(last); ok {
		at := c.breakBefore(end)
		return span{at, at, nl + indent + pair}
	}
	at := c.offset(k)
	return span{at, at, pair + nl + indent}
}

// end returns where a plain or quoted value ends.
func (c *yamlFormat) end(n *yaml.Node) (int, bool) {
	at, _, _ := c.properties(n, c.offset(n))
	switch {
	case n.Kind != yaml.ScalarNode || n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return 0, false
	case n.Style&quoteStyles != 0:
		end := c.closing(at, c.byteAt(at))
		return end, end >= 0
	}
	end, ok := c.plainEnd(at, n.Value)
	return end, ok && n.Value != ""
}

func yamlKey(key string) string { return yamlText(Value{Text: key}, 0) }
