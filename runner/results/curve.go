package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpurun/state"
	"gpurun/state/schema"
)

// maxPoint is the longest line in a file of points.
const maxPoint = 1 << 20

// ReadCurves reads the points of an attempt's curves, which are JSON objects with a step, one per
// line, flattened like other metrics. It skips invalid lines. The curves are sorted by metric, and
// points are in file order.
func ReadCurves(r io.Reader) ([]schema.Curve, error) {
	index := map[string]int{}
	curves := []schema.Curve{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxPoint)
	for lines.Scan() {
		var point map[string]any
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		if d.UseNumber(); d.Decode(&point) != nil {
			continue
		}
		n, _ := point["step"].(json.Number)
		step, err := n.Float64()
		if err != nil {
			continue
		}
		for name, value := range state.Flat(point) {
			x, ok := Number(value)
			if name == "step" || !ok {
				continue
			}
			i, known := index[name]
			if !known {
				i = len(curves)
				index[name] = i
				curves = append(curves, schema.Curve{Metric: name})
			}
			curves[i].Steps = append(curves[i].Steps, step)
			curves[i].Values = append(curves[i].Values, schema.Finite(x))
		}
	}
	slices.SortFunc(curves, func(a, b schema.Curve) int { return strings.Compare(a.Metric, b.Metric) })
	return curves, lines.Err()
}

// Number converts a metric's value in the ledger to a number. JSON has no NaN, so the ledger stores
// it as a string.
func Number(value any) (x float64, ok bool) {
	switch v := value.(type) {
	case float64:
		return v, true
	case json.Number:
		x, err := v.Float64()
		return x, err == nil || errors.Is(err, strconv.ErrRange)
	case string:
		switch v {
		case "NaN":
			return math.NaN(), true
		case "Infinity":
			return math.Inf(1), true
		case "-Infinity":
			return math.Inf(-1), true
		}
		x, err := strconv.ParseFloat(v, 64)
		return x, err == nil
	}
	return 0, false
}
