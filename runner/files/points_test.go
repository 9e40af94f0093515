package files

import (
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gpurun/jobspec"
	"gpurun/state"
)

func pointsOf(pairs ...float64) (list state.Curve) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, state.Point{Step: pairs[i], Value: pairs[i+1]})
	}
	return list
}

func TestPointsFindSteps(t *testing.T) {
	acc := jobspec.Metric{Name: "acc", Log: regexp.MustCompile(`acc=([0-9.a-z-]+)`)}
	named := acc
	named.Step = regexp.MustCompile(`epoch ([0-9]+)`)
	for _, x := range []struct {
		name, log string
		metric    jobspec.Metric
		over      bool
		want      state.Curve
	}{
		{"counted", "acc=0.5\nloss\nacc=0.6\n", acc, false, pointsOf(1, 0.5, 2, 0.6)},
		{"the last match of a line", "acc=0.1 acc=0.5\n", acc, false, pointsOf(1, 0.5)},
		{"named in the line", "epoch 3: acc=0.5\nepoch 4: acc=0.6\n", named, false, pointsOf(3, 0.5, 4, 0.6)},
		{"named before it", "epoch 3\ntrain\nacc=0.5\nepoch 4\n", named, false, pointsOf(3, 0.5)},
		{"progress bar that overwrites itself", "epoch 1 acc=0.1\repoch 1 acc=0.2\repoch 2 acc=0.3\r\n", named, false, pointsOf(1, 0.1, 1, 0.2, 2, 0.3)},
		{"in color", "acc=\x1b[32m0.5\x1b[0m\n", acc, false, pointsOf(1, 0.5)},
		{"incomplete line", "acc=0.5\nacc=0.", acc, false, pointsOf(1, 0.5)},
		{"incomplete last line of an ended job", "acc=0.5\nacc=0.7", acc, true, pointsOf(1, 0.5, 2, 0.7)},
		{"not a number", "acc=none\nacc=0.5\n", acc, false, pointsOf(1, 0.5)},
		{"too large", "acc=1e999\n", jobspec.Metric{Log: regexp.MustCompile(`acc=(\S+)`)}, false, pointsOf(1, math.Inf(1))},
		{"nothing", "loss\n", acc, true, nil},
	} {
		path := filepath.Join(t.TempDir(), "log")
		write(t, path, x.log)
		got, _ := Points(x.metric, []LogPart{{Path: path}}, LogPosition{}, x.over)
		if !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: got %v, want %v", x.name, got, x.want)
		}
	}
}

// Points do not depend on where each read of a growing log ends.
func TestPointsDoNotDependOnReads(t *testing.T) {
	metric := jobspec.Metric{Log: regexp.MustCompile(`acc=([0-9.]+)`), Step: regexp.MustCompile(`epoch ([0-9]+)`)}
	log := "start\nepoch 1\nacc=0.1\nepoch 2\nacc=0.2\nepoch 3 acc=0.3\n"
	want := pointsOf(1, 0.1, 2, 0.2, 3, 0.3)
	path := filepath.Join(t.TempDir(), "log")
	for size := 1; size < len(log); size++ {
		var all state.Curve
		var at LogPosition
		for end := size; ; end += size {
			write(t, path, log[:min(end, len(log))])
			points, to := Points(metric, []LogPart{{Path: path}}, at, false)
			at, all = to, append(all, points...)
			if end >= len(log) {
				break
			}
		}
		if !reflect.DeepEqual(all, want) {
			t.Errorf("reads of %d bytes: got %v, want %v", size, all, want)
		}
	}
}

// A job may truncate the log to which earlier attempts have written. Each of its points counts once.
func TestPointsOfTruncatedLogCountOnce(t *testing.T) {
	metric := jobspec.Metric{Log: regexp.MustCompile(`acc=([0-9.]+)`)}
	path, log := filepath.Join(t.TempDir(), "log"), ""
	var all state.Curve
	var at LogPosition
	for _, line := range []string{"acc=0.1\n", "acc=0.2\n", "", "acc=0.3\n", "acc=0.4\n"} {
		log += line
		write(t, path, log)
		points, to := Points(metric, []LogPart{{Path: path, From: 20}}, at, false)
		at, all = to, append(all, points...)
	}
	if want := pointsOf(1, 0.1, 2, 0.2, 3, 0.3, 4, 0.4); !reflect.DeepEqual(all, want) {
		t.Errorf("got %v, want %v", all, want)
	}
}

func TestPointsComeFromFirstLogWithMetric(t *testing.T) {
	dir, metric := t.TempDir(), jobspec.Metric{Log: regexp.MustCompile(`acc=([0-9.]+)`)}
	logs := []LogPart{{Path: filepath.Join(dir, "out"), From: 4}, {Path: filepath.Join(dir, "err")}}
	write(t, logs[0].Path, "old\nepoch\n")
	write(t, logs[1].Path, "acc=0.5\n")
	got, at := Points(metric, logs, LogPosition{}, false)
	if !reflect.DeepEqual(got, pointsOf(1, 0.5)) || at.Log != 2 || at.At[1] != 8 {
		t.Fatalf("got %v at %+v", got, at)
	}
	write(t, logs[0].Path, "old\nepoch\nacc=0.1\n") // ignored: the other log already has the metric
	write(t, logs[1].Path, "acc=0.5\nacc=0.6\n")
	if got, at = Points(metric, logs, at, false); !reflect.DeepEqual(got, pointsOf(2, 0.6)) {
		t.Errorf("got %v at %+v", got, at)
	}
	write(t, logs[1].Path, "acc=0.7\n") // truncated
	if got, at = Points(metric, logs, at, false); !reflect.DeepEqual(got, pointsOf(1, 0.7)) {
		t.Errorf("got %v at %+v", got, at)
	}
}

// A log with more points than fit in memory is read to its end, and no line is lost between reads.
func TestPointsOfLongLogAreComplete(t *testing.T) {
	path, metric := filepath.Join(t.TempDir(), "log"), jobspec.Metric{Log: regexp.MustCompile(`acc=([0-9.]+)`)}
	const lines = 10_000
	write(t, path, strings.Repeat(strings.Repeat("x", 1000)+"\nacc=0.5\n", lines)+"acc=0.6\n"+strings.Repeat("acc=0.5\n", 3*maxInMemory))
	points, at := Points(metric, []LogPart{{Path: path}}, LogPosition{}, false)
	if best, _ := points.Best(lines+1, true); at.Step != lines+1+3*maxInMemory || points.Last() != at.Step || best != 0.6 || len(points) > 2*maxInMemory {
		t.Errorf("got %d points up to step %v, best %v", len(points), at.Step, best)
	}
}

// Objects with a step in a result file are also points.
func TestResultObjectsArePoints(t *testing.T) {
	path, logs := filepath.Join(t.TempDir(), "x.result"), []LogPart{{Path: filepath.Join(t.TempDir(), "log")}}
	write(t, logs[0].Path, "started\n")
	write(t, path, `{"epoch_seconds": 2}
{"step": 1, "acc": 0.5}
{"acc": 0.9}
{"step": 2, "acc": NaN, "note": "step 7"}
{"step": "3", "loss": 1}
{"step": 4, "acc": 0.7}{"step": 5, "acc": 0.8}
{"step": 6, "ac`)
	logs = append(logs, LogPart{Path: path, JSON: true})
	for _, metric := range []jobspec.Metric{{Name: "acc"}, {Name: "acc", Log: regexp.MustCompile(`acc=([0-9.]+)`)}} {
		got, at := Points(metric, logs, LogPosition{}, false)
		if got = (state.Curve{}).Add(got...); !reflect.DeepEqual(got, pointsOf(1, 0.5, 2, math.Inf(1), 5, 0.8)) {
			t.Errorf("got %v at %+v", got, at)
		}
	}
}
