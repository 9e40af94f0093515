package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gpurun/jobspec"
	"gpurun/state/host"
)

// A LogPart is the part of a log that one attempt wrote: bytes From to To, or to the end if To is
// 0.
type LogPart struct {
	Path     string
	From, To int64
	JSON     bool // each line is a JSON object
}

// Limits bound how much of each log and file is read, and until when. Zero values mean no limit.
type Limits struct {
	Bytes int64
	Until time.Time
}

// Measured holds the metrics found for a job.
type Measured struct {
	Values  map[string]any    // a number, or a string such as "NaN", as in the ledger
	Sums    map[string]string // Metric.Sum of the rule that found each value
	Missing map[string]string // why there is no value
}

// Measure reads the metrics of a job from its logs and files. It searches a log from the end,
// because most jobs print the final value last.
func Measure(list []jobspec.Metric, logs []LogPart, limits Limits) Measured {
	m := Measured{map[string]any{}, map[string]string{}, map[string]string{}}
	var inLog []jobspec.Metric
	inFile := map[string][]jobspec.Metric{}
	var paths []string
	for _, x := range list {
		switch {
		case x.Log != nil:
			inLog = append(inLog, x)
		case x.Path != "":
			if inFile[x.Path] == nil {
				paths = append(paths, x.Path)
			}
			inFile[x.Path] = append(inFile[x.Path], x)
		}
	}
	for i, p := range logs {
		if len(inLog) == 0 {
			break
		}
		inLog = m.fromLog(inLog, p, limits, i == 0)
	}
	for _, path := range paths {
		m.fromFile(inFile[path], path, limits)
	}
	return m
}

// found parses and stores a metric's value.
func (m *Measured) found(x jobspec.Metric, text string) {
	value, err := parseNumber(text)
	if err != nil {
		m.Missing[x.Name] = fmt.Sprintf("%q is not a number", shorten(text))
		return
	}
	delete(m.Missing, x.Name)
	m.Sums[x.Name] = x.Sum
	switch {
	case math.IsNaN(value):
		m.Values[x.Name] = "NaN"
	case math.IsInf(value, 0):
		m.Values[x.Name] = strings.Replace(strings.TrimPrefix(fmt.Sprint(value), "+"), "Inf", "Infinity", 1)
	default:
		m.Values[x.Name] = value
	}
}

// parseNumber parses a number as programs print it. It ignores punctuation after the number: tqdm
// ends its lines with "acc=0.93]", and a printed dict ends with "'acc': 0.93}". It returns an infinity
// if the number is too large.
func parseNumber(text string) (float64, error) {
	value, err := strconv.ParseFloat(strings.TrimRight(strings.TrimSpace(text), ".,;%)]}"), 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	return value, err
}

// Size of a read from a log, and the length at which lines are cut.
const (
	logChunk = 256 << 10
	logLong  = 1 << 20
)

// fromLog looks for metrics in the lines of a log, from the last to the first, and returns the
// metrics that it did not find. first is false for the second and later logs of a job.
func (m *Measured) fromLog(list []jobspec.Metric, p LogPart, limits Limits, first bool) []jobspec.Metric {
	missing := func(why string) []jobspec.Metric {
		for _, x := range list {
			if first || m.Missing[x.Name] == "" {
				m.Missing[x.Name] = why
			}
		}
		return list
	}
	f, info, err := host.OpenRegular(p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing("its log no longer exists")
	case err != nil:
		return missing("cannot read its log")
	}
	defer f.Close()
	end := info.Size()
	if p.To > 0 {
		end = min(end, p.To)
	}
	least := BeginsAt(p.From, end)
	cut := limits.Bytes > 0 && end-limits.Bytes > least
	if cut {
		least = end - limits.Bytes
	}
	var rest []byte // the end of a line whose beginning has not been read
	for end > least && len(list) > 0 {
		if !limits.Until.IsZero() && time.Now().After(limits.Until) {
			return missing("its log is too long")
		}
		start := max(least, end-logChunk)
		part := make([]byte, end-start, int(end-start)+len(rest))
		if _, err := f.ReadAt(part, start); err != nil {
			return missing("cannot read its log")
		}
		part, end = append(part, rest...), start
		for len(list) > 0 {
			i := bytes.LastIndexAny(part, "\r\n")
			if i < 0 && (start > least && len(part) < logLong || cut && start == least) {
				break // the line begins further up
			}
			if list = m.inLine(list, part[i+1:]); i < 0 {
				part = nil
				break
			}
			part = part[:i]
		}
		rest = part
	}
	if cut {
		return missing("its log is too long")
	}
	return missing("no line of its log matches")
}

// inLine looks for metrics in one line and returns those that it did not find.
func (m *Measured) inLine(list []jobspec.Metric, line []byte) []jobspec.Metric {
	if len(line) == 0 {
		return list
	}
	if bytes.IndexByte(line, 0x1b) >= 0 {
		line = escapes().ReplaceAll(line, nil)
	}
	left := list[:0:0]
	for i, x := range list {
		text, ok := lastMatch(x.Log, line)
		if !ok {
			left = append(left, list[i])
			continue
		}
		m.found(x, text)
	}
	if len(left) == len(list) {
		return list
	}
	return left
}

// lastMatch returns the capture group of the last match in a line.
func lastMatch(re *regexp.Regexp, line []byte) (text string, ok bool) {
	if re == nil || !re.Match(line) { // much faster than finding groups
		return "", false
	}
	for _, at := range re.FindAllSubmatchIndex(line, -1) {
		if len(at) >= 4 && at[2] >= 0 {
			text, ok = string(line[at[2]:at[3]]), true
		}
	}
	return text, ok
}

func (m *Measured) fromFile(list []jobspec.Metric, path string, limits Limits) {
	missing := func(why string) {
		for _, x := range list {
			m.Missing[x.Name] = why
		}
	}
	name := filepath.Base(path)
	f, info, err := host.OpenRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		missing("no " + name)
		return
	case err != nil:
		missing("cannot read " + name)
		return
	}
	defer f.Close()
	if limits.Bytes > 0 && info.Size() > limits.Bytes || info.Size() > maxTable {
		missing(name + " is too large")
		return
	}
	read, known := formats[strings.ToLower(filepath.Ext(path))]
	if !known {
		missing(name + " is not .json, .jsonl, .yaml, .csv or .tsv")
		return
	}
	all := pickers(list)
	if err := read(f, all); err != nil {
		missing(name + ": " + shorten(err.Error()))
		return
	}
	for _, p := range all {
		if p.why != "" {
			m.Missing[p.metric.Name] = p.why + " in " + name
		} else {
			m.found(p.metric, p.text)
		}
	}
}
