package expand

import (
	"cmp"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"gpurun/jobspec/source"

	"gopkg.in/yaml.v3"
)

// MaxJobs is the maximum size of a batch after expansion.
const MaxJobs = 10_000_000

var rangeForm = regexp.MustCompile(`^(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)(?:\.\.(-?\d+(?:\.\d+)?))?$`)

// isRange reports whether a node is written 0..9 or 0..1..0.25. In quotes it is text.
func isRange(n *yaml.Node, quoted bool) bool {
	return n.Kind == yaml.ScalarNode && (quoted || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0) && rangeForm.MatchString(n.Value)
}

var otherRange = regexp.MustCompile(`^(?:range\((?:(\d+), *)?(\d+)\)|(\d+) *[-:] *(\d+))$`)

// rangeHint translates a range in Python's or Slurm's notation, or returns "".
func rangeHint(s string) string {
	m := otherRange.FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	if m[4] != "" {
		return "write " + m[3] + ".." + m[4]
	}
	end, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil || end == 0 {
		return ""
	}
	return "write " + cmp.Or(m[1], "0") + ".." + strconv.FormatInt(end-1, 10)
}

// expandRange lists the values of a range, both ends included. It counts in decimals,
// so that 0..1..0.1 has no 0.30000000000000004. A leading zero pads all values to the
// same width, as in a shell.
func expandRange(s, name string) ([]Param, error) {
	m := rangeForm.FindStringSubmatch(s)
	from, to, step := decimal(m[1]), decimal(m[2]), big.NewRat(1, 1)
	digits := max(fraction(m[1]), fraction(m[3]))
	if m[3] != "" {
		step = decimal(m[3])
	}
	if step.Sign() == 0 {
		return nil, source.Faultf("", "range %q has step 0", s)
	}
	step.Abs(step)
	if to.Cmp(from) < 0 {
		step.Neg(step)
	}
	steps := new(big.Rat).Quo(new(big.Rat).Sub(to, from), step)
	whole := new(big.Int).Quo(steps.Num(), steps.Denom())
	if !whole.IsInt64() || whole.Int64() >= MaxJobs {
		return nil, source.Faultf("", "range %q has more than %d million values", s, MaxJobs/1_000_000)
	}
	if !steps.IsInt() && m[3] == "" {
		finest := "0." + strings.Repeat("0", max(fraction(m[1]), fraction(m[2]))-1) + "1"
		return nil, source.Faultf("give it a step: "+m[1]+".."+m[2]+".."+finest, "range %q never reaches its end: the default step is 1", s)
	}
	if !steps.IsInt() {
		last := new(big.Rat).Add(from, new(big.Rat).Mul(new(big.Rat).SetInt(whole), step))
		return nil, source.Faultf("try "+m[1]+".."+spell(last, digits, true, 0)+".."+m[3]+", or list the values", "range %q never reaches its end", s)
	}
	width := 0
	if padded(m[1]) || padded(m[2]) {
		width = max(len(strings.TrimPrefix(m[1], "-")), len(strings.TrimPrefix(m[2], "-")))
	}
	tag := "!!int"
	if digits > 0 || fraction(m[2]) > 0 {
		tag = "!!float"
	}
	if tag == "!!int" && from.Num().IsInt64() && to.Num().IsInt64() && step.Num().IsInt64() {
		return wholeNumbers(name, from.Num().Int64(), step.Num().Int64(), int(whole.Int64())+1, width), nil
	}
	values := make([]Param, 0, whole.Int64()+1)
	for at, i := new(big.Rat).Set(from), int64(0); i <= whole.Int64(); i++ {
		values = append(values, Param{Name: name, Text: spell(at, digits, tag == "!!float", width), Tag: tag})
		at.Add(at, step)
	}
	return values, nil
}

// wholeNumbers lists n numbers. Their texts share one string: a million small strings
// would keep the garbage collector busy.
func wholeNumbers(name string, from, step int64, n, width int) []Param {
	values := make([]Param, n)
	all := make([]byte, 0, n*max(width+1, len(strconv.FormatInt(from, 10)), len(strconv.FormatInt(from+int64(n-1)*step, 10))))
	ends := make([]int32, n)
	for i := range n {
		all = appendPadded(all, from+int64(i)*step, width)
		ends[i] = int32(len(all))
	}
	text, begin := string(all), int32(0)
	for i, end := range ends {
		values[i] = Param{Name: name, Text: text[begin:end], Tag: "!!int"}
		begin = end
	}
	return values
}

// appendPadded appends a number padded to width digits.
func appendPadded(buf []byte, n int64, width int) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	if n < 0 {
		buf, text = append(buf, '-'), text[1:]
	}
	for range width - len(text) {
		buf = append(buf, '0')
	}
	return append(buf, text...)
}

func decimal(s string) *big.Rat {
	r, _ := new(big.Rat).SetString(s) // rangeForm admits only decimals
	return r
}

func fraction(s string) int {
	_, f, _ := strings.Cut(s, ".")
	return len(f)
}

func padded(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return len(s) > 1 && s[0] == '0' && s[1] != '.'
}

// spell writes a decimal, trimmed if trim is set, padded to width.
func spell(r *big.Rat, digits int, trim bool, width int) string {
	s := r.FloatString(digits)
	if trim && strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	if n := width - len(s); n > 0 {
		s = strings.Repeat("0", n) + s
	}
	return sign + s
}

// canonical is the form that exclude and include compare: numbers by value, the rest as spelled.
func canonical(p Param) string {
	switch p.Tag {
	case "!!int", "!!float":
		plain := strings.ReplaceAll(p.Text, "_", "")
		if n, err := strconv.ParseInt(plain, 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
		if n, ok := new(big.Int).SetString(plain, 0); ok {
			return n.String()
		}
		if f, err := strconv.ParseFloat(plain, 64); err == nil {
			if f == float64(int64(f)) && f < 1<<53 && f > -1<<53 {
				return strconv.FormatInt(int64(f), 10)
			}
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	case "!!bool":
		return strings.ToLower(p.Text)
	case "!!null":
		return "null"
	}
	return p.Text
}
