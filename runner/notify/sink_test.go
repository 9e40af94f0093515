package notify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

// A trial is a sink whose messages are recorded instead of sent.
type trial struct {
	*Sink
	t    *testing.T
	mu   sync.Mutex
	got  []string // titles and, after a bar, messages, with the time and the target
	said []string
	snap schema.Status
}

func newTrial(t *testing.T, answer func(try int) outcome, targets ...jobspec.Notify) *trial {
	tr := &trial{t: t, snap: schema.Status{Counts: map[state.Phase]int{state.Running: 2}, Live: &schema.Live{}}}
	tr.Sink = newSink(Config{
		Targets: targets, Run: Run{File: "f", Host: "h"}, Say: func(s string) { tr.said = append(tr.said, s) }, Go: func(f func()) { go f() },
		Secrets: func(b *jobspec.Batch) []string { return slices.Collect(maps.Values(b.Params)) },
	})
	began, n := time.Now(), 0
	tr.send = func(ctx context.Context, o *order) outcome {
		tr.mu.Lock()
		n++
		tr.got = append(tr.got, fmt.Sprintf("%s %s: %s", time.Since(began), o.Command, strings.ReplaceAll(text(&o.Notification), "\n", " | ")))
		how := answer(n)
		tr.mu.Unlock()
		if how.Class == silent {
			select {
			case <-ctx.Done():
			case <-time.After(limit):
			}
		}
		return how
	}
	tr.Go(tr.run)
	return tr
}

func (tr *trial) fails(jobs ...string) {
	for _, j := range jobs {
		live := *tr.snap.Live
		live.Failed++
		live.Fresh = append(live.Fresh, schema.FailedJob{Job: j, End: state.Fact{State: state.Failed, Line: "ValueError: bad"}})
		tr.snap.Live = &live
	}
	snap := tr.snap
	tr.Snapshot(&snap)
	synctest.Wait()
}

func (tr *trial) check(want ...string) {
	tr.t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	slices.Sort(tr.got)
	if slices.Sort(want); !slices.Equal(tr.got, want) {
		tr.t.Errorf("got\n%s\nwant\n%s", strings.Join(tr.got, "\n"), strings.Join(want, "\n"))
	}
	tr.got = nil
}

func always(c class) func(int) outcome { return func(int) outcome { return outcome{Class: c} } }

func to(command string, on ...string) jobspec.Notify { return jobspec.Notify{Command: command, On: on} }

func TestTargetsGetTheirEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := to("late", "done", "failure", "stalled")
		late.MinDuration = 10 * time.Minute
		tr := newTrial(t, always(delivered), to("first", "first_failure"), to("all", "failure", "stalled", "gpus_free", "done"), late)
		tr.Fact(0, state.Fact{Kind: state.KindStart, Job: "a", GPUs: []int{0, 1}})
		tr.fails("a")
		time.Sleep(30 * time.Second)
		tr.fails("b", "c")
		tr.Fact(3, state.Fact{Kind: state.KindStalled, Job: "d", Reason: "no output for 31 min"})
		time.Sleep(29 * time.Second)
		tr.check()
		time.Sleep(time.Second)
		synctest.Wait()
		tr.check(
			"1m0s all: f on h: 3 failed, 1 stalled | a: failed, ValueError: bad | b: failed, ValueError: bad | c: failed, ValueError: bad | d: stalled, no output for 31 min | 0 of 2 done, 2 running | after 60 s",
			"1m0s first: f on h: a: failed, ValueError: bad | 0 of 2 done, 2 running | after 60 s",
		)
		for _, g := range []gpu.Level{{Index: 0, Open: true}, {Index: 1, Jobs: 1}} {
			tr.snap.Live.GPUs = append(tr.snap.Live.GPUs, state.Pressure{Level: g})
		}
		tr.fails("e")
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		tr.check(
			"10m0s late: f on h: 4 failed, 1 stalled | a: failed, ValueError: bad | b: failed, ValueError: bad | c: failed, ValueError: bad | d: stalled, no output for 31 min | e: failed, ValueError: bad | 0 of 2 done, 2 running | after 10 min",
			"2m0s all: f on h: 1 failed | e: failed, ValueError: bad | no job is waiting, and GPU 0 is free again | 0 of 2 done, 2 running | after 2 min",
		)
		tr.End(&schema.Status{Counts: map[state.Phase]int{state.Succeeded: 3, state.Failed: 4}, Live: &schema.Live{Failed: 4}}, "jobs failed")
		if err := tr.Close(t.Context()); err != nil || len(tr.said) > 0 {
			t.Error(err, tr.said)
		}
		tr.check(
			"10m0s all: f on h: jobs failed, 3 of 7 done, 4 failed | after 10 min",
			"10m0s late: f on h: jobs failed, 3 of 7 done, 4 failed | after 10 min",
		)
	})
}

// A message names only events that its target has asked for.
func TestFirstFailureIsAFailure(t *testing.T) {
	items := []item{{on: "first_failure"}}
	for _, on := range []string{"first_failure", "failure"} {
		by := to("x", on)
		if got := wanted(items, &by); len(got) != 1 || got[0].on != on {
			t.Errorf("%s: got %+v", on, got)
		}
		items[0].own = []jobspec.Notify{by}
		if got := wanted(items, &by); len(got) != 1 || got[0].on != on {
			t.Errorf("%s of a job: got %+v", on, got)
		}
		items[0].own = nil
	}
}

// While no job waits, a GPU is reported as free once after each use, by any user.
func TestFreeGPUIsReportedOncePerUse(t *testing.T) {
	var d collector
	see := func(pending int, levels ...gpu.Level) (text string) {
		s := &schema.Status{Counts: map[state.Phase]int{state.Pending: pending, state.Running: 1}, Live: &schema.Live{}}
		for i, l := range levels {
			l.Index = i
			s.Live.GPUs = append(s.Live.GPUs, state.Pressure{Level: l})
		}
		for _, it := range d.collect(nil, s) {
			text += it.on + ": " + it.text
		}
		return text
	}
	ours, theirs, open, unknown := gpu.Level{Jobs: 1}, gpu.Level{Others: true}, gpu.Level{Open: true}, gpu.Level{}
	for i, step := range []struct {
		pending int
		levels  []gpu.Level
		want    string
	}{
		{1, []gpu.Level{ours, theirs, open, theirs}, ""},
		{1, []gpu.Level{ours, open, open, unknown}, ""},
		{0, []gpu.Level{ours, open, open, unknown}, "gpus_free: no job is waiting, and GPU 1 is free again"},
		{0, []gpu.Level{ours, open, open, open}, "gpus_free: no job is waiting, and GPU 3 is free again"},
		{0, []gpu.Level{ours, open, theirs, open}, ""},
		{0, []gpu.Level{ours, theirs, unknown, open}, ""},
		{0, []gpu.Level{ours, open, open, open}, "gpus_free: no job is waiting, and GPUs 1, 2 are free again"},
	} {
		if got := see(step.pending, step.levels...); got != step.want {
			t.Errorf("step %d: got %q, want %q", i, got, step.want)
		}
	}
}

// A job that was ended because it stalled appears in a message only once.
func TestStalledJobIsReportedOnce(t *testing.T) {
	var d collector
	s := &schema.Status{Live: &schema.Live{Failed: 1, Fresh: []schema.FailedJob{{Job: "a", End: state.Fact{State: state.Stalled, Reason: "no output for 31 min"}}}}}
	items := d.collect([]event{{0, state.Fact{Kind: state.KindStalled, Job: "a", Reason: "no output for 31 min"}}}, s)
	n := compose(Run{File: "f", Host: "h"}, items, nil, 0, "", time.Now())
	if len(items) != 2 || n.Title != "f on h: 1 stalled" || n.Message != "a: stalled, no output for 31 min" || len(n.Jobs) != 1 {
		t.Errorf("got %d items, want 2; message %+v", len(items), n)
	}
}

// A target gets nothing from a run that ends before its min_duration.
func TestMinDurationSilencesShortRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := to("late", "done", "failure")
		late.MinDuration = 10 * time.Minute
		tr := newTrial(t, always(delivered), late, to("now", "done", "failure"), to("only", "failure"))
		time.Sleep(time.Minute)
		tr.fails("a")
		tr.End(&tr.snap, "jobs failed")
		if err := tr.Close(t.Context()); err != nil {
			t.Error(err)
		}
		tr.check(
			"1m0s now: f on h: jobs failed, 0 of 2 done, 2 running | a: failed, ValueError: bad | after 60 s",
			"1m0s only: f on h: a: failed, ValueError: bad | 0 of 2 done, 2 running | after 60 s",
		)
	})
}

// A job's own targets get only its events, each once, however short the run, as configured in the
// current job file.
func TestJobTargetsGetTheirEventsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		team, late := to("team", "failure"), to("late", "done", "failure")
		late.MinDuration = time.Hour
		long := to("long", "success", "failure", "stalled")
		long.MinDuration = time.Minute
		news := []string{"success", "failure", "stalled"}
		b := &jobspec.Batch{Jobs: []jobspec.Job{
			{Spec: &jobspec.Spec{Notify: []jobspec.Notify{to("own", news...), to("team", news...), to("late", news...), long}}},
			{Spec: &jobspec.Spec{}},
		}}
		tr := newTrial(t, always(delivered), team, late)
		tr.Continue(b)
		tr.Fact(0, state.Fact{Kind: state.KindEnd, State: state.Succeeded, Job: "a", Seconds: 59})
		tr.Fact(1, state.Fact{Kind: state.KindEnd, State: state.Succeeded, Job: "b", Seconds: 600})
		tr.snap.Live.Failed = 2
		tr.snap.Live.Fresh = []schema.FailedJob{
			{Job: "a", End: state.Fact{State: state.Failed, Line: "bad", Seconds: 60}}, {Job: "b", ID: 1, End: state.Fact{State: state.Failed, Line: "bad"}},
		}
		tr.Snapshot(&tr.snap)
		time.Sleep(time.Minute)
		synctest.Wait()
		tr.check(
			"1m0s late: f on h: 1 failed, 1 succeeded | a: succeeded, after 59 s | a: failed, bad | 0 of 2 done, 2 running | after 60 s",
			"1m0s long: f on h: a: failed, bad | 0 of 2 done, 2 running | after 60 s",
			"1m0s own: f on h: 1 failed, 1 succeeded | a: succeeded, after 59 s | a: failed, bad | 0 of 2 done, 2 running | after 60 s",
			"1m0s team: f on h: 2 failed, 1 succeeded | a: succeeded, after 59 s | a: failed, bad | b: failed, bad | 0 of 2 done, 2 running | after 60 s",
		)
		tr.Continue(&jobspec.Batch{Jobs: []jobspec.Job{{Spec: &jobspec.Spec{}}, {Spec: &jobspec.Spec{Notify: []jobspec.Notify{to("new", news...)}}}}})
		for id, name := range []string{"a", "b"} {
			tr.Fact(id, state.Fact{Kind: state.KindStalled, Job: name, Reason: "silent"})
		}
		tr.End(&tr.snap, "jobs failed")
		if err := tr.Close(t.Context()); err != nil {
			t.Error(err)
		}
		tr.check("1m0s new: f on h: b: stalled, silent | 0 of 2 done, 2 running | after 60 s")
	})
}

func TestFailedMessagesAreRetried(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(try int) outcome
		tries  int
		says   string
	}{
		"delivered":           {always(delivered), 1, ""},
		"second try succeeds": {func(n int) outcome { return outcome{Class: map[bool]class{true: troubled, false: delivered}[n == 1]} }, 2, ""},
		"temporary error":     {always(troubled), 3, "cannot notify command x: it reported an internal error; try again later (gpurun notify --test tries again)"},
		"permanent error":     {func(int) outcome { return outcome{Class: gone, Code: 404} }, 1, "cannot notify command x: it does not recognize this address (404); copy the URL again, and check that the webhook or chat still exists (gpurun notify --test tries again)"},
		"no response":         {always(silent), 3, "cannot notify command x: no response within 10 s; check the port, the firewall, and whether a proxy is needed (HTTPS_PROXY) (gpurun notify --test tries again)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrial(t, c.answer, to("x", "failure"))
				tr.fails("a")
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				tr.fails("b") // the same problem is reported only once
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				tr.mu.Lock()
				n, said := len(tr.got), strings.Join(tr.said, "\n")
				tr.mu.Unlock()
				if second := map[string]int{"delivered": 1, "second try succeeds": 1, "permanent error": 1, "temporary error": 3, "no response": 3}[name]; n != c.tries+second || said != c.says {
					t.Errorf("got %d tries, %q; want %d, %q", n, said, c.tries+second, c.says)
				}
				tr.End(&tr.snap, "all done")
				if err := tr.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The end of a run waits for its last messages, but not for long.
func TestEndWaitsBrieflyForMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, always(silent), to("x", "done"))
		began := time.Now()
		tr.End(&tr.snap, "all done")
		err := tr.Close(t.Context())
		if took := time.Since(began); took != closeFor || err == nil || !strings.Contains(err.Error(), "no response") {
			t.Errorf("took %s, want %s; got %v, want an error about the lost message", took, closeFor, err)
		}
	})
}

func TestNotificationsMaskSecretsOfReloadedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, always(delivered), to("all", "failure"))
		for _, name := range []string{"k3yk3yk3y", "0therk3y"} {
			tr.Continue(&jobspec.Batch{Params: map[string]string{"api_key": name}, Jobs: []jobspec.Job{{Spec: &jobspec.Spec{}}}})
			tr.fails("job of " + name)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		tr.check(
			"1m0s all: f on h: job of ***: failed, ValueError: bad | 0 of 2 done, 2 running | after 60 s",
			"2m0s all: f on h: job of ***: failed, ValueError: bad | 0 of 2 done, 2 running | after 2 min",
		)
		tr.End(&schema.Status{Live: &schema.Live{}}, "done")
	})
}

func TestWatchedRunReportsEachEnd(t *testing.T) {
	var d collector
	phase := schema.RunWatching
	watching := &schema.Status{Run: &schema.Run{Phase: &phase}, Live: &schema.Live{}}
	start := []event{{0, state.Fact{Kind: state.KindStart, Job: "a"}}}
	for i, c := range []struct {
		facts []event
		want  int
	}{{nil, 0}, {start, 1}, {nil, 0}, {start, 1}} {
		if got := d.collect(c.facts, watching); len(got) != c.want {
			t.Errorf("step %d: got %v, want %d items", i, got, c.want)
		}
	}
}

// Messages are short, count what they leave out, and contain no secrets.
func TestMessageIsBounded(t *testing.T) {
	d := collector{hide: redact.Hiding([]string{"k3yk3y"})}
	s := &schema.Status{Counts: map[state.Phase]int{state.Failed: 100}, Live: &schema.Live{Failed: 100}}
	for i := range 20 {
		s.Live.Fresh = append(s.Live.Fresh, schema.FailedJob{Job: fmt.Sprintf("train-%d", i), End: state.Fact{State: state.Failed, Line: "api_key=hunter2 k3yk3y \x1b[31m" + strings.Repeat("é", 300)}})
	}
	n := compose(Run{File: "f", Host: "h", Look: "gpurun status f"}, d.collect(nil, s), s, time.Hour, "", time.Now())
	if len(n.Message) > maxText || len(n.Jobs) != 20 || !strings.Contains(n.Message, "… and ") || !strings.HasSuffix(n.Message, "\n0 of 100 done, 100 failed\nafter 1 h 0 min\ngpurun status f") {
		t.Errorf("message of %d bytes, want at most %d: %s", len(n.Message), maxText, n.Message)
	}
	if strings.Contains(n.Message, "hunter2") || strings.Contains(n.Message, "k3yk3y") || strings.Contains(n.Message, "\x1b") || strings.Contains(n.Jobs[0].Text, "hunter2") {
		t.Errorf("a secret or an escape sequence in %q", n.Message)
	}
	if want := "f on h: 100 failed"; n.Title != want {
		t.Errorf("title %q, want %q", n.Title, want)
	}
	run := Run{File: strings.Repeat("jobs.yaml ", 300), Host: "h"}
	if n := compose(run, []item{{on: "done"}}, s, time.Hour, "failed", time.Now()); len(n.Title) > 400 || n.File != run.File {
		t.Errorf("got a title of %d bytes, and a file of %d", len(n.Title), len(n.File))
	}
}
