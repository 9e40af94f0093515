package terminal

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// golden compares lines with a file in testdata.
func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := Plain(strings.Join(lines, "\n") + "\n")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// busy returns a frame with n running jobs, named as by a matrix.
func busy(n int, name func(i int) string) Frame {
	s := &schema.Status{
		Head: schema.At(noon), Live: &schema.Live{},
		Counts: map[state.Phase]int{state.Running: n, state.Succeeded: 10, state.UpToDate: 2, state.Failed: 1, state.Pending: max(48-13-n, 0)},
	}
	last := map[string]string{}
	f := Frame{Snap: s, Now: noon, Last: func(log string) string { return last[log] }}
	for i := range n {
		used, log := gpu.Bytes(i)*gpu.GiB, fmt.Sprint("u", i)
		a := &schema.Attempt{
			UniID: &log, N: 1 + i%3/2, Started: schema.Time(noon.Add(-time.Duration(i*i*37) * time.Second)),
			GPUs: []schema.AttemptGPU{{Index: i % 8, Granted: 12 * gpu.GiB, Used: &used}}, Log: &schema.Log{Path: log},
		}
		if i%5 == 4 {
			a.GPUs = nil
		}
		f.Snap.Jobs = append(f.Snap.Jobs, schema.Job{Name: name(i), State: state.Running, Attempt: a})
		last[log] = fmt.Sprintf("epoch %d/100 loss=0.%03d acc=0.9%d eta 00:%02d:11 and then some more words that fill the line", i, i*7, i%10, i)
	}
	phase := schema.RunRunning
	s.Run = &schema.Run{Alive: true, Phase: &phase}
	s.Live.End = &schema.End{From: schema.Time(noon.Add(95 * time.Minute)), To: schema.Time(noon.Add(110 * time.Minute))}
	s.Sum()
	return f
}

func longName(i int) string {
	return fmt.Sprintf("sweep/train-cifar100-resnet152-federated-averaging-with-momentum-lr1e-%d-s%d", i%5+1, 42+i)
}

func shortName(i int) string { return fmt.Sprintf("train-s%d", i) }

func TestFramesMatchTheirGoldenFiles(t *testing.T) {
	waits := busy(4, shortName)
	waits.Snap.Live.Bottleneck = schema.Known("big needs 40 GiB: 3 free, GPU 2: held by alice, python 4711, 37 GiB, since 06:10")
	waits.Snap.Live.Kept = schema.Known("kept for big: 3 of 4")
	waits.Snap.Jobs = append(waits.Snap.Jobs, schema.Job{Name: "q1-3", State: state.Waiting, Attempts: 3, Wait: &schema.Wait{Until: schema.Time(noon.Add(500 * time.Second))}})
	waits.Snap.Counts[state.Waiting] = 3
	waits.Snap.Counts[state.Pending] -= 3
	long := busy(2, shortName)
	long.Snap.Live.Bottleneck = schema.Known(longName(7) + " needs 40 GiB: 3 free")
	draining := busy(3, shortName)
	draining.Snap.Live.Draining = schema.Known("Ctrl-C")
	draining.Snap.Live.Stale = schema.Known(40.0)
	draining.Snap.Jobs[1].Attempt.Stopping = schema.Known("timeout")
	draining.Hint = "nothing more starts; Ctrl-C again stops the running jobs"
	frames := map[string]Frame{
		"sixteen":  busy(16, longName),
		"forty":    busy(40, longName),
		"four":     waits,
		"long":     long,
		"draining": draining,
		"wide":     busy(3, func(i int) string { return fmt.Sprintf("训练-数据集-%d-非常长的名字-非常长的名字", i) }),
		"idle":     {Snap: &schema.Status{Run: &schema.Run{Alive: true, Phase: schema.Known(schema.RunWaiting)}, Counts: map[state.Phase]int{state.Pending: 3}}, Now: noon},
	}
	for name, f := range frames {
		for _, size := range []Size{{80, 24}, {40, 10}, {200, 60}} {
			t.Run(fmt.Sprintf("%s-%dx%d", name, size.Width, size.Height), func(t *testing.T) {
				f.Snap.Sum()
				rows := f.Rows(size)
				fits(t, rows, size)
				golden(t, fmt.Sprintf("%s-%dx%d", name, size.Width, size.Height), rows)
			})
		}
	}
}

// fits checks that nothing wraps or scrolls.
func fits(t *testing.T, rows []string, size Size) {
	t.Helper()
	if len(rows) > max(size.Height-1, 2) {
		t.Errorf("%d rows on a terminal of %d", len(rows), size.Height)
	}
	for _, r := range rows {
		if w := Width(r); w > max(size.Width-1, 10) {
			t.Errorf("%d columns on a terminal of %d: %q", w, size.Width, r)
		}
	}
}

func TestFramesFitEveryTerminal(t *testing.T) {
	for w := 10; w < 130; w += 3 {
		for h := 2; h < 30; h += 5 {
			for _, n := range []int{0, 1, 16, 100} {
				fits(t, busy(n, longName).Rows(Size{w, h}), Size{w, h})
			}
		}
	}
}
