package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/cluster"
	"gpurun/state"
)

// rows returns the cluster's list of waiting and running tasks.
func (s *Site) rows(b *Bench) (rows []cluster.Row) {
	b.Helper()
	rows, err := s.Dialect.List("root").Run()
	if err != nil {
		b.Fatal(err)
	}
	return slices.DeleteFunc(rows, func(r cluster.Row) bool { return r.State >= cluster.Completed })
}

// held reports whether all waiting tasks are held.
func (s *Site) held(b *Bench) bool {
	return !slices.ContainsFunc(s.rows(b), func(r cluster.Row) bool { return r.State == cluster.Pending })
}

// passes waits until the cluster runs a new job submitted without gpurun, which shows that it has
// considered all earlier jobs.
func (s *Site) passes(b *Bench) {
	b.Helper()
	s.Take(b, "1")
	b.Until("the job without gpurun is running", time.Minute, func() bool {
		return slices.ContainsFunc(s.rows(b), func(r cluster.Row) bool { return r.Name == "blocker" && r.State == cluster.Runs })
	})
	s.Free(b)
}

// waits returns a job file with jobs that write their names to the journal and then wait for NAME.go.
func (s *Site) waits(keys, names string) string {
	text := "settings: {engine: " + s.Engine + ", cluster: {poll: 1s}" + keys + "}\ndefaults: {gpus: 0, retry: 0}\njobs:\n"
	for name := range strings.SplitSeq(names, " ") {
		text += "  - {name: " + name + ", run: 'echo {name} >>journal; until [ -e {name}.go ]; do sleep 0.1; done'}\n"
	}
	return text
}

func (b *Bench) queued(n int) {
	b.Helper()
	b.Until(fmt.Sprint(n, " jobs are queued"), time.Minute, func() bool { return len(b.Facts(state.KindQueued)) == n })
}

func (b *Bench) goOn(names ...string) {
	for _, name := range names {
		b.Write(name+".go", "")
	}
}

// Paused checks that a pause holds all or some of the waiting tasks. After the run is killed, the
// next one must release the same cluster jobs.
func (s *Site) Paused(t *testing.T) {
	b := s.New(t, s.waits("", "a b c"))
	b.Command(s.Shut[0]...)
	b.Cleanup(func() { Quietly(s.Shut[1]...) })
	cmd, _ := b.Start("jobs.yaml")
	b.queued(3)
	b.Says(b.Run("pause"), "paused")
	b.Until("all tasks are held", time.Minute, func() bool { return s.held(b) })
	b.Until("why shows that b is paused", time.Minute, func() bool { return strings.Contains(b.Run("why", "b"), "paused") })
	b.Command(s.Shut[1]...)
	s.passes(b)
	if ran := b.Read("journal"); ran != "" {
		t.Errorf("%q began during the pause", ran)
	}
	b.Says(b.Run("pause", "b"), "paused: b")
	b.Says(b.Run("resume"), "resumed")
	b.Until("a and c have begun", time.Minute, func() bool { return len(strings.Fields(b.Read("journal"))) == 2 })
	s.passes(b)
	if ran := strings.Fields(b.Read("journal")); slices.Contains(ran, "b") {
		t.Errorf("b began while paused: %q", ran)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	b.goOn("a", "b", "c")
	b.Says(b.Run("jobs.yaml"), "3 of 3 done") // the next run is not paused
	for name, q := range b.Facts(state.KindQueued) {
		if len(q) != 1 || len(b.Facts(state.KindEnd)[name]) != 1 {
			t.Errorf("%s was queued as %+v and ended as %+v", name, q, b.Facts(state.KindEnd)[name])
		}
	}
}

// Withdrawn checks that waiting jobs leave the cluster when they must not start any more, without
// spending a retry, and that running jobs continue. Cases: a drained run, jobs that fail with the
// same error, and jobs removed from their file.
func (s *Site) Withdrawn(t *testing.T) {
	t.Run("drained", func(t *testing.T) {
		b := s.New(t, s.waits(", max_concurrent: 1", "a b c"))
		cmd, out := b.Start("jobs.yaml")
		b.queued(3)
		b.Until("a job has begun", time.Minute, func() bool { return b.Read("journal") != "" })
		b.Until("the run sees that the job is running", time.Minute, func() bool { return len(b.Facts(state.KindRunning)) == 1 })
		b.Run("stop", "--drain")
		b.Until("the other jobs have left the cluster", time.Minute, func() bool { return s.left() == 1 })
		b.goOn("a", "b", "c")
		_ = b.Finish(cmd)
		b.Says(out.String(), "1 of 3 done, 2 did not run")
		b.Says(b.Run("status"), ": 1 of 3 done, 2 did not run")
		b.Says(b.Run("jobs.yaml"), "3 of 3 done")
		if ran := strings.Fields(b.Read("journal")); len(ran) != 3 {
			t.Errorf("ran %q, want three jobs once each", ran)
		}
		for name, ends := range b.Facts(state.KindEnd) {
			if last := ends[len(ends)-1]; last.State != state.Succeeded || len(ends) > 2 || len(ends) == 2 && ends[0].State != state.Interrupted {
				t.Errorf("%s ended as %+v", name, ends)
			}
		}
	})
	t.Run("same error", func(t *testing.T) {
		b := s.New(t, "settings: {engine: "+s.Engine+", max_concurrent: 1, breaker: 2, cluster: {poll: 1s}}\n"+
			"jobs: [{name: 'j{i}', matrix: {i: 0..7}, gpus: 0, retry: 0, run: 'echo {i} >>journal; echo no data >&2; exit 1'}]\n")
		out := b.Run("jobs.yaml")
		ran := strings.Fields(b.Read("journal"))
		if n := len(ran); n < 2 || n > 4 {
			t.Errorf("ran %q, want two jobs on different nodes, or four on one\n%s", ran, out)
		}
		b.Says(out, fmt.Sprintf("%d failed", len(ran)))
		b.Says(out, fmt.Sprintf("holding %d jobs like j", 8-len(ran)))
		b.Says(out, "no data")
		b.Until("the cluster is empty", time.Minute, func() bool { return s.Left() == "" })
	})
	t.Run("reloaded", func(t *testing.T) {
		b := s.New(t, s.waits(", max_concurrent: 1", "a b c"))
		cmd, out := b.Start("jobs.yaml")
		b.queued(3)
		b.Until("the run sees that a job is running", time.Minute, func() bool { return len(b.Facts(state.KindRunning)) == 1 })
		runs := b.Read("journal")
		left := strings.TrimSpace(strings.Replace("a b c", runs, "", 1))
		gone := left[:1]
		b.Write("jobs.yaml", s.waits(", max_concurrent: 1", runs+" "+left[len(left)-1:]))
		b.Run("reload")
		b.Until("the removed job has ended", time.Minute, func() bool { return len(b.Facts(state.KindEnd)[gone]) == 1 })
		b.goOn("a", "b", "c")
		_ = b.Finish(cmd)
		b.Says(out.String(), "2 of 2 done")
		if ran := strings.Fields(b.Read("journal")); len(ran) != 2 || slices.Contains(ran, gone) {
			t.Errorf("ran %q, want two jobs without %s", ran, gone)
		}
	})
}

// Throttled checks that ready jobs are submitted in few calls, and that no more of them run
// concurrently than allowed, with retries and with held and cancelled tasks in an array. Higher and
// lower limits must take effect.
func (s *Site) Throttled(t *testing.T) {
	const n, run = 32, "echo begins >>journal; sleep 0.5; while [ -e brake ]; do sleep 0.1; done; echo ends >>journal"
	b := s.New(t, fmt.Sprintf(`
settings: {engine: %s, max_concurrent: 2, cluster: {poll: 1s}}
defaults: {gpus: 0, retry: 1}
jobs:
  - {name: "a{i}", matrix: {i: 1..%d}, run: '%s; [ {i} != 2 ] || ! mkdir once 2>/dev/null'}
  - {name: "b{i}", matrix: {i: 1..%[2]d}, timeout: 1h, run: '%[3]s'}
`, s.Engine, n/2, run))
	for _, do := range []cluster.Order{cluster.Hold, cluster.Throttle} {
		b.First(s.Dialect.Order(do, []string{"1"}, 1).Name(), "echo x >>orders")
	}
	ended := func(least int) func() bool {
		return func() bool { return b.Journal()["ends"] >= least }
	}
	running := func(from int) (now, most, lines int) { // most is of the lines from this one on
		for line := range strings.Lines(b.Read("journal")) {
			if now++; strings.HasPrefix(line, "ends") {
				now -= 2
			}
			if lines++; lines > from {
				most = max(most, now)
			}
		}
		return now, most, lines
	}
	brake := func() { b.Write("brake", "") }
	letGo := func() { _ = os.Remove(filepath.Join(b.Dir, "brake")) }
	fill := func(limit int) { // no job ends until as many run as allowed
		b.Until(fmt.Sprint(limit, " jobs run concurrently"), time.Minute, func() bool {
			now, _, _ := running(0)
			return now == limit
		})
	}

	brake()
	cmd, out := b.Start("jobs.yaml")
	b.queued(n)
	calls, _ := filepath.Glob(filepath.Join(b.Dir, ".gpurun/jobs.yaml/submits/*/answer"))
	if len(calls) > n/3 { // two would be enough if all jobs were ready at the same time
		t.Errorf("%d calls for %d jobs of two kinds", len(calls), n)
	}
	b.Says(b.Run("pause", "a6", "b5"), "paused: a6, b5") // in the middle of their arrays
	b.Says(b.Run("stop", "a9"), "cancelled: a9")
	fill(2)
	letGo()
	b.Until("6 jobs have ended", time.Minute, ended(6))
	brake()
	if _, most, _ := running(0); most != 2 {
		t.Errorf("%d jobs ran concurrently, want 2", most)
	}

	b.Says(b.Run("set", "max_concurrent=4"), "max_concurrent is now 4")
	fill(4)
	orders := b.Read("orders")
	b.Run("set", "max_concurrent=1")
	b.Until("the run has held or throttled tasks", time.Minute, func() bool { return b.Read("orders") != orders })
	s.passes(b)
	letGo()
	from := 0
	b.Until("the other jobs have ended", time.Minute, func() bool {
		now, _, lines := running(0)
		from = lines
		return now <= 1
	})
	b.Until("16 jobs have ended", 2*time.Minute, ended(16))
	brake()
	if _, most, _ := running(from); most > 1 {
		t.Errorf("%d jobs ran concurrently under the lower limit, want 1", most)
	}

	_, _, from = running(0)
	b.Run("set", "max_concurrent=3")
	b.Run("resume", "a6", "b5")
	fill(3)
	letGo()
	_ = b.Finish(cmd)
	b.Says(out.String(), fmt.Sprint(n-1, " of ", n, " done"))
	if ends := b.Facts(state.KindEnd)["a2"]; len(ends) != 2 {
		t.Errorf("a2 ended as %+v, want a retry", ends)
	}
	_, last, _ := running(from)
	if _, most, _ := running(0); most != 4 || last != 3 {
		t.Errorf("up to %d jobs ran concurrently, at last up to %d, want 4 and 3", most, last)
	}
}
