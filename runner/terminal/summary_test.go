package terminal

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/schema"
)

func TestSummaryListsFailuresFirst(t *testing.T) {
	_, failed := facts("train-a", 1)
	oom := state.Fact{Job: "train-b", State: state.OOM, ErrorType: state.ErrOOM, Attempt: 3, Signal: "SIGKILL"}
	s := Summary{Rest: "gpurun jobs.yaml", Code: 1, Result: schema.Result{
		Final: &schema.Status{Counts: map[state.Phase]int{
			state.Succeeded: 20, state.UpToDate: 4, state.Failed: 102, state.OOM: 1, state.Blocked: 2,
		}},
		Failures: []schema.FailedJob{
			{Job: "train-a", End: failed, Log: "/w/logs/a.log", Tail: []string{"Traceback:", "\x1b[31mValueError\x1b[0m: " + longName(1) + longName(2)}, Blocked: 2},
			{Job: "train-b", End: oom, Log: "/w/logs/b.log"},
			{Job: "eval-1", End: state.Fact{State: state.Failed, ErrorType: state.ErrExit, ExitCode: failed.ExitCode}, Log: "/w/logs/e1.log",
				Tail:  []string{"ModuleNotFoundError: No module named 'torchh'"},
				Alike: schema.Alike{Cause: schema.Cause{Text: "ModuleNotFoundError: No module named 'torchh'"}, Count: 100, Jobs: []string{"eval-1", "eval-2", "eval-3", "eval-4"}}, Blocked: 7},
		},
		Demands: []schema.Demand{
			{Job: "train-c", Asked: 12 * gpu.GiB, Peak: 29 * gpu.GiB, Readings: 1},
			{Job: "train-d", Asked: 12 * gpu.GiB, Peak: 700 * gpu.MiB, Readings: 43},
		},
		Warnings: []string{"train-c: gpurun stopped 2 processes that the job left running"},
		Wall:     3*time.Hour + 5*time.Minute, GPUHours: 11.237,
	}}
	golden(t, "summary", s.Lines(80))
	gaveUp := Summary{Code: 124, Result: schema.Result{
		Final:  &schema.Status{Counts: map[state.Phase]int{state.Pending: 1}, Live: &schema.Live{Next: &schema.Next{Job: "big", Text: "needs 40 GiB; GPU 0: 90% busy, limit 30%"}}},
		GaveUp: true, Wall: time.Hour,
	}}
	golden(t, "gave-up", gaveUp.Lines(80))
	golden(t, "up-to-date", Summary{Result: schema.Result{Final: &schema.Status{Counts: map[state.Phase]int{state.UpToDate: 24}}}}.Lines(80))
}

// Cancelled jobs, and jobs whose run stopped before their retry, are listed but are not failures.
func TestSummaryCountsUnlistedFailures(t *testing.T) {
	s := Summary{Result: schema.Result{
		Final: &schema.Status{Counts: map[state.Phase]int{state.Failed: 50, state.Stalled: 1, state.Cancelled: 7, state.Interrupted: 2}},
		Failures: []schema.FailedJob{
			{Job: "a", End: state.Fact{State: state.Failed}, Alike: schema.Alike{Count: 48}},
			{Job: "b", End: state.Fact{State: state.Cancelled}, Alike: schema.Alike{Count: 7, Jobs: []string{"b"}}},
			{Job: "c", End: state.Fact{State: state.Interrupted}},
		},
	}}
	if lines := s.Lines(80); !slices.Contains(lines, "… and 3 more failed") {
		t.Errorf("got %q, want the line \"… and 3 more failed\"", lines)
	}
}

// The end of an attempt that a cluster ran names its node, even if an earlier run saw its start.
// The place of an attempt that never started is unknown.
func TestEndLineNamesNode(t *testing.T) {
	for want, host := range map[string]string{"a: 5s, node1, GPU 2": "node1", "a: 5s": ""} {
		end := state.Fact{Job: "a", UniID: "u", State: state.Succeeded, Seconds: 5, Host: host}
		if host != "" {
			end.GPUs = []int{2}
		}
		if got := EndLine(end, state.Fact{Engine: "slurm"}); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q at its end", got, want)
		}
	}
}
