package expand

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpurun/jobspec/source"
	"gpurun/jobspec/units"
)

// A sample is so many random draws, as one axis. Draw i of a parameter depends on rng, the
// parameter's name and i alone: with a larger n, or one more parameter, the earlier draws
// stay what they were, in this and every later version.

// sampleKeys are the keys of sample.
var sampleKeys = []string{"n", "rng", "params"}

func (r *matrixReader) sample(node *yaml.Node) {
	n, rng := 0, "1"
	var params *yaml.Node
	ok := r.Pairs(node, "sample", func(k, v *yaml.Node) {
		var err error
		switch k.Value {
		case "n":
			n, err = units.ParseCount(v.Value, 1)
		case "rng":
			var seed int64
			if seed, err = strconv.ParseInt(v.Value, 10, 64); err != nil {
				err = source.Faultf("", "%q is not a whole number", v.Value)
			}
			rng = strconv.FormatInt(seed, 10)
		case "params":
			params = v
		default:
			hint := source.DidYouMean(k.Value, sampleKeys, "what is drawn belongs in params: {"+k.Value+": …}")
			if k.Value == "seed" {
				hint = "the seed of the draws is rng; a parameter belongs in params"
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
		r.fail(node, "add n: 20", "sample without n draws nothing")
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
		r.Warning(node.Line, node.Column, "", "%d of %d draws are the same as earlier ones and are left out", twice, n)
	}
}

// bitsOf returns the random bits of draw i of a parameter.
func bitsOf(rng, name string, i int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "gpurun sample 1\x00%s\x00%s\x00%d", rng, name, i))
	return binary.BigEndian.Uint64(sum[:])
}

// A drawer turns random bits into a value.
type drawer func(bits uint64) *Param

var (
	drawForm = regexp.MustCompile(`^(log|int|uniform) +(\S+?) *\.\. *(\S+)$`)
	// loguniform(1e-4, 1e-1), uniform(0, 1), randint(2, 8)
	otherDraw = regexp.MustCompile(`^(?:\w+\.)?(log_?uniform|uniform|randint|quniform)\( *([^, ]+) *, *([^, )]+).*\)$`)
)

// drawing reads how a parameter is drawn: from a list or a range as in a matrix, or by one of
// three words. It returns nil after a problem.
func (r *matrixReader) drawing(name string, v *yaml.Node) drawer {
	m := drawForm.FindStringSubmatch(v.Value)
	if v.Kind != yaml.ScalarNode || m == nil && isRange(v, true) {
		values := r.values(name, v)
		if len(values) == 0 || r.fails {
			return nil
		}
		return func(bits uint64) *Param { return values[below(bits, uint64(len(values)))] }
	}
	if m == nil {
		hint := `write "log 1e-4..1e-1", "uniform 0.1..0.9", "int 2..8" or a list`
		if o := otherDraw.FindStringSubmatch(v.Value); o != nil {
			word := map[byte]string{'l': "log", 'u': "uniform", 'q': "uniform", 'r': "int"}[o[1][0]]
			hint = fmt.Sprintf("write %q", word+" "+o[2]+".."+o[3])
		}
		r.fail(v, hint, "sample: %q does not say how to draw %s", source.Clip(v.Value), name)
		return nil
	}
	draw, err := between(m[1], m[2], m[3], name)
	if err != nil {
		r.fails = true
		r.Out.Add(source.Problem{File: r.Path, Line: v.Line, Col: v.Column, Text: "sample: " + name + ": "}.Because(err))
	}
	return draw
}

// between returns how to draw a number between two, as one of three words says.
func between(word, from, to, name string) (drawer, error) {
	if word == "int" {
		low, errLow := strconv.ParseInt(from, 10, 64)
		high, errHigh := strconv.ParseInt(to, 10, 64)
		switch {
		case errLow != nil || errHigh != nil:
			return nil, source.Faultf("write int 2..8, or uniform for other numbers", "%s..%s are not whole numbers", from, to)
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
	switch {
	case errLow != nil || errHigh != nil || math.IsInf(high-low, 0) || math.IsNaN(high-low):
		return nil, source.Faultf("write "+word+" 1e-4..1e-1", "%s..%s are not numbers", from, to)
	case low >= high:
		return nil, source.Faultf("write "+word+" "+to+".."+from, "range %s..%s is reversed or empty", from, to)
	case word == "log" && low <= 0:
		return nil, source.Faultf("begin above 0, or write uniform", "log needs positive numbers, not %s", from)
	}
	return func(bits uint64) *Param {
		u := float64(bits>>11) / (1 << 53)
		x := low + u*(high-low)
		if word == "log" {
			x = math.Exp(math.Log(low) + u*(math.Log(high)-math.Log(low)))
		}
		return &Param{Name: name, Text: digits4(x, low, high), Tag: "!!float"}
	}, nil
}

// below returns a number below n. n is 0 for 2^64.
func below(random, n uint64) uint64 {
	if n == 0 {
		return random
	}
	high, _ := bits.Mul64(random, n)
	return high
}

// digits4 spells a number between two with 4 significant digits, and so that every reader of YAML
// takes it for a float.
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
