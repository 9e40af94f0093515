package configedit

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	plainWord = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./+-]*$`)
	floatText = regexp.MustCompile(`^([-+]?)([0-9_]*)(\.[0-9_]*)?(?:[eE]([-+]?)([0-9]+))?$`)
	zeroFirst = regexp.MustCompile(`^([-+]?)0[0_]*([0-9_]*)$`)
	jsonFloat = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// yamlWords are words that some YAML parsers do not read as text unless they are in quotes.
var yamlWords = map[string]bool{
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true,
	"true": true, "false": true, "null": true, "nan": true, "inf": true,
}

// yamlText spells a value. quote is the quote character of the old text, or 0.
func yamlText(p Value, quote byte) string {
	p = withoutZeros(p)
	switch p.Tag {
	case "!!int", "!!bool":
		return p.Text
	case "!!null":
		if p.Text == "" {
			return "null"
		}
		return p.Text
	case "!!float":
		return yamlFloat(p.Text)
	}
	switch {
	case quote == '\'' && !strings.ContainsFunc(p.Text, unprintable):
		return "'" + strings.ReplaceAll(p.Text, "'", "''") + "'"
	case quote == 0 && plainWord.MatchString(p.Text) && !yamlWords[strings.ToLower(p.Text)]:
		return p.Text
	}
	return quoted(p.Text)
}

// withoutZeros turns a zero-padded whole number such as 010 into 10, which is how commands and
// ranges read it. Some YAML parsers read 010 as 8, and 08 as text or 8.0. It also turns 0o17 into
// 15, because no YAML 1.1 parser supports 0o17.
func withoutZeros(p Value) Value {
	if p.Tag != "!!int" && p.Tag != "!!float" {
		return p
	}
	if m := zeroFirst.FindStringSubmatch(p.Text); m != nil {
		p.Tag, p.Text = "!!int", m[1]+cmp.Or(m[2], "0")
	} else if n, ok := new(big.Int).SetString(p.Text, 0); ok && strings.ContainsAny(p.Text, "oO") {
		p.Text = n.String()
	}
	return p
}

// yamlFloat spells a float so that YAML 1.1 also reads it as a float. In YAML 1.1, 1e-5 is text
// because it lacks a point, and 1.0e5 is text because it lacks a sign after the e.
func yamlFloat(s string) string {
	m := floatText.FindStringSubmatch(s)
	if m == nil {
		return s // .inf, .nan, hexadecimal
	}
	sign, whole, fraction, expSign, exp := m[1], m[2], m[3], m[4], m[5]
	if fraction == "" {
		fraction = ".0"
	}
	if exp == "" {
		return sign + whole + fraction
	}
	if expSign == "" {
		expSign = "+"
	}
	return fmt.Sprintf("%s%s%se%s%02s", sign, whole, fraction, expSign, exp)
}

func (*jsonFormat) spell(p Value) (string, error) {
	p = withoutZeros(p)
	switch p.Tag {
	case "!!bool":
		return strings.ToLower(p.Text), nil
	case "!!null":
		return "null", nil
	case "!!int":
		if n, ok := new(big.Int).SetString(p.Text, 0); ok {
			return n.String(), nil
		}
		return p.Text, nil
	case "!!float":
		if jsonFloat.MatchString(p.Text) {
			return p.Text, nil
		}
		f, err := strconv.ParseFloat(strings.ReplaceAll(p.Text, "_", ""), 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return "", fmt.Errorf("JSON cannot represent the number %s", p.Text)
		}
		return strconv.FormatFloat(f, 'g', -1, 64), nil
	}
	return quoted(p.Text), nil
}

func unprintable(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == utf8.RuneError
}

// quoted returns s in double quotes, using only escapes that both JSON and YAML support.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unprintable(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
