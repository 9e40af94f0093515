package runner

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/files"
	"gpurun/state/disk"
)

// logParts holds the parts of log files that an attempt wrote: first the part of the log for
// standard output and then, if standard error goes to another file, the part of that file. From is
// -1 if unknown.
type logParts []files.LogPart

// logOf returns the part of a log for which only the path is known.
func logOf(path string) logParts { return logParts{{Path: path, From: -1}} }

// openLogs prepares the logs for an attempt's output. The first attempt in a run starts a new log;
// a retry appends after a header line, which openLogs returns. own is where gpurun keeps the log of
// a job without a log key, and began is when the batch began.
func openLogs(r jobspec.Rendered, own string, n int, first bool, isLog func(string) bool, began, wall time.Time) (p logParts, header string, err error) {
	empty := true // a log may exist but be empty, if an attempt that lost a race for its GPU created it
	for _, path := range slices.Compact([]string{r.Stdout, r.Stderr}) {
		from, err := openLog(path, own, first, isLog, began)
		if err != nil {
			return nil, "", err
		}
		p, empty = append(p, files.LogPart{Path: path, From: from}), empty && from == 0
	}
	if (first || n == 1) && empty {
		return p, "", nil
	}
	return p, fmt.Sprintf("%s%d, %s ---\n", files.AttemptHeader, n, wall.Local().Format("2006-01-02 15:04:05")), nil
}

// openLog prepares one log, and returns the offset at which the attempt's output begins.
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

// found returns the parts, with unknown offsets read from the logs.
func (p logParts) found() []files.LogPart {
	list := slices.Clone(p)
	for i := range list {
		if list[i].From < 0 {
			list[i].From = headerIn(list[i].Path)
		}
	}
	return list
}

// logTail is how much of a log's end is examined, in bytes.
const logTail = 64 << 10

// tail returns the last bytes of each part.
func (p logParts) tail(max int) (out []byte) {
	for _, part := range p.found() {
		out = append(out, files.Tail(part.Path, part.From, max)...)
	}
	return out
}

// headerIn returns the offset of the last attempt's header in a log. Without a header, the whole
// log belongs to the attempt.
func headerIn(path string) int64 {
	n := size(path)
	t := files.Tail(path, max(0, n-logTail), logTail)
	i := bytes.LastIndex(t, []byte("\n"+files.AttemptHeader))
	if i < 0 {
		return 0
	}
	return n - int64(len(t)) + int64(i) + 1
}
