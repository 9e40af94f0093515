package jsonline

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

type fields struct {
	S string            `json:"s"`
	O string            `json:"o,omitempty"`
	I int64             `json:"i"`
	U uint64            `json:"u"`
	F float64           `json:"f"`
	B bool              `json:"b"`
	T time.Time         `json:"t"`
	L []string          `json:"l"`
	M map[string]string `json:"m"`
	V any               `json:"v"`
}

func (f *fields) line(b []byte) ([]byte, error) {
	o := Append(b)
	o.String("s", f.S)
	o.If(f.O != "").String("o", f.O)
	o.Int("i", f.I)
	o.Uint("u", f.U)
	o.Float("f", f.F)
	o.Bool("b", f.B)
	o.Time("t", f.T)
	o.Strings("l", f.L)
	o.Map("m", f.M)
	o.Value("v", f.V)
	return o.End()
}

// check compares with encoding/json: same text, or an error from both.
func check(t *testing.T, f *fields) {
	t.Helper()
	want, wantErr := json.Marshal(f)
	got, err := f.line([]byte("before "))
	switch {
	case (err == nil) != (wantErr == nil):
		t.Errorf("error %v, encoding/json's is %v", err, wantErr)
	case err == nil && string(got) != "before "+string(want):
		t.Errorf("\n got %s\nwant before %s", got, want)
	}
}

func TestAsEncodingJSON(t *testing.T) {
	when := time.Date(2026, 1, 2, 3, 4, 5, 60, time.FixedZone("", 5400))
	tests := map[string]fields{
		"zero":              {},
		"plain":             {S: "plain text", O: "there", I: -5, U: math.MaxUint64, F: 0.25, B: true, T: when, L: []string{"a", "b"}, M: map[string]string{"k": "v"}, V: []int{1}},
		"to be escaped":     {S: "\"\\<>&\x00\x1f\x7f\n\u2028\u2029é\xff", L: []string{"<"}, M: map[string]string{"<k>": "é"}},
		"several in a map":  {M: map[string]string{"b": "1", "a": "2"}, L: []string{}},
		"small":             {F: 1e-7},
		"large":             {F: 1e21, I: math.MinInt64},
		"negative zero":     {F: math.Copysign(0, -1)},
		"no number":         {F: math.NaN()},
		"no moment":         {T: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"no value of JSON":  {V: func() {}},
		"the first error":   {F: math.Inf(1), V: func() {}},
		"none of a fortune": {V: map[string]any{"x": 1.5}},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) { check(t, &f) })
	}
}

func FuzzAsEncodingJSON(f *testing.F) {
	f.Add("s", "o", int64(1), 0.5, true, int64(5), uint8(2))
	f.Add("<\xff>", "\u2028", int64(-1), 1e-9, false, int64(math.MaxInt64), uint8(0))
	f.Fuzz(func(t *testing.T, s, o string, i int64, x float64, b bool, at int64, n uint8) {
		v := fields{S: s, O: o, I: i, U: uint64(i), F: x, B: b, T: time.Unix(at, i).UTC(), M: map[string]string{}}
		for k := range n % 4 {
			v.L = append(v.L, o[:len(o)*int(k)/4])
			v.M[s[:len(s)*int(k)/4]] = o
		}
		check(t, &v)
	})
}
