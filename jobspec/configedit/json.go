package configedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// jsonFormat edits JSON, using the offsets that the JSON decoder reports. In its nodes, Line and
// Column are the offsets where the text of a value begins and ends.
type jsonFormat struct {
	data []byte
	dec  *json.Decoder
}

func (c *jsonFormat) parse(data []byte) (*yaml.Node, error) {
	c.data = data
	var whole any
	if err := json.Unmarshal(data, &whole); err != nil {
		var s *json.SyntaxError
		if errors.As(err, &s) {
			return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(int(s.Offset), len(data))], []byte("\n")), err)
		}
		return nil, err
	}
	c.dec = json.NewDecoder(bytes.NewReader(data))
	c.dec.UseNumber()
	return c.node()
}

func (c *jsonFormat) node() (*yaml.Node, error) {
	from := int(c.dec.InputOffset())
	for from < len(c.data) && strings.IndexByte(" \t\r\n,:", c.data[from]) >= 0 {
		from++
	}
	token, err := c.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: from}
	switch v := token.(type) {
	case json.Delim:
		n.Kind = yaml.SequenceNode
		if v == '{' {
			n.Kind = yaml.MappingNode
		}
		for c.dec.More() { // in an object, keys and values in turn
			item, err := c.node()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, item)
		}
		if _, err := c.dec.Token(); err != nil {
			return nil, err
		}
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Number:
		n.Tag, n.Value = "!!float", v.String()
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(v)
	case nil:
		n.Tag = "!!null"
	}
	n.Column = int(c.dec.InputOffset())
	return n, nil
}

func (c *jsonFormat) values(n *yaml.Node) (any, error) {
	switch {
	case n.Kind == yaml.MappingNode:
		out := map[string]any{}
		for k, v := range source.Each(n) {
			out[k.Value], _ = c.values(v)
		}
		return out, nil
	case n.Kind == yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			out[i], _ = c.values(item)
		}
		return out, nil
	case n.Tag == "!!str":
		return n.Value, nil
	case n.Tag == "!!bool":
		return n.Value == "true", nil
	case n.Tag == "!!null":
		return nil, nil
	}
	return plainValues(json.Number(n.Value)), nil
}

func (c *jsonFormat) replace(n, _ *yaml.Node, v Value) ([]span, error) {
	text, err := c.spell(v)
	return []span{{n.Line, n.Column, text}}, err
}

// insert adds a pair after the last pair and in the same layout, or turns null into a mapping.
func (c *jsonFormat) insert(n *yaml.Node, pair string) ([]span, error) {
	if n.Kind == yaml.ScalarNode {
		return []span{{n.Line, n.Column, "{" + pair + "}"}}, nil
	}
	if len(n.Content) == 0 {
		return []span{{n.Line + 1, n.Line + 1, pair}}, nil
	}
	last := n.Content[len(n.Content)-2:]
	space := last[0].Line
	for space > 0 && strings.IndexByte(" \t\r\n", c.data[space-1]) >= 0 {
		space--
	}
	end := last[1].Column
	return []span{{end, end, "," + string(c.data[space:last[0].Line]) + pair}}, nil
}
