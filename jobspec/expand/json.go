package expand

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// jsonLines reads one JSON object per line.
func (r *tableReader) jsonLines() {
	for i, text := range strings.Split(string(r.Data), "\n") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if list, ok := r.object(i+1, text); ok {
			r.cells(i+1, 1, list)
		}
		if r.failed {
			return
		}
	}
}

// object reads the keys of one JSON object in order, with numbers as spelled.
func (r *tableReader) object(line int, text string) (list []cell, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	at := func() int { return 1 + utf8.RuneCountInString(text[:min(int(d.InputOffset()), len(text))]) }
	bad := func(what string) ([]cell, bool) {
		r.fail(line, at(), `each line is one object: {"lr": 0.1, "seed": 1}`, "%s", what)
		return nil, false
	}
	token := func() (json.Token, error) {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			err = errors.New("unexpected end of line")
		}
		return t, err
	}
	if t, err := token(); err != nil || t != json.Delim('{') {
		return bad("this line is not a JSON object")
	}
	for {
		t, err := token()
		switch {
		case err != nil:
			return bad("this line is not valid JSON: " + err.Error())
		case t == json.Delim('}'):
			if rest := bytes.TrimSpace([]byte(text[d.InputOffset():])); len(rest) > 0 {
				return bad("unexpected text after the object")
			}
			return list, true
		}
		name, _ := t.(string) // keys are always strings
		c := cell{name: column{name, line, at()}}
		if t, err = token(); err != nil {
			return bad("this line is not valid JSON: " + err.Error())
		}
		switch v := t.(type) {
		case json.Delim:
			return bad(fmt.Sprintf("%q must be a single value, not a list or an object", name))
		case json.Number:
			c.value = plain(v.String())
		case bool:
			c.value = plain(fmt.Sprint(v))
		case nil:
			c.value = tableValue{"null", "!!null"}
		case string:
			c.value = tableValue{v, "!!str"}
		}
		if list = append(list, c); r.wide(line, len(list)) {
			return nil, false
		}
	}
}

// list reads a list of mappings in YAML, which includes JSON.
func (r *tableReader) list() {
	root, err := r.Document()
	switch {
	case err != nil:
		r.fail(0, 0, "write a list of mappings: - {lr: 0.1, seed: 1}", "is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	case !r.Resolve(root):
		r.failed = true
		return
	case root.Kind != yaml.SequenceNode:
		r.fail(root.Line, root.Column, "write a list of mappings: - {lr: 0.1, seed: 1}", "must be a list of rows, not %s", source.Describe(root))
		return
	}
	for _, n := range root.Content {
		var list []cell
		ok := r.Pairs(n, "a row", func(k, v *yaml.Node) {
			text, tag, ok := r.Scalar(v, fmt.Sprintf("%q", k.Value))
			r.failed = r.failed || !ok
			list = append(list, cell{column{k.Value, k.Line, k.Column}, tableValue{text, tag}})
		})
		if r.failed = r.failed || !ok; r.failed {
			return
		}
		r.cells(n.Line, n.Column, list)
	}
}
