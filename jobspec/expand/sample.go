package expand

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
)

// A sample is one axis of n random draws. Draw i of a parameter depends only on rng, the
// parameter's name and i. A larger n, an additional parameter or a later version of gpurun must not
// change existing draws.

var sampleKeys = []string{"n", "rng", "params"}

func (r *matrixReader) sample(node *yaml.Node) {
	n, rng := 0, "1"
	var params *yaml.Node
	ok := r.Pairs(node, "sample", func(k, v *yaml.Node) {
		var err error
		switch k.Value {
		case "n":
			n, err = source.ParseCount(v.Value, 1)
		case "rng":
			var seed int64
			seed, err = source.ParseInteger(v.Value, math.MaxInt64, "")
			rng = strconv.FormatInt(seed, 10)
		case "params":
			params = v
		default:
			hint := source.DidYouMean(k.Value, sampleKeys, "put drawn parameters under params: {"+k.Value+": …}")
			if k.Value == "seed" {
				hint = "to seed the draws, write rng; parameters go under params"
			}
			r.fail(k, hint, "unknown key %q in sample", k.Value)
		}
		if err != nil {
			r.fails = true
			r.Out.Add(source.Problem{File: r.Path, Line: v.Line, Col: v.Column, Text: "sample: " + k.Value + ": "}.Because(err))
			n = max(n, 1)
		}
	})
	switch {
	case !ok:
		r.fails = true
		return
	case n == 0:
		r.fail(node, "add n: 20", "sample has no n")
	case params == nil:
		r.fail(node, `add params: {lr: "log 1e-4..1e-1"}`, "sample has no params")
	}
	if params == nil {
		return
	}
	var names []string
	var lists [][]*Param
	ok = r.Pairs(params, "params of sample", func(k, v *yaml.Node) {
		if !r.declare(k) {
			return
		}
		draw := r.drawing(k.Value, v)
		if draw == nil || n == 0 {
			return
		}
		list := make([]*Param, n)
		for i := range list {
			list[i] = draw(bitsOf(rng, k.Value, i))
		}
		names, lists = append(names, k.Value), append(lists, list)
	})
	if r.fails = r.fails || !ok; r.fails || len(names) == 0 {
		return
	}
	if twice := r.group(names, lists, "sample"); twice > 0 && len(r.given.List) == 0 {
		r.Warning(node.Line, node.Column, "", "skipped %d of %d draws as repeats of earlier draws", twice, n)
	}
}

// bitsOf returns the random bits of draw i of a parameter.
func bitsOf(rng, name string, i int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "gpurun sample 1\x00%s\x00%s\x00%d", rng, name, i))
	return binary.BigEndian.Uint64(sum[:])
}

// A drawer converts random bits to a value.
type drawer func(bits uint64) *Param

var (
	drawForm = regexp.MustCompile(`^(log|int|uniform|normal|lognormal) +(\S+?) *(\.\.|±|\+-) *(\S+?)(?: *\.\. *(\S+))?$`)
	// otherDraw matches loguniform(1e-4, 1e-1), randint(2, 8), suggest_int("width", 64, 1024, step=64).
	// Its groups are log, int, low, high, step and the rest.
	otherDraw = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:\w+\.)*(?:q|suggest_|discrete_)*_?(log_?)?(?:uniform\w*|float|(?:rand)?(int))\( *(?:["']\w*["'] *, *)?([^, ]+) *, *([^, )]+) *(?:, *(?:step *= *)?([0-9.]+) *)?(.*)\)$`)
	})
)

// drawing parses how to draw a parameter: from a list or a range, as in a matrix, or from one of
// five distributions. If there is a problem, it reports it and returns nil.
func (r *matrixReader) drawing(name string, v *yaml.Node) drawer {
	draw, err := ParseDraw(v.Value, name)
	switch {
	case err != nil:
		r.fails = true
		r.Out.Add(source.Problem{File: r.Path, Line: v.Line, Col: v.Column, Text: "sample: " + name + ": "}.Because(err))
	case draw != nil:
		return draw
	case v.Kind == yaml.ScalarNode && !isRange(v, true):
		r.fail(v, drawHint(v.Value), "sample: %q is not a distribution for %s", source.Clip(v.Value), name)
	default:
		if values := r.values(name, v); len(values) > 0 && !r.fails {
			return pick(values)
		}
	}
	return nil
}

// drawHint translates a distribution from W&B, Ray, NumPy or Optuna.
func drawHint(s string) string {
	if draw := drawOf(s); draw != "" {
		return fmt.Sprintf("write %q", draw)
	}
	return `write "log 1e-4..1e-1", "uniform 0.1..0.9", "int 2..8" or a list`
}

// drawOf translates a distribution of another tool. It returns "" for any other text.
func drawOf(s string) string {
	m := otherDraw().FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	word, high, step := m[2], m[4], m[5]
	if m[1] != "" || strings.Contains(m[6], "log=True") {
		if word = "log"; m[2] == "int" {
			step = cmp.Or(step, "1")
		}
	}
	if n, err := strconv.Atoi(high); err == nil && strings.Contains(s, "lograndint") { // Ray excludes the upper end
		high = strconv.Itoa(n - 1)
	}
	return strings.TrimSuffix(cmp.Or(word, "uniform")+" "+m[3]+".."+high+".."+step, "..")
}

// ParseDraw parses the distribution of a number. It returns nil if text is not a distribution.
func ParseDraw(text, name string) (func(bits uint64) *Param, error) {
	m := drawForm.FindStringSubmatch(text)
	switch {
	case m == nil || (m[3] == "..") == strings.HasSuffix(m[1], "normal"):
		return nil, nil
	case m[5] != "" && m[3] == "..":
		return stepwise(m[1], m[2], m[4], m[5], name)
	}
	return between(m[1], m[2], m[4], m[5], name)
}

// pick returns a drawer that draws each value with equal probability.
func pick(values []*Param) drawer {
	return func(bits uint64) *Param { return values[below(bits, uint64(len(values)))] }
}

// stepwise returns a drawer for the values from, from+step, …, to. With log, the weight of a value
// is the length, on a logarithmic scale, of the interval that rounds to it, as in Optuna for whole
// numbers.
func stepwise(word, from, to, step, name string) (drawer, error) {
	span := from + ".." + to + ".." + step
	low, _ := strconv.ParseFloat(from, 64)
	high, _ := strconv.ParseFloat(to, 64)
	width, _ := strconv.ParseFloat(step, 64)
	if !rangeForm.MatchString(span) || low > high || width < 0 || word == "int" && strings.Contains(strings.ReplaceAll(span, "..", ""), ".") {
		return nil, source.Faultf("write "+word+" 64..1024..64", "%s is not a low..high..step range", span)
	}
	values, err := expandRange(span, name)
	switch {
	case err != nil:
		return nil, err
	case word != "log":
		return pick(values), nil
	case low <= width/2:
		return nil, source.Faultf("start at "+step+", or write uniform", "log needs values above half the step (%s), not %s", step, from)
	}
	low /= width
	share := func(i int) float64 { return math.Log((low + float64(i) + 0.5) / (low - 0.5)) } // share of values[:i+1]: the sum telescopes
	return func(bits uint64) *Param {
		u := float64(bits>>11) / (1 << 53) * share(len(values)-1)
		return values[sort.Search(len(values)-1, func(i int) bool { return share(i) > u })]
	}, nil
}

// between returns a drawer for a number. For int, uniform and log, the number is between from and to.
// For normal, from and to are the mean and deviation of the number; for lognormal, those of its
// logarithm. Draws are rounded to multiples of step, if given.
func between(word, from, to, step, name string) (drawer, error) {
	if word == "int" {
		low, errLow := strconv.ParseInt(from, 10, 64)
		high, errHigh := strconv.ParseInt(to, 10, 64)
		switch {
		case errLow != nil || errHigh != nil:
			return nil, source.Faultf("write int 2..8, or uniform for other numbers", "%s..%s is not a range of whole numbers", from, to)
		case low > high:
			return nil, source.Faultf("write int "+to+".."+from, "range %s..%s is reversed", from, to)
		}
		return func(bits uint64) *Param {
			n := low + int64(below(bits, uint64(high-low)+1))
			return &Param{Name: name, Text: strconv.FormatInt(n, 10), Tag: "!!int"}
		}, nil
	}
	low, errLow := strconv.ParseFloat(from, 64)
	high, errHigh := strconv.ParseFloat(to, 64)
	q, errStep := strconv.ParseFloat(cmp.Or(step, "1"), 64)
	least, most := low, high
	normal := strings.HasSuffix(word, "normal")
	if normal {
		least, most = low-9*high, low+9*high // 53 bits reach at most 8.3 deviations
	}
	if word == "lognormal" {
		least, most = math.Exp(least), math.Exp(most)
	}
	bad := errLow != nil || errHigh != nil || errStep != nil || math.IsInf(most-least+q, 0) || math.IsNaN(most-least+q)
	switch {
	case normal && (bad || high <= 0 || step != "" && q < max(-least, most)/1e15):
		return nil, source.Faultf("write "+word+" 0±1, or "+word+" 0±1..0.1", "%s±%s needs a mean, a deviation above 0 and a step above 0", from, strings.Trim(to+".."+step, "."))
	case bad:
		return nil, source.Faultf("write "+word+" 1e-4..1e-1", "%s..%s is not a range of numbers", from, to)
	case low >= high && !normal:
		return nil, source.Faultf("write "+word+" "+to+".."+from, "range %s..%s is reversed or empty", from, to)
	case word == "log" && low <= 0:
		return nil, source.Faultf("start above 0, or write uniform", "log needs positive numbers, not %s", from)
	}
	return func(bits uint64) *Param {
		u := float64(bits>>11) / (1 << 53)
		x := low + u*(high-low)
		if normal {
			x = low + high*math.Sqrt2*math.Erfinv(2*u-1+1.0/(1<<53)) // middle of an interval of 2^-53, so never infinite
		}
		switch {
		case word == "log":
			x = math.Exp(math.Log(low) + u*(math.Log(high)-math.Log(low)))
		case word == "lognormal":
			x = math.Exp(x)
		}
		if step != "" {
			return &Param{Name: name, Text: Plain(math.RoundToEven(x/q)*q, 15), Tag: "!!float"}
		}
		return &Param{Name: name, Text: digits4(x, least, most), Tag: "!!float"}
	}, nil
}

// Plain spells a number, rounded to the given number of significant digits, without an exponent.
func Plain(x float64, digits int) string {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x+0, 'g', digits, 64), 64) // +0 turns -0 into 0
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// below maps 64 random bits to a number below n. An n of 0 means 2^64.
func below(random, n uint64) uint64 {
	if n == 0 {
		return random
	}
	high, _ := bits.Mul64(random, n)
	return high
}

// digits4 formats a number between low and high with 4 significant digits, so that every YAML
// parser reads it as a float.
func digits4(x, low, high float64) string {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'e', 3, 64), 64)
	x = min(max(x, low), high)
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		s := strconv.FormatFloat(x, 'e', -1, 64)
		if m, e, _ := strings.Cut(s, "e"); !strings.Contains(m, ".") {
			s = m + ".0e" + e
		}
		return s
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
