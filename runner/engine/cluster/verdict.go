package cluster

import (
	"fmt"
	"time"

	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// An observation is everything known about an attempt at one moment.
type observation struct {
	record  *wire.Record  // record of its end, written on the node; nil if there is none
	claimed string        // by which node; "" for none
	taken   bool          // an earlier run has forbidden it to begin
	calling bool          // its submission may still be in progress
	row     Row           // in the cluster's list
	partial bool          // other tasks of its job are listed, but not this one
	keeps   bool          // its cluster has accepted it, and forgets no job
	missed  int           // consecutive complete lists without it
	missing time.Duration // time since it was first missing
	asked   int           // complete lists since its record was read
	unsure  time.Duration // time since its record was read
	silent  time.Duration // time since its keeper's last heartbeat
	over    time.Duration // time since the cluster first listed it as over
	running time.Duration // from the first list that shows it running to the latest
	starts  time.Duration // how long a start may take: startLimit
}

// Limits on waiting for evidence.
const (
	goneAfter   = 2                // lists without a task before it counts as gone
	unsureAfter = 3                // lists after which a record counts without the cluster's confirmation
	accounted   = 20 * time.Second // how long an ended task may be missing from the cluster's accounts
	deadAfter   = 2 * time.Minute  // without a heartbeat
	recordLate  = 40 * time.Second // how late a record may be seen: caches lag by half a minute
	firstStart  = 30 * time.Minute // how long a start may take if none has been seen yet
	leastStart  = 2 * time.Minute  // the least limit after that
)

// startLimit returns how long a task may be listed as running before it begins. The node's prolog
// may take minutes, so the limit is several times the slowest start. After a crash, Slurm may list
// a task as running for six minutes although no node has it.
func startLimit(slowest time.Duration) time.Duration {
	if slowest == 0 {
		return firstStart
	}
	return max(leastStart, 4*slowest)
}

// A verdict is the action to take for an attempt.
type verdict struct {
	act  act
	code code
}

type act int

const (
	waits act = iota
	ends      // end it with the outcome of the code
	voids     // forbid it to begin; if no node has it, it ends with that outcome
)

// code is an outcome.
type code int

const (
	asRecorded code = iota
	timeout
	oom
	cancelled
	resubmitted // by the scheduler, without spending a retry
	lost
	neverStarts // for the reason that the cluster reports
	notStarted  // the script failed before gpurun began
	withdrawn   // by an earlier run, which could not record it
)

// judge returns the verdict of the first rule that applies. An attempt's own record outweighs the
// cluster's list, which a restarted controller may forget, repeat or revert.
func judge(s observation) verdict {
	for _, r := range rules {
		if r.fits(&s) {
			return r.verdict
		}
	}
	return verdict{}
}

var rules = []struct {
	name    string
	fits    func(*observation) bool
	verdict verdict
}{
	{"the record gives a reason, or needs none", func(s *observation) bool { return s.record != nil && !s.doubtful() }, verdict{ends, asRecorded}},
	{"time limit of the cluster", func(s *observation) bool { return s.closed() && s.row.State == TimedOut }, verdict{ends, timeout}},
	{"out of memory", func(s *observation) bool { return s.closed() && s.row.State == OutOfMemory }, verdict{ends, oom}},
	{"preempted, or its node failed", func(s *observation) bool { return s.closed() && s.displaced() }, verdict{ends, resubmitted}},
	{"cancelled in the cluster", func(s *observation) bool { return s.closed() && s.row.State == Cancelled }, verdict{ends, cancelled}},
	{"queued again by the cluster", func(s *observation) bool { return s.record != nil && s.row.State.queued() && s.unexplained() }, verdict{ends, resubmitted}},
	{"signalled, and the cluster gives no reason", func(s *observation) bool {
		return s.record != nil && s.record.Why == "" && (s.row.State.final() || s.unexplained())
	}, verdict{ends, asRecorded}},
	{"ended by a cluster that forgets nothing", func(s *observation) bool {
		return s.record != nil && s.keeps && (s.row.State.final() || s.unexplained())
	}, verdict{ends, cancelled}},
	{"ended by a cluster that no longer reports why", func(s *observation) bool { return s.record != nil && s.unexplained() }, verdict{ends, resubmitted}},
	{"waiting for the cluster to confirm the record", func(s *observation) bool { return s.record != nil }, verdict{}},

	{"may still be in submission", func(s *observation) bool { return s.calling }, verdict{}},
	{"begun, then failed without a record", func(s *observation) bool { return s.closed() && s.row.State == Failed }, verdict{ends, lost}},
	{"begun, silent for long, and completed or no longer listed", func(s *observation) bool {
		return s.begun() && (s.row.State == Completed || s.gone()) && s.silent > deadAfter
	}, verdict{ends, resubmitted}},
	{"begun", func(s *observation) bool { return s.begun() }, verdict{}},

	{"an earlier run kept it from starting", func(s *observation) bool { return s.taken }, verdict{ends, withdrawn}},
	{"cancelled on a node: its start failed", func(s *observation) bool { return s.row.State == Cancelled && s.row.Node != "" }, verdict{voids, resubmitted}},
	{"cancelled while it waited", func(s *observation) bool { return s.row.State == Cancelled }, verdict{voids, cancelled}},
	{"gone, but the accounting may be late", func(s *observation) bool { return s.gone() && s.keeps && s.missing < accounted }, verdict{}},
	{"gone from a cluster that forgets nothing", func(s *observation) bool { return s.gone() && s.keeps }, verdict{voids, cancelled}},
	{"cancelled alone: other tasks of its job are listed", func(s *observation) bool { return s.gone() && s.partial }, verdict{voids, cancelled}},
	{"gone with its whole job", func(s *observation) bool { return s.gone() }, verdict{voids, resubmitted}},
	{"can never start", func(s *observation) bool { return s.row.Never && s.row.Reason != "" }, verdict{voids, neverStarts}},
	{"the script failed", func(s *observation) bool { return s.row.State == Failed && s.row.Raw>>8&0xff != 0 }, verdict{voids, notStarted}},
	{"listed as running, but no node has it", func(s *observation) bool { return s.runsWithoutStart() }, verdict{voids, resubmitted}},
	{"ended without having begun", func(s *observation) bool { return s.row.State.final() }, verdict{voids, resubmitted}},
}

// begun reports whether a node has claimed the attempt.
func (s *observation) begun() bool { return s.claimed != "" && s.claimed != voidMark }

// closed reports whether a node had the attempt, and has recorded its end or never will.
func (s *observation) closed() bool { return s.record != nil || s.begun() && s.over >= recordLate }

// runsWithoutStart reports whether the cluster appears to list the attempt as running by mistake.
func (s *observation) runsWithoutStart() bool {
	return s.row.State == Runs && !s.begun() && s.running > s.starts
}

// gone reports whether the cluster no longer lists the attempt.
func (s *observation) gone() bool { return s.row.State == Gone && s.missed >= goneAfter }

// unexplained reports whether it is too late for the cluster to report a reason for the end.
func (s *observation) unexplained() bool { return s.asked >= unsureAfter && s.unsure >= accounted }

// displaced reports whether the attempt lost its node.
func (s *observation) displaced() bool { return s.row.State == Preempted || s.row.State == NodeFailed }

// doubtful reports whether a signal ended the attempt, so that only the cluster may have the
// reason.
func (s *observation) doubtful() bool {
	r := s.record
	switch {
	case r.Why == state.WhyCluster:
		return true
	case r.Why != "" || r.Void || r.Err != "":
		return false
	}
	return r.Signal == "SIGTERM" || r.Signal == "SIGKILL" || r.ExitCode == 128+15 || r.ExitCode == 128+9
}

// outcome returns the end for a verdict. name is the engine's name.
func (v verdict) outcome(s *observation, name string, at time.Time) *state.End {
	e := &state.End{ExitCode: -1, At: at, Lost: true}
	if s.record != nil {
		end := s.record.End
		if e = &end; e.Why == state.WhyCluster {
			e.Why = ""
		}
	}
	e.Void = e.Void || s.record == nil && !s.begun()
	where := ""
	if s.row.Node != "" {
		where = " on " + s.row.Node
	}
	switch v.code {
	case timeout:
		e.Why, e.Lost, e.Err = state.WhyTimeout, false, "the time limit of "+name
	case oom:
		e.OOMKilled, e.Lost, e.Signal = true, false, "SIGKILL"
	case cancelled:
		e.Why = state.WhyCancelled
	case resubmitted:
		e.Lost, e.ExitCode, e.Signal = true, -1, ""
		e.Uncharged = name + " lost track of it"
		if s.record == nil && !s.begun() {
			e.Uncharged = name + " has no record of it"
		}
		if s.row.State.queued() {
			e.Uncharged = name + " requeued it"
		} else if s.record == nil && s.runsWithoutStart() {
			e.Uncharged = fmt.Sprintf("%s listed it as running%s for %v, but it never started there", name, where, s.running.Round(time.Second))
		} else if s.row.Word != "" {
			e.Uncharged = name + ": " + s.row.Word + where
		}
		e.Err, e.Displaced = e.Uncharged, s.row.State == Preempted
	case withdrawn:
		e.Why = state.WhyInterrupted
	case lost:
		e.Err = fmt.Sprintf("it ended%s without a record because its keeper was killed", where)
	case neverStarts:
		e.Err, e.Lost, e.Void = fmt.Sprintf("%s can never start it: %s", name, s.row.Reason), false, false
	case notStarted:
		status := s.row.Raw >> 8 & 0xff
		e.Err, e.Lost, e.Void = scriptFailed(status, s.row.Node), false, false
		e.NoRoom = status == exitNoState || status == exitNoBinary // every later task would fail the same way
	}
	return e
}

// Exit statuses of the script before gpurun begins.
const (
	exitNoState  = 96
	exitNoBinary = 97
)

// scriptFailed explains the exit status of a script that ended before gpurun began.
func scriptFailed(status int, node string) string {
	switch status {
	case exitNoState:
		return fmt.Sprintf("%s cannot see the state folder: keep the job file or --state-dir on a file system shared by all nodes", node)
	case exitNoBinary:
		return fmt.Sprintf("%s cannot see gpurun in the state folder: keep the folder on a file system shared by all nodes, or set cluster: {gpurun: PATH} to a copy on the nodes", node)
	case 126, 127:
		return fmt.Sprintf("%s cannot execute gpurun (exit %d): its architecture or C library may differ; set cluster: {gpurun: PATH} to a build that runs there", node, status)
	}
	return fmt.Sprintf("its script failed on %s before gpurun started (exit %d): check the cluster's prolog", node, status)
}
