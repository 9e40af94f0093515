package files

import (
	"bytes"
	"io"
	"math"
	"regexp"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/host"
)

// A Place is how far the logs of an attempt have been read for what it reports step by step.
type Place struct {
	Log  int      // the number of the log that has the metric, from 1; 0 while none had it
	At   [2]int64 // by log: offset of the next byte
	Step float64  // the last
}

// mostAtOnce bounds how much of a log is read for points at once.
const mostAtOnce = 4 << 20

// Points reads what a job has reported of a metric since a place in its logs: the last match of each line. The step is
// what matches last in this line or before it; without an expression for that, matches are counted. Only the first log
// that has the metric counts. over is set if nothing more will be written. last is where that log was read to for the
// last point.
func Points(m jobspec.Metric, logs []LogPart, from Place, over bool) (points []state.Point, to Place, last int64) {
	for i, p := range logs {
		if from.Log == 0 || from.Log == i+1 {
			from.At[i] = max(from.At[i], p.From)
			if points, last = from.read(m, i, p.Path, over); len(points) > 0 {
				from.Log = i + 1
				break
			}
		}
	}
	return points, from, last
}

// read reads on in one log.
func (at *Place) read(m jobspec.Metric, i int, path string, over bool) (points []state.Point, last int64) {
	f, info, err := host.OpenRegular(path)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	if info.Size() < at.At[i] { // it was started afresh
		at.At[i], at.Step = 0, 0
	}
	text, err := io.ReadAll(io.NewSectionReader(f, at.At[i], mostAtOnce))
	if err != nil {
		return nil, 0
	}
	for whole := len(text) == mostAtOnce; len(text) > 0; whole = false {
		end := bytes.IndexAny(text, "\r\n") + 1
		if end == 0 && !over && !whole {
			break // the rest of the line has yet to be written
		}
		if end == 0 {
			end = len(text)
		}
		line := text[:end]
		at.At[i], text = at.At[i]+int64(end), text[end:]
		if bytes.IndexByte(line, 0x1b) >= 0 {
			line = escapes().ReplaceAll(line, nil)
		}
		if step, ok := numberIn(m.Step, line); ok && !math.IsInf(step, 0) && !math.IsNaN(step) {
			at.Step = step
		}
		if value, ok := numberIn(m.Log, line); ok {
			if m.Step == nil {
				at.Step++
			}
			points, last = append(points, state.Point{Step: at.Step, Value: value}), at.At[i]
		}
	}
	return points, last
}

// numberIn returns the number in the group of an expression's last match in a line.
func numberIn(re *regexp.Regexp, line []byte) (float64, bool) {
	if re == nil {
		return 0, false
	}
	text, ok := lastMatch(re, line)
	value, err := parseNumber(text)
	return value, ok && err == nil
}
