package configedit

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// plainValues replaces values that JSON cannot represent. A string that stands for another type is
// marked, so that it never equals a string in the file.
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
