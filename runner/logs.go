package runner

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/state/disk"
)

// A logPart is an attempt's part of its log files, given by where its output begins.
type logPart struct {
	stdout, stderr         string
	fromStdout, fromStderr int64 // -1 if unknown
}

// logOf returns the logPart of an attempt for which only the log's path is known.
func logOf(path string) logPart { return logPart{path, path, -1, -1} }

// openLogs prepares the logs for an attempt's output. The first attempt in a run starts a new log;
// a retry appends after a header line, which openLogs returns. own is where gpurun keeps the log of
// a job without a log key, and began is when the batch began.
func openLogs(r jobspec.Rendered, own string, n int, first bool, isLog func(string) bool, began, wall time.Time) (logPart, string, error) {
	p := logPart{stdout: r.Stdout, stderr: r.Stderr}
	var err error
	if p.fromStdout, err = openLog(r.Stdout, own, first, isLog, began); err != nil {
		return p, "", err
	}
	if p.fromStderr = p.fromStdout; r.Stderr != r.Stdout {
		if p.fromStderr, err = openLog(r.Stderr, own, first, isLog, began); err != nil {
			return p, "", err
		}
	}
	if (first || n == 1) && p.fromStdout == 0 && p.fromStderr == 0 {
		return p, "", nil // the log is empty, though an attempt that lost a race for its GPU may have created it
	}
	return p, fmt.Sprintf("%s%d, %s ---\n", files.AttemptHeader, n, wall.Local().Format("2006-01-02 15:04:05")), nil
}

// openLog returns the offset at which output begins in one log.
func openLog(path, own string, first bool, isLog func(string) bool, began time.Time) (int64, error) {
	if first && !isLog(path+".1") { // otherwise the old log would overwrite another job's log
		empty, err := disk.FreshLog(path, path == own, began)
		if err != nil {
			return 0, fmt.Errorf("cannot start new log %q: %w", path, err)
		}
		if empty {
			return 0, nil
		}
	}
	return size(path), nil
}

func size(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return 0
	}
	return fi.Size()
}

// parts returns the attempt's part of each log, up to its current end.
func (p logPart) parts() []files.LogPart {
	list := []files.LogPart{{Path: p.stdout, From: p.start(p.stdout, p.fromStdout)}}
	if p.stderr != p.stdout {
		list = append(list, files.LogPart{Path: p.stderr, From: p.start(p.stderr, p.fromStderr)})
	}
	return list
}

// logTail is how much of a log's end is examined, in bytes.
const logTail = 64 << 10

// tail returns the last bytes of the attempt's part of its logs.
func (p logPart) tail(max int) []byte {
	out := files.Tail(p.stdout, p.start(p.stdout, p.fromStdout), max)
	if p.stderr != p.stdout {
		out = append(out, files.Tail(p.stderr, p.start(p.stderr, p.fromStderr), max)...)
	}
	return out
}

// start returns the offset at which the attempt's part begins. For an adopted attempt it searches
// for the header; without one, the part is the whole file.
func (p logPart) start(path string, from int64) int64 {
	if from >= 0 {
		return from
	}
	n := size(path)
	t := files.Tail(path, max(0, n-logTail), logTail)
	i := bytes.LastIndex(t, []byte("\n"+files.AttemptHeader))
	if i < 0 {
		return 0
	}
	return n - int64(len(t)) + int64(i) + 1
}

// lastLines returns the last n lines of this part; see files.LastLines.
func (p logPart) lastLines(n int) []string {
	return files.LastLines(p.tail(logTail), n)
}
