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

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.Local)

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

// busyFrame returns a frame with n running jobs whose names look like those of a matrix.
func busyFrame(n int, name func(i int) string) Frame {
	s := &schema.Status{
		Head: schema.At(noon), Live: &schema.Live{},
		Counts: map[state.Phase]int{state.Running: n, state.Succeeded: 10, state.UpToDate: 2, state.Failed: 1, state.Pending: max(48-13-n, 0)},
	}
	last := map[string]string{}
	for i := range min(n, 8) {
		used, util := gpu.Bytes(2*i)*gpu.GiB, 12*i
		s.GPUs = append(s.GPUs, schema.GPU{Index: i, Total: schema.Known(24 * gpu.GiB), Used: &used, Util: &util, Jobs: []string{"a job"}})
	}
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
		f.Snap.Jobs = append(f.Snap.Jobs, &schema.Job{Name: name(i), State: state.Running, Attempt: a})
		last[log] = fmt.Sprintf("epoch %d/100 loss=0.%03d acc=0.9%d eta 00:%02d:11 and then some more words that fill the line", i, i*7, i%10, i)
	}
	if n > 0 {
		s.Jobs[n-1].Attempt.Progress = schema.Known(0.8)
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

// eventfulFrame returns a frame of a batch on 8 GPUs, with a stalled job, two jobs on one GPU, names that
// differ in the middle, another user's job and process, and three failure groups.
func eventfulFrame() Frame {
	f := busyFrame(7, func(i int) string {
		if i == 5 {
			return "cifar100-resnet152-lr0.1-momentum0.9-s1"
		}
		return []string{"nccl-probe", "vit-tiny-svhn-lr0.01-s2", "cifar100-resnet18-lr0.1-momentum0.9-s1", "ddp", "table", "", "mixer-s1"}[i]
	})
	s := f.Snap
	s.GPUs = append(s.GPUs, s.GPUs[5])
	for i := range s.GPUs {
		s.GPUs[i].Index = i
	}
	for i := range s.Jobs {
		if s.Jobs[i].Attempt.Progress = schema.Known(float64(i) / 10); i == 0 {
			s.Jobs[i].Attempt.Stalled, s.Live.Stalled = schema.Known("no output, CPU or GPU use for 31 min; nccl-sum waits for it"), []string{"nccl-probe"}
		}
	}
	s.Jobs[1].Attempt.Steps, s.Jobs[5].Attempt.Steps = schema.Known(20), schema.Known(1000)
	s.Jobs[6].Attempt.GPUs[0].Index = 1
	s.Jobs[1].Attempt.Metrics = map[string]any{"loss": "NaN", "acc": 0.91337}
	on := s.Jobs[3].Attempt
	on.GPUs, on.Progress, on.Takes = append(on.GPUs, schema.AttemptGPU{Index: 4}), nil, schema.Known(1000.0)
	s.GPUs[6].Jobs, s.GPUs[6].Processes = nil, []schema.Process{{PID: 4711, User: schema.Known("bob"), Command: schema.Known("jupyter")}}
	s.GPUs[7].Jobs, s.GPUs[7].Claims = nil, []schema.Claim{{User: schema.Known("alice"), Job: "train-3", Since: schema.Time(noon.Add(-time.Hour))}}
	s.Live.Bottleneck = schema.Known("big-eval needs 2 GPUs with 20 GiB: 1 free, GPU 6 has 9 GiB (bob, jupyter, since 08:42)")
	group := func(count int, cause, apart string, jobs ...string) {
		s.Alike = append(s.Alike, schema.Alike{Cause: schema.Cause{Text: cause}, Count: count, Jobs: jobs, Apart: schema.Known(apart)})
	}
	group(6, "ValueError: loss is nan; no retry: on: [oom] excludes this failure", "all jobs with model=vit-tiny lr=0.1", "vit-tiny-lr0.1-s1", "vit-tiny-lr0.1-s2", "vit-tiny-lr0.1-s3")
	group(3, "CUDA out of memory. Tried to allocate 2.50 GiB", "model=vit-tiny data=cifar10 lr=0.001; peak 3.5 GiB of 10 GiB", "a-s1", "a-s2", "a-s3")
	group(1, "SIGSEGV at epoch 7/20", "GPU 1; 2 attempts", "resnet18-svhn-lr0.001-s3")
	s.Counts[state.Failed] = 10
	return f
}

func TestFramesMatchGoldenFiles(t *testing.T) {
	waits := busyFrame(4, shortName)
	waits.Snap.Live.Bottleneck = schema.Known("big needs 40 GiB: 3 free, GPU 2: held by alice, python 4711, 37 GiB, since 06:10")
	waits.Snap.Live.Kept = schema.Known("kept for big: 3 of 4 GPUs")
	waits.Snap.Jobs = append(waits.Snap.Jobs, &schema.Job{Name: "q1-3", State: state.Waiting, Attempts: 3, Wait: &schema.Wait{Until: schema.Time(noon.Add(500 * time.Second))}})
	waits.Snap.Counts[state.Waiting] = 3
	waits.Snap.Counts[state.Pending] -= 3
	long := busyFrame(2, shortName)
	long.Snap.Live.Bottleneck = schema.Known(longName(7) + " needs 40 GiB: 3 free")
	draining := busyFrame(3, shortName)
	draining.Snap.Live.Draining = schema.Known("Ctrl-C")
	draining.Snap.Live.Stale = schema.Known(40.0)
	draining.Snap.Jobs[1].Attempt.Stopping = schema.Known("timeout")
	draining.Hint = "starting no more jobs; press Ctrl-C again to stop running jobs"
	cluster := busyFrame(3, shortName)
	cluster.Snap.GPUs, cluster.Snap.Jobs[2].State = nil, state.Queued
	for i := range cluster.Snap.Jobs {
		a := cluster.Snap.Jobs[i].Attempt
		a.Submitted, a.Host = schema.Time(noon.Add(-time.Hour)), schema.Known(fmt.Sprint("node", i))
	}
	frames := map[string]Frame{
		"night":    eventfulFrame(),
		"cluster":  cluster,
		"sixteen":  busyFrame(16, longName),
		"four":     waits,
		"long":     long,
		"draining": draining,
		"wide":     busyFrame(3, func(i int) string { return fmt.Sprintf("训练-数据集-%d-非常长的名字-非常长的名字", i) }),
		"idle":     {Snap: &schema.Status{Run: &schema.Run{Alive: true, Phase: schema.Known(schema.RunWaiting)}, Counts: map[state.Phase]int{state.Pending: 3}}, Now: noon},
	}
	for name, f := range frames {
		for _, size := range []Size{{80, 24}, {120, 40}, {40, 15}} {
			t.Run(fmt.Sprintf("%s-%dx%d", name, size.Width, size.Height), func(t *testing.T) {
				f.Snap.Sum()
				rows := f.Rows(size)
				fits(t, rows, size)
				golden(t, fmt.Sprintf("%s-%dx%d", name, size.Width, size.Height), rows)
			})
		}
	}
}

// fits checks that a terminal of the given size neither wraps nor scrolls.
func fits(t *testing.T, rows []string, size Size) {
	t.Helper()
	if len(rows) > max(size.Height-1, 2) {
		t.Errorf("%d rows on a terminal with %d", len(rows), size.Height)
	}
	for _, r := range rows {
		if w := Width(r); w > max(size.Width-1, 10) {
			t.Errorf("%d columns on a terminal with %d: %q", w, size.Width, r)
		}
	}
}

func TestFramesFitEveryTerminal(t *testing.T) {
	for w := 10; w < 130; w += 3 {
		for h := 2; h < 30; h += 5 {
			for _, n := range []int{0, 1, 16, 100} {
				fits(t, busyFrame(n, longName).Rows(Size{w, h}), Size{w, h})
			}
		}
	}
}
