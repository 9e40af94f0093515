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

// A LogPosition is the position up to which an attempt's logs have been read for the points of a
// metric.
type LogPosition struct {
	Log  int      // number of the log that has the metric, from 1; 0 if none has it yet
	At   [3]int64 // offset of the next byte in each log
	Step float64  // step of the last point
	Rule string   // Metric.Rule of the metric
	cut  [3]bool  // the log was truncated, so it no longer contains earlier attempts
}

// maxInMemory is how many points are kept in memory before the curve drops the least informative ones.
const maxInMemory = 20_000

// Points reads the points of a metric that a job has logged after a position: the last match of
// each line. A point's step is the last match of the step expression up to that line; without such
// an expression, it is the number of matches so far. In a JSON log, points are the objects with a
// step. Only the first log that has the metric counts. over means that the attempt has ended and its
// logs are final.
func Points(m jobspec.Metric, logs []LogPart, at LogPosition, over bool) (state.Curve, LogPosition) {
	if at.Rule != m.Rule { // a reload has changed it
		at = LogPosition{Rule: m.Rule}
	}
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

func (at *LogPosition) read(m jobspec.Metric, i int, p LogPart, over bool) (points state.Curve) {
	f, info, err := host.OpenRegular(p.Path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if !at.cut[i] {
		at.At[i] = max(at.At[i], p.From)
	}
	if info.Size() < at.At[i] {
		at.At[i], at.Step, at.cut[i] = 0, 0, true
	}
	lines := bufio.NewScanner(io.NewSectionReader(f, at.At[i], info.Size()-at.At[i]))
	lines.Buffer(nil, 2*logLong)
	lines.Split(func(text []byte, end bool) (int, []byte, error) {
		n := bytes.IndexAny(text, "\r\n") + 1
		if n == 0 && (end && over || len(text) >= logLong) {
			n = len(text)
		}
		if n == 0 { // the rest of the line has not been read or written yet
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
			all = state.Flat(all)
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
		if len(points) >= maxInMemory {
			points = state.Curve{}.Add(points...)
		}
	}
	return points
}
