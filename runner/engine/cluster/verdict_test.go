package cluster

import (
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

func TestVerdictOnEachEnd(t *testing.T) {
	row := func(s State, node string) Row { return Row{State: s, Node: node, Word: "W"} }
	clean := &wire.Record{State: wire.StateOver}
	failed := &wire.Record{State: wire.StateOver, End: state.End{ExitCode: 3}}
	term := &wire.Record{State: wire.StateOver, End: state.End{ExitCode: -1, Signal: "SIGTERM"}}
	kill := &wire.Record{State: wire.StateOver, End: state.End{ExitCode: 137}}
	told := &wire.Record{State: wire.StateOver, End: state.End{ExitCode: -1, Signal: "SIGKILL", Why: state.WhyCluster}}
	ours := &wire.Record{State: wire.StateOver, End: state.End{ExitCode: -1, Signal: "SIGTERM", Why: state.WhyTimeout}}
	const node = "node1 7_0"
	for _, tt := range []struct {
		name string
		seen observation
		want verdict
	}{
		{"succeeded", observation{record: clean}, verdict{ends, asRecorded}},
		{"succeeded; the cluster reports that its node failed", observation{record: clean, row: row(NodeFailed, "n")}, verdict{ends, asRecorded}},
		{"failed; still listed as active", observation{record: failed, row: row(Active, "n")}, verdict{ends, asRecorded}},
		{"gpurun's own timeout", observation{record: ours, row: row(Cancelled, "n")}, verdict{ends, asRecorded}},
		{"signalled; reason not known yet", observation{record: term, row: row(Active, "n")}, verdict{waits, 0}},
		{"signalled; cancelled", observation{record: term, row: row(Cancelled, "n")}, verdict{ends, cancelled}},
		{"signalled; time limit", observation{record: term, row: row(TimedOut, "n")}, verdict{ends, timeout}},
		{"killed; out of memory", observation{record: kill, row: row(OutOfMemory, "n")}, verdict{ends, oom}},
		{"killed; preempted", observation{record: kill, row: row(Preempted, "n")}, verdict{ends, resubmitted}},
		{"killed; not by the cluster", observation{record: kill, row: row(Failed, "n")}, verdict{ends, asRecorded}},
		{"killed; the cluster reports no reason", observation{record: kill, asked: unsureAfter, unsure: accounted}, verdict{ends, asRecorded}},
		{"ended by the cluster; node failed", observation{record: told, row: row(NodeFailed, "n")}, verdict{ends, resubmitted}},
		{"ended by the cluster, which still lists it", observation{record: told, row: row(Active, "n"), asked: 1}, verdict{waits, 0}},
		{"ended by a cluster that has forgotten it", observation{record: told, asked: unsureAfter, unsure: accounted}, verdict{ends, resubmitted}},
		{"ended by a cluster whose accounting may be late", observation{record: told, asked: 9, unsure: accounted - 1}, verdict{waits, 0}},
		{"ended by a cluster that forgets nothing", observation{record: told, keeps: true, asked: unsureAfter, unsure: accounted}, verdict{ends, cancelled}},
		{"ended by qdel before SIGKILL", observation{record: told, keeps: true, row: row(Failed, "n")}, verdict{ends, cancelled}},
		{"over the time limit of a cluster that forgets nothing", observation{record: told, keeps: true, row: row(TimedOut, "n")}, verdict{ends, timeout}},
		{"requeued by a cluster that forgets nothing", observation{record: told, keeps: true, row: row(Pending, ""), asked: unsureAfter, unsure: accounted}, verdict{ends, resubmitted}},
		{"requeued and held", observation{record: told, keeps: true, row: row(Stuck, ""), asked: unsureAfter, unsure: accounted}, verdict{ends, resubmitted}},
		{"killed and requeued", observation{record: kill, row: row(Pending, ""), asked: unsureAfter, unsure: accounted}, verdict{ends, resubmitted}},
		{"killed; the list may be older than its start", observation{record: kill, row: row(Pending, "")}, verdict{waits, 0}},
		{"preempted by a cluster that forgets nothing", observation{record: told, keeps: true, row: row(Preempted, "n")}, verdict{ends, resubmitted}},

		{"being submitted", observation{calling: true, missed: 9}, verdict{waits, 0}},
		{"queued", observation{row: row(Pending, "")}, verdict{waits, 0}},
		{"held", observation{row: row(Stuck, "")}, verdict{waits, 0}},
		{"missing from one list", observation{missed: 1}, verdict{waits, 0}},
		{"missing with its whole job", observation{missed: goneAfter}, verdict{voids, resubmitted}},
		{"missing, unlike other tasks of its job", observation{missed: goneAfter, partial: true}, verdict{voids, cancelled}},
		{"cancelled before it began", observation{row: row(Cancelled, "")}, verdict{voids, cancelled}},
		{"cancelled on its node: the start failed", observation{row: row(Cancelled, "n")}, verdict{voids, resubmitted}},
		{"refused permanently", observation{row: Row{State: Failed, Never: true, Reason: "BadConstraints", Raw: 1}}, verdict{voids, neverStarts}},
		{"can never start; reason not known yet", observation{row: Row{State: Stuck, Never: true}}, verdict{waits, 0}},
		{"gone; the accounting may be late", observation{keeps: true, missed: 9, missing: accounted - 1}, verdict{waits, 0}},
		{"gone from a cluster that forgets nothing", observation{keeps: true, missed: goneAfter, missing: accounted}, verdict{voids, cancelled}},
		{"its node failed before it began", observation{keeps: true, row: row(NodeFailed, "n")}, verdict{voids, resubmitted}},
		{"its node has no state folder", observation{row: Row{State: Failed, Raw: exitNoState << 8}}, verdict{voids, notStarted}},
		{"its output could not be opened", observation{row: Row{State: Failed, Raw: 53}}, verdict{voids, resubmitted}},
		{"ended without having begun", observation{row: row(Completed, "n")}, verdict{voids, resubmitted}},

		{"active", observation{claimed: node, row: row(Active, "n")}, verdict{waits, 0}},
		{"begun; missing from lists", observation{claimed: node, missed: 9, silent: time.Minute}, verdict{waits, 0}},
		{"begun; missing and silent", observation{claimed: node, missed: 9, silent: deadAfter + 1}, verdict{ends, resubmitted}},
		{"begun; silent but listed", observation{claimed: node, row: row(Active, "n"), silent: time.Hour}, verdict{waits, 0}},
		{"begun; requeued while it may be running", observation{claimed: node, row: row(Pending, "")}, verdict{waits, 0}},
		{"completed; record late", observation{claimed: node, row: row(Completed, "n"), silent: time.Second}, verdict{waits, 0}},
		{"failed; record late", observation{claimed: node, row: row(Failed, "n"), over: recordLate - 1}, verdict{waits, 0}},
		{"node down; record late", observation{claimed: node, row: row(NodeFailed, "n")}, verdict{waits, 0}},
		{"failed without a record", observation{claimed: node, row: row(Failed, "n"), over: recordLate}, verdict{ends, lost}},
		{"node down; no record", observation{claimed: node, row: row(NodeFailed, "n"), over: recordLate}, verdict{ends, resubmitted}},
		{"cancelled; no record", observation{claimed: node, row: row(Cancelled, "n"), over: recordLate}, verdict{ends, cancelled}},
		{"listed as running within the start limit", observation{row: row(Runs, "n"), running: startLimit(time.Second), starts: startLimit(time.Second)}, verdict{waits, 0}},
		{"listed as running beyond the start limit; no node has it", observation{row: row(Runs, "n"), running: 121 * time.Second, starts: startLimit(time.Second)}, verdict{voids, resubmitted}},
		{"listed as running; starts take minutes on this cluster", observation{row: row(Runs, "n"), running: 10 * time.Minute, starts: startLimit(3 * time.Minute)}, verdict{waits, 0}},
		{"listed as running; no start seen on this cluster yet", observation{row: row(Runs, "n"), running: 20 * time.Minute, starts: startLimit(0)}, verdict{waits, 0}},
		{"not begun; its node is booting", observation{row: row(Active, "n"), running: time.Hour}, verdict{waits, 0}},
		{"running for an hour", observation{claimed: node, row: row(Runs, "n"), running: time.Hour}, verdict{waits, 0}},
		{"void and gone", observation{claimed: voidMark, missed: goneAfter}, verdict{voids, resubmitted}},
		{"withdrawn by an earlier run", observation{claimed: voidMark, taken: true, missed: goneAfter}, verdict{ends, withdrawn}},
	} {
		if got := judge(tt.seen); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// An attempt that has begun never ends as void. An end that the job did not cause spends no retry.
func TestOnlyTheJobsOwnFailureSpendsARetry(t *testing.T) {
	now := time.Now()
	begun := &observation{claimed: "node1 7_0", row: Row{Node: "node1", Word: "NODE_FAIL", State: NodeFailed}, over: recordLate}
	if e := judge(*begun).outcome(begun, "slurm", now); !e.Lost || e.Void || e.Uncharged != "slurm: NODE_FAIL on node1" {
		t.Errorf("got %+v", e)
	}
	gone := &observation{missed: goneAfter}
	if e := judge(*gone).outcome(gone, "slurm", now); !e.Lost || !e.Void || e.Uncharged == "" {
		t.Errorf("got %+v", e)
	}
	ghost := &observation{row: Row{State: Runs, Node: "node1", Word: "RUNNING"}, running: 150400 * time.Millisecond}
	if e := judge(*ghost).outcome(ghost, "slurm", now); !e.Lost || !e.Void || e.Uncharged != "slurm listed it as running on node1 for 2m30s, but it never started there" {
		t.Errorf("got %+v", e)
	}
	told := &observation{record: &wire.Record{End: state.End{ExitCode: -1, Signal: "SIGKILL", Why: state.WhyCluster}}, row: Row{State: OutOfMemory}}
	if e := judge(*told).outcome(told, "slurm", now); !e.OOMKilled || e.Lost || e.Why != "" {
		t.Errorf("got %+v", e)
	}
	for status, want := range map[int]string{exitNoState: "state folder", exitNoBinary: "cluster: {gpurun: PATH}", 127: "its architecture", 5: "prolog"} {
		if text := scriptFailed(status, "node1"); !strings.Contains(text, want) || !strings.Contains(text, "node1") {
			t.Errorf("exit %d: %s", status, text)
		}
	}
}

// A job that never reached the cluster is not reported as forgotten there.
func TestUnsubmittedJobIsNotForgotten(t *testing.T) {
	for want, s := range map[string]observation{
		"slurm has no record of it": {missed: goneAfter},
		"slurm lost track of it":    {claimed: "node1 7_0", missed: goneAfter, silent: time.Hour},
	} {
		if got := judge(s).outcome(&s, "slurm", time.Now()); got.Uncharged != want {
			t.Errorf("%+v: %q, want %q", s, got.Uncharged, want)
		}
	}
}
