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

// isRange reports whether a node is a range such as 0..9 or 0..1..0.25. A range in quotes counts only
// if quoted is set; otherwise, it is text.
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

// expandRange lists the values of a range, including both ends. It counts in units of the last
// decimal, so that 0..1..0.1 has no 0.30000000000000004. A leading zero pads all values to the same
// width, as in a shell.
func expandRange(s, name string) ([]*Param, error) {
	m := rangeForm.FindStringSubmatch(s)
	digits := max(fraction(m[1]), fraction(m[2]), fraction(m[3]))
	from, to, step := decimal(m[1], digits), decimal(m[2], digits), decimal(cmp.Or(m[3], "1"), digits)
	if step.Sign() == 0 {
		return nil, source.Faultf("", "range %q has step 0", s)
	}
	if step.Abs(step); to.Cmp(from) < 0 {
		step.Neg(step)
	}
	steps, rest := new(big.Int).QuoRem(new(big.Int).Sub(to, from), step, new(big.Int))
	switch {
	case !steps.IsInt64() || steps.Int64() >= MaxJobs:
		return nil, source.Faultf("", "range %q has more than %d million values", s, MaxJobs/1_000_000)
	case rest.Sign() != 0 && m[3] == "":
		finest := "0." + strings.Repeat("0", digits-1) + "1"
		return nil, source.Faultf("give it a step: "+m[1]+".."+m[2]+".."+finest, "range %q never reaches its end: the default step is 1", s)
	case rest.Sign() != 0:
		last := spell(to.Sub(to, rest), digits, 0)
		return nil, source.Faultf("try "+m[1]+".."+last+".."+m[3]+", or list the values", "range %q never reaches its end", s)
	}
	width := 0
	if padded(m[1]) || padded(m[2]) {
		width = max(len(strings.TrimPrefix(m[1], "-")), len(strings.TrimPrefix(m[2], "-")))
	}
	tag := "!!int"
	if digits > 0 {
		tag = "!!float"
	}
	made := make([]Param, steps.Int64()+1)
	values := make([]*Param, len(made))
	for i := range made {
		made[i] = Param{Name: name, Text: spell(from, digits, width), Tag: tag}
		values[i] = &made[i]
		from.Add(from, step)
	}
	return values, nil
}

// decimal returns a decimal number as an integer, scaled by 10 to the power of digits.
func decimal(s string, digits int) *big.Int {
	whole, rest, _ := strings.Cut(s, ".")
	n, _ := new(big.Int).SetString(whole+rest+strings.Repeat("0", digits-len(rest)), 10) // rangeForm guarantees that this is valid
	return n
}

// spell formats a scaled integer as a decimal number. It removes trailing zeros after the decimal
// point, and pads the number with leading zeros to width.
func spell(n *big.Int, digits, width int) string {
	s, negative := strings.CutPrefix(n.String(), "-")
	if digits > 0 {
		s = strings.Repeat("0", max(0, digits+1-len(s))) + s
		s = strings.TrimRight(s[:len(s)-digits]+"."+s[len(s)-digits:], "0")
		s = strings.TrimSuffix(s, ".")
	}
	s = strings.Repeat("0", max(0, width-len(s))) + s
	if negative {
		return "-" + s
	}
	return s
}

func fraction(s string) int {
	_, f, _ := strings.Cut(s, ".")
	return len(f)
}

func padded(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return len(s) > 1 && s[0] == '0' && s[1] != '.'
}

// canonical returns a value in the form that exclude and include compare. Equal numbers have the
// same form however they are spelled; text is unchanged.
func canonical(p *Param) string {
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
