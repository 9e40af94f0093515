package configedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// jsonFormat edits JSON by the offsets its decoder reports.
type jsonFormat struct {
	data []byte
	dec  *json.Decoder
}

// jsonPlace is the position of a JSON value.
type jsonPlace struct{ from, to int }

func (c *jsonFormat) parse(data []byte) (*node, error) {
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

// start returns where the next token begins.
func (c *jsonFormat) start() int {
	at := int(c.dec.InputOffset())
	for at < len(c.data) && strings.IndexByte(" \t\r\n,:", c.data[at]) >= 0 {
		at++
	}
	return at
}

func (c *jsonFormat) node() (*node, error) {
	from := c.start()
	token, err := c.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &node{}
	switch v := token.(type) {
	case json.Delim:
		n.kind = list
		if v == '{' {
			n.kind = mapping
		}
		if err := c.contents(n); err != nil {
			return nil, err
		}
	case string:
		n.tag, n.value = "!!str", v
	case json.Number:
		n.tag, n.value = "!!float", v.String()
	case bool:
		n.tag, n.value = "!!bool", fmt.Sprint(v)
	case nil:
		n.tag = "!!null"
	}
	n.at = jsonPlace{from, int(c.dec.InputOffset())}
	return n, nil
}

func (c *jsonFormat) contents(n *node) error {
	for c.dec.More() {
		if n.kind == mapping {
			from := c.start()
			token, err := c.dec.Token()
			if err != nil {
				return err
			}
			word, _ := token.(string)
			n.keys = append(n.keys, key{word, jsonPlace{from, int(c.dec.InputOffset())}})
		}
		item, err := c.node()
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := c.dec.Token()
	return err
}

func (c *jsonFormat) replace(n, _ *node, p Value) ([]span, error) {
	text, err := jsonText(p)
	at := n.at.(jsonPlace)
	return []span{{at.from, at.to, text}}, err
}

// insert adds a pair after the last one and in the same layout, or turns null into a
// mapping.
func (c *jsonFormat) insert(n *node, keys []string, p Value) ([]span, error) {
	value, err := jsonText(p)
	if err != nil {
		return nil, err
	}
	for i := len(keys) - 1; i > 0; i-- {
		value = "{" + quoted(keys[i]) + ": " + value + "}"
	}
	pair := quoted(keys[0]) + ": " + value
	at := n.at.(jsonPlace)
	if n.kind == scalar {
		return []span{{at.from, at.to, "{" + pair + "}"}}, nil
	}
	if len(n.keys) == 0 {
		return []span{{at.from + 1, at.from + 1, pair}}, nil
	}
	last := n.keys[len(n.keys)-1].at.(jsonPlace)
	space := last.from
	for space > 0 && strings.IndexByte(" \t\r\n", c.data[space-1]) >= 0 {
		space--
	}
	end := n.items[len(n.items)-1].at.(jsonPlace).to
	return []span{{end, end, "," + string(c.data[space:last.from]) + pair}}, nil
}
