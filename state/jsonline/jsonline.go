// Package jsonline writes flat JSON objects field by field, byte for byte as
// encoding/json would. It is for ledger lines and status records, which are written
// several times per attempt: there encoding/json takes as long as the write itself.
// Everything else uses encoding/json, as does this package for complex values.
package jsonline

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// An Object is a JSON object being written. Its zero value writes into a new buffer.
type Object struct {
	b    []byte
	more bool // a field has been written
	err  error
}

// Append begins an object after b.
func Append(b []byte) *Object { return &Object{b: append(b, '{')} }

// End ends the object and returns the whole buffer, with the first error from
// encoding/json for a value that JSON cannot represent.
func (o *Object) End() ([]byte, error) { return append(o.b, '}'), o.err }

// If returns o if keep is true, else an object whose methods do nothing. It is for
// fields that are omitted if zero.
func (o *Object) If(keep bool) *Object {
	if keep {
		return o
	}
	return nil
}

// name begins a field. Names are plain letters.
func (o *Object) name(name string) {
	if o.more {
		o.b = append(o.b, ',')
	}
	o.more = true
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

// String writes a string.
func (o *Object) String(name, v string) {
	if o != nil {
		o.name(name)
		o.text(v)
	}
}

func (o *Object) text(v string) {
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			o.value(v)
			return
		}
	}
	o.b = append(append(append(o.b, '"'), v...), '"')
}

// value writes a value with encoding/json.
func (o *Object) value(v any) {
	b, err := json.Marshal(v)
	if o.err == nil {
		o.err = err
	}
	o.b = append(o.b, b...)
}

// Int writes a whole number.
func (o *Object) Int(name string, v int64) {
	if o != nil {
		o.name(name)
		o.b = strconv.AppendInt(o.b, v, 10)
	}
}

// Uint writes a whole number.
func (o *Object) Uint(name string, v uint64) {
	if o != nil {
		o.name(name)
		o.b = strconv.AppendUint(o.b, v, 10)
	}
}

// Float writes a number, with encoding/json if that uses an exponent.
func (o *Object) Float(name string, v float64) {
	if o == nil {
		return
	}
	o.name(name)
	if a := math.Abs(v); a == 0 || a >= 1e-6 && a < 1e21 {
		o.b = strconv.AppendFloat(o.b, v, 'f', -1, 64)
	} else {
		o.value(v)
	}
}

// Bool writes a bool.
func (o *Object) Bool(name string, v bool) {
	if o != nil {
		o.name(name)
		o.b = strconv.AppendBool(o.b, v)
	}
}

// Time writes a time in RFC 3339 format.
func (o *Object) Time(name string, v time.Time) {
	if o == nil {
		return
	}
	o.name(name)
	b, err := v.AppendText(append(o.b, '"'))
	if err != nil {
		o.value(v)
		return
	}
	o.b = append(b, '"')
}

// Strings writes a list of strings.
func (o *Object) Strings(name string, v []string) {
	if o == nil {
		return
	}
	o.name(name)
	if v == nil {
		o.b = append(o.b, "null"...)
		return
	}
	o.b = append(o.b, '[')
	for i, s := range v {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.text(s)
	}
	o.b = append(o.b, ']')
}

// Map writes a map of strings, with encoding/json if there are several entries, since
// it sorts them.
func (o *Object) Map(name string, v map[string]string) {
	if o == nil {
		return
	}
	o.name(name)
	if len(v) != 1 {
		o.value(v)
		return
	}
	for k, s := range v {
		o.b = append(o.b, '{')
		o.text(k)
		o.b = append(o.b, ':')
		o.text(s)
		o.b = append(o.b, '}')
	}
}

// Value writes v with encoding/json.
func (o *Object) Value(name string, v any) {
	if o != nil {
		o.name(name)
		o.value(v)
	}
}
