package configedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"gopkg.in/yaml.v3"
)

// parseValues returns the values of a config file. Several YAML documents come as a slice.
func parseValues(name string, data []byte) (values any, err error) {
	defer func() { // the YAML parser is known to panic on some malformed input
		if r := recover(); r != nil {
			values, err = nil, fmt.Errorf("yaml: %v", r)
		}
	}()
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if isJSON(name) {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := dec.Decode(&values); err != nil {
			return nil, err
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return nil, errors.New("unexpected data after the JSON value")
		}
		return plainValues(values), nil
	}
	var documents []any
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var v any
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, plainValues(v))
	}
	switch len(documents) {
	case 0:
		return nil, nil
	case 1:
		return documents[0], nil
	}
	return documents, nil
}

// plainValues replaces what JSON cannot represent. A string that stands in for a
// number is marked, so that it never equals a string of the file.
func plainValues(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			v[k] = plainValues(item)
		}
	case map[any]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			word, ok := k.(string)
			if !ok {
				word = fmt.Sprintf("\x00%T %v", k, k)
			}
			out[word] = plainValues(item)
		}
		return out
	case []any:
		for i := range v {
			v[i] = plainValues(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return "\x00" + v.String()
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprintf("\x00%v", v)
		}
	case time.Time:
		return "\x00" + v.Format(time.RFC3339Nano)
	}
	return v
}
