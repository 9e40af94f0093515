package cluster

import (
	"fmt"
	"time"

	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// seen is everything that is known of an attempt at one moment.
type seen struct {
	record  *wire.Record  // of its end, written on the node; nil for none
	claimed string        // by which node; "" for none
	taken   bool          // an earlier run has kept it from beginning
	calling bool          // its submission may still be going on
	row     Row           // as the cluster lists it
	partial bool          // other tasks of its job are listed, and it is not
	keeps   bool          // its cluster has accepted it, and forgets none
	missed  int           // complete lists in a row without it
	missing time.Duration // since the first of these
	asked   int           // complete lists since its record was read
	unsure  time.Duration // since it was read
	silent  time.Duration // since its keeper last showed that it lives
	over    time.Duration // since the cluster first said that it is over
	running time.Duration // from the first list that has it as running, to the latest
	starts  time.Duration // how long a start may take: startLimit
}

// Bounds of patience.
const (
	goneAfter   = 2                // lists without a task until it is gone
	unsureAfter = 3                // lists until a record counts without the cluster's word,
	accounted   = 20 * time.Second // after which what has ended is in the cluster's accounts, too
	deadAfter   = 2 * time.Minute  // without a beat
	recordLate  = 40 * time.Second // how late a record may be seen: caches lag by half a minute
	firstStart  = 30 * time.Minute // for a start on a cluster where none has been seen,
	leastStart  = 2 * time.Minute  // and where one has
)

// startLimit returns how long a task may be listed as running before it begins. The node's
// prolog comes first, which may take minutes: several times what was seen. After a crash, Slurm
// may list one for six minutes that no node has.
func startLimit(slowest time.Duration) time.Duration {
	if slowest == 0 {
		return firstStart
	}
	return max(leastStart, 4*slowest)
}

// A verdict is what to do about an attempt.
type verdict struct {
	act  act
	code code
}

type act int

const (
	waits act = iota
	ends      // with the outcome of the code
	voids     // keep it from beginning; then it ends with that outcome, if no node has it
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
	neverStarts // the cluster says why
	notStarted  // the script failed before gpurun began
	withdrawn   // by an earlier run, which could not record it
)

// judge says what becomes of an attempt: the first row that fits. Its own record is worth more
// than the cluster's word, which a restarted controller forgets, repeats or takes back.
func judge(s seen) verdict {
	for _, r := range rules {
		if r.fits(&s) {
			return r.verdict
		}
	}
	return verdict{}
}

var rules = []struct {
	name    string
	fits    func(*seen) bool
	verdict verdict
}{
	{"the record has its own reason, or needs none", func(s *seen) bool { return s.record != nil && !s.doubtful() }, verdict{ends, asRecorded}},
	{"time limit of the cluster", func(s *seen) bool { return s.closed() && s.row.State == TimedOut }, verdict{ends, timeout}},
	{"out of memory", func(s *seen) bool { return s.closed() && s.row.State == OutOfMemory }, verdict{ends, oom}},
	{"preempted, or its node failed", func(s *seen) bool { return s.closed() && s.displaced() }, verdict{ends, resubmitted}},
	{"cancelled in the cluster", func(s *seen) bool { return s.closed() && s.row.State == Cancelled }, verdict{ends, cancelled}},
	{"queued again by the cluster", func(s *seen) bool { return s.record != nil && s.row.State.queued() && s.untold() }, verdict{ends, resubmitted}},
	{"signalled, and the cluster says no more", func(s *seen) bool {
		return s.record != nil && s.record.Why == "" && (s.row.State.final() || s.untold())
	}, verdict{ends, asRecorded}},
	{"ended by a cluster that forgets nothing", func(s *seen) bool {
		return s.record != nil && s.keeps && (s.row.State.final() || s.untold())
	}, verdict{ends, cancelled}},
	{"ended by a cluster that has forgotten why", func(s *seen) bool { return s.record != nil && s.untold() }, verdict{ends, resubmitted}},
	{"the record waits for the cluster's word", func(s *seen) bool { return s.record != nil }, verdict{}},

	{"the submission may be going on", func(s *seen) bool { return s.calling }, verdict{}},
	{"begun; failed without a record", func(s *seen) bool { return s.closed() && s.row.State == Failed }, verdict{ends, lost}},
	{"begun; over or forgotten, and silent", func(s *seen) bool { return s.begun() && (s.row.State == Completed || s.gone()) && s.silent > deadAfter }, verdict{ends, resubmitted}},
	{"begun", func(s *seen) bool { return s.begun() }, verdict{}},

	{"an earlier run has kept it from beginning", func(s *seen) bool { return s.taken }, verdict{ends, withdrawn}},
	{"cancelled on a node: its start failed", func(s *seen) bool { return s.row.State == Cancelled && s.row.Node != "" }, verdict{voids, resubmitted}},
	{"cancelled while it waited", func(s *seen) bool { return s.row.State == Cancelled }, verdict{voids, cancelled}},
	{"gone, but maybe not yet in the accounts", func(s *seen) bool { return s.gone() && s.keeps && s.missing < accounted }, verdict{}},
	{"gone from a cluster that forgets nothing", func(s *seen) bool { return s.gone() && s.keeps }, verdict{voids, cancelled}},
	{"cancelled alone: others of its job are there", func(s *seen) bool { return s.gone() && s.partial }, verdict{voids, cancelled}},
	{"forgotten with all of its job", func(s *seen) bool { return s.gone() }, verdict{voids, resubmitted}},
	{"can never start", func(s *seen) bool { return s.row.Never && s.row.Reason != "" }, verdict{voids, neverStarts}},
	{"the script failed", func(s *seen) bool { return s.row.State == Failed && s.row.Raw>>8&0xff != 0 }, verdict{voids, notStarted}},
	{"listed as running, and no node has it", func(s *seen) bool { return s.ghost() }, verdict{voids, resubmitted}},
	{"over without having begun", func(s *seen) bool { return s.row.State.final() }, verdict{voids, resubmitted}},
}

// begun reports whether a node has it.
func (s *seen) begun() bool { return s.claimed != "" && s.claimed != voidMark }

// closed reports whether a node had it, and has recorded its end or never will: that would be seen by now.
func (s *seen) closed() bool { return s.record != nil || s.begun() && s.over >= recordLate }

// ghost reports whether the cluster takes it for running by mistake, as far as anybody can tell.
func (s *seen) ghost() bool { return s.row.State == Runs && !s.begun() && s.running > s.starts }

// gone reports whether the cluster no longer knows it.
func (s *seen) gone() bool { return s.row.State == Gone && s.missed >= goneAfter }

// untold reports whether the cluster will not say any more why it has ended.
func (s *seen) untold() bool { return s.asked >= unsureAfter && s.unsure >= accounted }

// displaced reports whether it had to leave its node.
func (s *seen) displaced() bool { return s.row.State == Preempted || s.row.State == NodeFailed }

// doubtful reports whether only the cluster may know why the attempt ended as its record says:
// somebody signalled it.
func (s *seen) doubtful() bool {
	r := s.record
	switch {
	case r.Why == state.WhyCluster:
		return true
	case r.Why != "" || r.Void || r.Err != "":
		return false
	}
	return r.Signal == "SIGTERM" || r.Signal == "SIGKILL" || r.ExitCode == 128+15 || r.ExitCode == 128+9
}

// outcome returns the end that a verdict means. name is the engine's.
func (v verdict) outcome(s *seen, name string, at time.Time) *state.End {
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
		e.Uncharged = name + " forgot it"
		if s.record == nil && !s.begun() {
			e.Uncharged = name + " does not know it"
		}
		if s.row.State.queued() {
			e.Uncharged = name + " queued it again"
		} else if s.record == nil && s.ghost() {
			e.Uncharged = fmt.Sprintf("%s listed it as running%s for %v, and it never began there", name, where, s.running.Round(time.Second))
		} else if s.row.Word != "" {
			e.Uncharged = name + ": " + s.row.Word + where
		}
		e.Err, e.Displaced = e.Uncharged, s.row.State == Preempted
	case withdrawn:
		e.Why = state.WhyInterrupted
	case lost:
		e.Err = fmt.Sprintf("it ended%s without a record: its keeper was killed", where)
	case neverStarts:
		e.Err, e.Lost, e.Void = fmt.Sprintf("%s can never start it: %s", name, s.row.Reason), false, false
	case notStarted:
		status := s.row.Raw >> 8 & 0xff
		e.Err, e.Lost, e.Void = scriptFailed(status, s.row.Node), false, false
		e.NoRoom = status == exitNoState || status == exitNoBinary // so would be all others
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
		return fmt.Sprintf("%s does not see the state folder: keep the job file, or --state-dir, on a file system that all nodes share", node)
	case exitNoBinary:
		return fmt.Sprintf("%s does not see gpurun in the state folder: keep that on a file system that all nodes share, or set cluster: {gpurun: PATH} to one that the nodes have", node)
	case 126, 127:
		return fmt.Sprintf("%s cannot execute gpurun (exit %d): it may have another architecture or C library; set cluster: {gpurun: PATH} to one that runs there", node, status)
	}
	return fmt.Sprintf("its script failed on %s before gpurun began (exit %d): see whether a prolog of the cluster did", node, status)
}
