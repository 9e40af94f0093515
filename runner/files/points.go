package files

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/host"
)

// A Place is how far the logs of an attempt have been read for what it reports step by step.
type Place struct {
	Log  int      // the number of the log that has the metric, from 1; 0 while none had it
	At   [3]int64 // by log: offset of the next byte
	Step float64  // the last
}

// mostAtOnce bounds how many points are in memory before the curve drops those that tell nothing.
const mostAtOnce = 20_000

// Points reads what a job has reported of a metric since a place in its logs: the last match of each line. The step is
// what matches last in this line or before it; without an expression for that, matches are counted. In a log of JSON, it
// is the objects with a step. Only the first log that has the metric counts. over is set if nothing more will be written.
func Points(m jobspec.Metric, logs []LogPart, at Place, over bool) (state.Curve, Place) {
	for i, p := range logs {
		if at.Log > 0 && at.Log != i+1 || m.Log == nil && !p.JSON {
			continue
		}
		if points := at.read(m, i, p, over); len(points) > 0 {
			at.Log = i + 1
			return points, at
		}
	}
	return nil, at
}

// read reads on in one log.
func (at *Place) read(m jobspec.Metric, i int, p LogPart, over bool) (points state.Curve) {
	f, info, err := host.OpenRegular(p.Path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if at.At[i] = max(at.At[i], p.From); info.Size() < at.At[i] { // it was started afresh
		at.At[i], at.Step = 0, 0
	}
	lines := bufio.NewScanner(io.NewSectionReader(f, at.At[i], info.Size()-at.At[i]))
	lines.Buffer(nil, 2*logLong)
	lines.Split(func(text []byte, end bool) (int, []byte, error) {
		n := bytes.IndexAny(text, "\r\n") + 1
		if n == 0 && (end && over || len(text) >= logLong) {
			n = len(text)
		}
		if n == 0 { // the rest of the line has yet to be read, or written
			return 0, nil, nil
		}
		at.At[i] += int64(n)
		return n, text[:n], nil
	})
	for lines.Scan() {
		line := escapes().ReplaceAll(lines.Bytes(), nil)
		step, _ := lastMatch(m.Step, line)
		value, _ := lastMatch(m.Log, line)
		if p.JSON {
			all, _, _ := merge(line)
			step, value = fmt.Sprint(all["step"]), fmt.Sprint(all[m.Name])
		}
		if n, err := parseNumber(step); err == nil && !math.IsInf(n, 0) && !math.IsNaN(n) {
			at.Step = n
		} else if p.JSON {
			continue
		}
		if v, err := parseNumber(value); err == nil {
			if m.Step == nil && !p.JSON {
				at.Step++
			}
			points = append(points, state.Point{Step: at.Step, Value: v})
		}
		if len(points) >= mostAtOnce {
			points = state.Curve{}.Add(points...)
		}
	}
	return points
}
