package sched

import (
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
)

func TestOutcomeOfEachEnd(t *testing.T) {
	type result struct {
		state  state.Phase
		kind   string
		cause  state.CauseCode
		reason string
	}
	for _, tt := range []struct {
		name string
		stop string
		end  Ended
		want result
	}{
		{"exit 0", "", Ended{}, result{state.Succeeded, "", "", ""}},
		{"exit 3", "", Ended{End: state.End{ExitCode: 3}}, result{state.Failed, state.ErrExit, state.CauseExit, ""}},
		{"killed by the kernel for memory", "", Ended{Cause: HostMemory, End: state.End{ExitCode: -1, Signal: "SIGKILL"}}, result{state.OOM, state.ErrOOM, state.CauseOOMHost, ""}},
		{"script says abnormal_exit", "", Ended{Failed: "its script reported abnormal_exit"}, result{state.Failed, state.ErrExit, state.CauseExit, "its script reported abnormal_exit"}},
		{"preempted", state.WhyPreempted, Ended{End: state.End{Signal: "SIGTERM"}}, result{state.Interrupted, "", state.CausePreempted, ""}},
		{"resized", state.WhyResize, Ended{}, result{state.Interrupted, "", state.CauseResized, ""}},
		{"used another GPU", state.WhyStray, Ended{End: state.End{Signal: "SIGTERM"}}, result{state.Failed, state.ErrStray, state.CauseStrayGPU, "it used a GPU that was not assigned to it"}},
		{"signal", "", Ended{End: state.End{ExitCode: -1, Signal: "SIGSEGV"}}, result{state.Failed, state.ErrSignal, state.CauseSignal, ""}},
		{"out of memory", "", Ended{Cause: GPUMemory, End: state.End{ExitCode: 1}}, result{state.OOM, state.ErrOOM, state.CauseOOMGPU, ""}},
		{"killed for memory", "", Ended{Cause: GPUMemory, End: state.End{ExitCode: -1, Signal: "SIGKILL"}}, result{state.OOM, state.ErrOOM, state.CauseOOMGPU, ""}},
		{"output missing", "", Ended{Failed: "output a missing", Cause: OutputMissing}, result{state.Failed, state.ErrExit, state.CauseOutputMissing, "output a missing"}},
		{"script says normal_exit", "", Ended{Good: true, End: state.End{ExitCode: 9}}, result{state.Succeeded, "", "", ""}},
		{"lost", "", Ended{End: state.End{ExitCode: -1, Lost: true}}, result{state.Lost, state.ErrLost, state.CauseLost, "its keeper was killed or the machine went down, so its outcome is unknown"}},
		{"lost before it began", "", Ended{End: state.End{ExitCode: -1, Lost: true, Void: true}}, result{state.Lost, state.ErrLost, state.CauseLost, "it never started"}},
		{"lost, with more known", "", Ended{End: state.End{ExitCode: -1, Lost: true, Err: "its folder is gone"}}, result{state.Lost, state.ErrLost, state.CauseLost, "its folder is gone"}},
		{"could not be started", "", Ended{End: state.End{ExitCode: -1, Err: "no such shell"}}, result{state.Failed, state.ErrExit, state.CauseStartFailed, "no such shell"}},
		{"status unknown", "", Ended{End: state.End{ExitCode: -1}}, result{state.Failed, state.ErrExit, state.CauseExit, ""}},
		{"cancelled, exit 0", state.WhyCancelled, Ended{}, result{state.Cancelled, "", state.CauseCancelled, "by gpurun stop"}},
		{"interrupted, exit 0", state.WhyInterrupted, Ended{}, result{state.Interrupted, "", state.CauseInterrupted, ""}},
		{"interrupted and lost", state.WhyInterrupted, Ended{End: state.End{Lost: true}}, result{state.Interrupted, "", state.CauseInterrupted, ""}},
		{"fail-fast, signal", state.WhyFailFast, Ended{End: state.End{Signal: "SIGTERM"}}, result{state.Interrupted, "", state.CauseFailFast, ""}},
		{"GPU taken", state.WhyGPU, Ended{End: state.End{Signal: "SIGTERM"}}, result{state.Interrupted, "", state.CauseGPUTaken, ""}},
		{"timeout, exit 0", state.WhyTimeout, Ended{}, result{state.Timeout, state.ErrTimeout, state.CauseTimeout, ""}},
		{"timeout, out of memory", state.WhyTimeout, Ended{Cause: GPUMemory}, result{state.Timeout, state.ErrTimeout, state.CauseTimeout, ""}},
		{"left processes to stop", state.WhyLeftOver, Ended{}, result{state.Succeeded, "", "", ""}},
		{"left its work running", "", Ended{End: state.End{LeftRunning: "sleep 4711 was still running"}}, result{state.Failed, state.ErrLeftRunning, state.CauseLeftRunning, "sleep 4711 was still running"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got result
			got.state, got.kind, got.cause, got.reason = outcome(tt.stop, tt.end)
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Once a reason to stop is recorded, it decides every later end. An end before that keeps its own
// outcome only if it is known that the attempt ended by itself.
func TestRecordedStopDecidesTheEnd(t *testing.T) {
	at := time.Unix(1000, 0)
	a := &attempt{stopping: stopping{stop: state.WhyInterrupted, stopAt: at}}
	for _, tt := range []struct {
		name string
		end  Ended
		want string
	}{
		{"after the stop", Ended{End: state.End{At: at.Add(1)}}, state.WhyInterrupted},
		{"in the same instant", Ended{End: state.End{At: at}}, state.WhyInterrupted},
		{"before the stop", Ended{End: state.End{At: at.Add(-1)}}, ""},
		{"before it, stopped for another reason", Ended{End: state.End{At: at.Add(-1), Why: state.WhyTimeout}}, state.WhyInterrupted},
		{"before it, but lost", Ended{End: state.End{At: at.Add(-1), Lost: true}}, state.WhyInterrupted},
		{"at an unknown time", Ended{}, state.WhyInterrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := a.stopped(tt.end); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := (&attempt{stopping: stopping{stop: state.WhyCancelled}}).stopped(Ended{End: state.End{At: at}}); got != state.WhyCancelled {
		t.Errorf("for a stop by an earlier run: got %q, want %q", got, state.WhyCancelled)
	}
}

// If a failure is not retried although a retry is left, the end must record why.
func TestWhichFailuresAreRetried(t *testing.T) {
	exit := func(n int) state.Fact { return state.Fact{ErrorType: state.ErrExit, ExitCode: &n} }
	oom, code := state.Fact{ErrorType: state.ErrOOM}, 75
	for _, tt := range []struct {
		name  string
		retry jobspec.Retry
		n     int32
		fact  state.Fact
		fault fault
		left  bool
		why   string
	}{
		{"no retries by default", jobspec.Retry{}, 1, exit(1), unknown, false, ""},
		{"first failure, two retries", jobspec.Retry{Max: 2}, 1, exit(1), unknown, true, ""},
		{"third failure, two retries", jobspec.Retry{Max: 2}, 3, exit(1), unknown, false, ""},
		{"unlimited retries", jobspec.Retry{Max: -1}, 1e6, exit(1), unknown, true, ""},
		{"not found", jobspec.Retry{Max: -1}, 1, exit(127), unknown, true, "exit 127 means that a command could not be run; retry: {on: [127]} retries the job anyway"},
		{"not executable", jobspec.Retry{Max: -1}, 1, exit(126), unknown, true, "exit 126 means that a command could not be run; retry: {on: [126]} retries the job anyway"},
		{"not found, no retry left", jobspec.Retry{}, 1, exit(127), unknown, false, ""},
		{"not found, by its kind", jobspec.Retry{Max: 1, On: []string{"exit"}}, 1, exit(127), unknown, true, "exit 127 means that a command could not be run; retry: {on: [127]} retries the job anyway"},
		{"not found, by its code", jobspec.Retry{Max: 1, On: []string{"oom", "127"}}, 1, exit(127), unknown, true, ""},
		{"code in on", jobspec.Retry{Max: 1, On: []string{"75", "oom"}}, 1, exit(75), unknown, true, ""},
		{"code in on, at a timeout", jobspec.Retry{Max: 1, On: []string{"75"}}, 1, state.Fact{ErrorType: state.ErrTimeout, ExitCode: &code}, unknown, true, ""},
		{"code not in on", jobspec.Retry{Max: 1, On: []string{"75", "oom"}}, 1, exit(1), unknown, true, "on: [75, oom] excludes this failure"},
		{"kind in on", jobspec.Retry{Max: 1, On: []string{"oom"}}, 1, oom, unknown, true, ""},
		{"kind not in on", jobspec.Retry{Max: 1, On: []string{"oom"}}, 1, exit(1), unknown, true, "on: [oom] excludes this failure"},
		{"the largest GPU", jobspec.Retry{Max: 1}, 1, oom, hopeless, true, "no GPU available to it has more memory"},
		{"on another GPU", jobspec.Retry{Max: 1}, 1, state.Fact{ErrorType: state.ErrStray}, unknown, true, "it would use that GPU again"},
		{"refused", jobspec.Retry{Max: 1}, 1, exit(-1), refused, true, "the cluster would refuse it again"},
		{"in the background", jobspec.Retry{Max: 1, On: []string{"0"}}, 1, state.Fact{ErrorType: state.ErrLeftRunning}, unknown, true, "it would leave work in the background again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.job("a", "true", jobspec.Spec{Retry: tt.retry}, "")
			w.open()
			w.core.jobs[0].failures = tt.n - 1
			if left, why := w.core.retries(0), w.core.noRetry(0, &tt.fact, tt.fault); left != tt.left || why != tt.why {
				t.Errorf("got a retry left: %v, why not: %q; want %v, %q", left, why, tt.left, tt.why)
			}
		})
	}
}

func TestRetryPauseGrows(t *testing.T) {
	r := &jobspec.Retry{Delay: 10 * time.Second, BackoffAfter: 3, Backoff: 10 * time.Minute}
	for n, want := range []time.Duration{1: r.Delay, 2: r.Delay, 3: r.Backoff, 4: r.Delay, 5: r.Delay, 6: r.Backoff} {
		if got := pause(r, n); n > 0 && got != want {
			t.Errorf("after failure %d: got %v, want %v", n, got, want)
		}
	}
}

// Times in the ledger must be in UTC, whatever time zone the engine reports.
func TestEndTimeIsUTC(t *testing.T) {
	at := time.Unix(1000, 0)
	f := (&attempt{}).end(Ended{End: state.End{At: at.In(time.FixedZone("", 8*60*60))}}, Now{})
	if f.Time != at.UTC() {
		t.Errorf("got %v, want %v", f.Time, at.UTC())
	}
}

// The view shows the memory in use, summed over the GPUs of an attempt. The end records the peak on a
// single GPU.
func TestPeakMemoryIsOfASingleGPU(t *testing.T) {
	w := newWorld(t)
	w.gpus(2, 24*gpu.GiB)
	w.job("a", "true", jobspec.Spec{Request: gpu.Request{Min: 2, Max: 2, Memory: 8 * gpu.GiB}}, "")
	w.open()
	w.send(Began{})
	for _, use := range [][2]gpu.Bytes{{2, 3}, {7, 1}, {1, 1}} {
		s := w.reading(Read{}).(Observed)
		for i := range s.Readings {
			s.Readings[i].Processes = []gpu.Process{{PID: 1, UID: 1000, Memory: use[i] * gpu.GiB, Attempt: "a.1"}, {PID: 2, Memory: gpu.GiB}}
		}
		w.send(s)
	}
	if _, got := w.core.Snapshot(w.now).Jobs[0].Attempt.Memory(); got != 2*gpu.GiB {
		t.Errorf("got %v in use, want 2 GiB as in the last reading", got)
	}
	w.exit("a", Ended{})
	if got := w.ledger[len(w.ledger)-1].Fact.PeakMemory; got != 7*gpu.GiB {
		t.Errorf("got a peak of %v, want 7 GiB", got)
	}
}

// A snapshot shows the earliest retries, however many there are.
func TestSnapshotShowsEarliestRetries(t *testing.T) {
	w := newWorld(t)
	for i := range 100 {
		delay := time.Duration(1+(i*37)%100) * time.Second
		w.job("j"+string(rune('A'+i%26))+string(rune('a'+i/26)), "true", jobspec.Spec{Retry: jobspec.Retry{Max: 1, Delay: delay}}, "")
	}
	w.open()
	w.send(Began{})
	for i := range w.b.Jobs {
		w.exit(w.b.Jobs[i].Name, Ended{End: state.End{ExitCode: 1}})
	}
	views := w.core.Snapshot(w.now).In(state.Waiting)
	if len(views) != maxWaiting {
		t.Fatalf("got %d waiting jobs, want %d", len(views), maxWaiting)
	}
	for i, v := range views {
		if want := w.now.Wall.Add(time.Duration(i+1) * time.Second); !v.Wait.Until.Equal(want) {
			t.Errorf("retry %d is at %v, want %v", i, v.Wait.Until, want)
		}
	}
}

// Another user may start a process every few seconds. That must not flood the warnings, nor the reason
// of an out-of-memory failure.
func TestManyNewcomersDoNotFloodWarnings(t *testing.T) {
	w := newWorld(t)
	w.gpus(1, 24*gpu.GiB)
	w.job("a", "true", jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1, Memory: 8 * gpu.GiB}}, "")
	warnings := 0
	w.hook = func(a Action) {
		if _, ok := a.(Warn); ok {
			warnings++
		}
	}
	w.open()
	w.send(Began{})
	for pid := range 200 {
		s := w.reading(Read{}).(Observed)
		s.Readings[0].Processes = []gpu.Process{
			{PID: 1, UID: 1000, Memory: gpu.GiB, Attempt: "a.1"},
			{PID: 100 + pid, UID: 1001, User: "alice", Command: "python", Memory: gpu.Bytes(pid) * gpu.MiB},
		}
		w.send(s)
	}
	if warnings != maxNewcomerWarnings+1 {
		t.Errorf("got %d warnings, want %d", warnings, maxNewcomerWarnings+1)
	}
	w.exit("a", Ended{Cause: GPUMemory, End: state.End{ExitCode: 1}})
	got := w.ledger[len(w.ledger)-1].Fact.Reason
	if !strings.Contains(got, "alice's python (pid 299, 199 MiB)") || !strings.HasSuffix(got, "and 13 more") {
		t.Errorf("got the reason %q", got)
	}
}
