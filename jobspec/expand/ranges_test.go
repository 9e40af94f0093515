package expand

import (
	"math/big"
	"reflect"
	"strings"
	"testing"
)

// Ranges of whole numbers have a fast path. It must give the same values as exact fractions.
func TestWholeRangesMatchFractions(t *testing.T) {
	for _, s := range []string{
		"0..3", "3..0", "-2..2", "5..5", "08..11", "-1..010", "010..-010..5", "-05..00..5", "0..100..25", "100..0..50", "7..1..3",
		"9223372036854775805..9223372036854775807", "-9223372036854775808..-9223372036854775807",
		"-9223372036854775808..9223372036854775807..18446744073709551615", "9223372036854775807..9223372036854775809",
	} {
		got, err := expandRange(s, "n")
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if want := slowRange(s); !reflect.DeepEqual(texts1(got), want) {
			t.Errorf("%s: got %v, want %v", s, texts1(got), want)
		}
		if got[0].Name != "n" || got[0].Tag != "!!int" {
			t.Errorf("%s: got %+v", s, got[0])
		}
	}
}

func texts1(list []*Param) []string {
	var out []string
	for _, p := range list {
		out = append(out, p.Text)
	}
	return out
}

// slowRange expands a range with exact fractions.
func slowRange(s string) []string {
	m := rangeForm.FindStringSubmatch(s)
	from, to, step := rat(m[1]), rat(m[2]), big.NewRat(1, 1)
	if m[3] != "" {
		step.Abs(rat(m[3]))
	}
	if to.Cmp(from) < 0 {
		step.Neg(step)
	}
	width := 0
	if padded(m[1]) || padded(m[2]) {
		width = max(len(strings.TrimPrefix(m[1], "-")), len(strings.TrimPrefix(m[2], "-")))
	}
	var out []string
	for ; ; from.Add(from, step) {
		digits, negative := strings.CutPrefix(from.FloatString(0), "-")
		for len(digits) < width {
			digits = "0" + digits
		}
		if negative {
			digits = "-" + digits
		}
		out = append(out, digits)
		if from.Cmp(to) == 0 {
			return out
		}
	}
}

func rat(s string) *big.Rat {
	r, _ := new(big.Rat).SetString(s)
	return r
}
