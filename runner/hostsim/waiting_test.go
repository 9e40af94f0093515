package hostsim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/gpu"
	folders "gpurun/gpu/claim"
	statehost "gpurun/state/host"
)

// waiters is the number of users whose runs wait for GPUs that programs started by hand occupy.
const waiters = 8

// An hour is the work of the busiest waiting run in an hour.
type hour struct {
	work
	second work    // in the second half of the hour
	cpu    float64 // seconds, for its steps and for the simulated host around it
}

// waitForAnHour simulates waiting while another run's share of a GPU changes every minute.
func waitForAnHour(t *testing.T) (o hour) {
	h := newHost(*first, 8)
	for i := range h.gpus {
		h.start(2001, "", []int{i}, 0)
	}
	for k := range waiters {
		h.after(h.between(0, 10*time.Second), func() { h.gpurun(1001+k, slices.Repeat([]job{{1, time.Minute}}, 1000)) })
	}
	var toggle func()
	toggle = func() {
		c := &claim{uid: 3001, owner: "shares", since: h.wall(), id: fmt.Sprint("shares-", h.now), share: true, memory: asked, on: []stake{{gpu: 0}}}
		h.publish(c)
		h.after(30*time.Second, func() { h.remove(c) })
		h.after(time.Minute, toggle)
	}
	toggle()
	h.play(h.now + time.Minute)
	did := func() (list []work) {
		for _, r := range h.runs {
			list = append(list, r.work)
		}
		return list
	}
	var before, half, after []work
	o.cpu = cpu(t, func() {
		before = did()
		h.play(h.now + 30*time.Minute)
		half = did()
		h.play(h.now + 30*time.Minute)
		after = did()
	}) / waiters
	for i, r := range h.runs {
		if len(r.left) != len(r.jobs) {
			t.Errorf("run %d has started a job", i)
		}
		if w := after[i].minus(before[i]); w.steps > o.steps {
			o.work, o.second = w, after[i].minus(half[i])
		}
	}
	return o
}

func (w work) minus(o work) work {
	return work{w.steps - o.steps, w.lists - o.lists, w.quick - o.quick, w.looks - o.looks, w.wishes - o.wishes}
}

// cpu returns the seconds of CPU that f takes.
func cpu(t *testing.T, f func()) float64 {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	runtime.GC()
	before := used()
	f()
	return (used() - before).Seconds()
}

// look returns the CPU seconds for one reading of the real folders of all waiting users, each with
// a wish and a claim.
func look(t *testing.T) float64 {
	var roots []string
	for i := range waiters + 1 {
		root := []string{t.TempDir()}
		roots = append(roots, root...)
		w, h := folders.NewWisher(root), folders.Open(root)
		t.Cleanup(func() { w.Close(); h.Close() })
		a := gpu.WishRequest{Jobs: 8, Min: 1, Memory: asked, MaxUtil: 30, Others: gpu.OthersAllow, Room: 8, UUIDs: []gpu.UUID{"GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5", "GPU-6", "GPU-7"}}
		if err := w.Publish(gpu.Wish{Run: fmt.Sprint("run-", i), Since: time.Now(), Requests: []gpu.WishRequest{a}}); err != nil {
			t.Fatal(err)
		}
		s := folders.Subject{UniID: fmt.Sprint("attempt-", i), Job: "train", Grant: gpu.Grant{UUIDs: []gpu.UUID{"GPU-0"}, Memory: asked, Share: true}}
		if _, _, err := h.Claim(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	claims, _ := filepath.Glob(filepath.Join(filepath.Dir(roots[0]), "*", "*", "*.claim"))
	for _, path := range claims { // a reader ignores the claims of its own process
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, bytes.Replace(text, []byte(statehost.PIDNamespace()), []byte("another"), 1), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := folders.NewReader(roots)
	if found, warnings := r.Others(t.Context()); len(found) != len(roots) {
		t.Fatalf("got %d claims and the warnings %q, want %d claims", len(found), warnings, len(roots))
	}
	const times = 50
	return cpu(t, func() {
		for range times {
			r.Others(t.Context())
		}
	}) / times
}

// waiting checks the cost of an hour of waiting, without the driver, and that the cost does not
// grow over time.
func waiting(t *testing.T, text *strings.Builder) {
	o, each := waitForAnHour(t), look(t)
	fmt.Fprintf(text, "%d runs, one per user, wait for an hour; figures for the busiest run (seed %d):\n\n", waiters, *first)
	fmt.Fprintf(text, "| | bound | |\n|---|---:|---:|\n")
	row := func(what, format string, figure, limit float64) {
		fmt.Fprintf(text, "| %s | "+format+" | "+format+" |\n", what, limit, figure)
		bounded(t, what, figure, limit, false)
	}
	const polls = 3600 / 5
	row("readings of all GPUs", "%.0f", float64(o.lists), 1.5*polls)
	row("readings of some GPUs", "%.0f", float64(o.quick), 0)
	row("readings of other users' claims and wishes", "%.0f", float64(o.looks), 3*polls)
	row("wishes published", "%.0f", float64(o.wishes), 3600/30+10)
	row("steps of the scheduler", "%.0f", float64(o.steps), 4*polls)
	row("fraction of steps in the second half-hour", "%.0f%%", 100*float64(o.second.steps)/float64(o.steps), 52)
	limit := 0.5
	if *brief {
		limit *= 10 // the race detector may be on
	}
	row("CPU for steps and readings of claims", "%.3f%% of a core", 100*(o.cpu+each*float64(o.looks))/3600, limit)
}
