package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gpurun/gpu/probe"
	"gpurun/runner/engine"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
)

func (l *loop) handle(ev engine.Event) {
	l.warn(ev.Warnings...)
	if ev.Silent != nil {
		l.shown.silent, l.shown.dirty = *ev.Silent, true
	}
	if ev.ClaimsChanged {
		l.readClaims()
	}
	at := l.attempts.live[ev.UniID]
	if at == nil {
		return // the attempt has already ended, so the event is a duplicate
	}
	switch {
	case ev.Running != nil && ev.Ended == nil:
		if ev.Running.Adopted && at.job >= 0 {
			l.attempts.fresh[at.job] = true // the next attempt appends to its output
		}
		l.placed(at, ev.Running.PID)
		l.step(sched.Started{
			UniID: ev.UniID, PID: ev.Running.PID, PIDStart: ev.Running.PIDStart, Host: ev.Running.Host, Grant: ev.Running.Grant, At: ev.Running.Started,
		})
	case ev.Queued != nil:
		l.step(sched.Queued{UniID: ev.UniID, JobID: ev.Queued.JobID, Reason: ev.Queued.Reason, Expected: ev.Queued.Expected})
	case ev.Background != nil:
		at.behind = true
		l.placed(at, ev.Background.PID)
		l.step(sched.Backgrounded{UniID: ev.UniID, What: ev.Background.Text, PID: ev.Background.PID})
	case ev.Suspended != nil:
		l.step(sched.Suspended{UniID: ev.UniID, Is: *ev.Suspended})
	case ev.Stopping != nil:
		at.ack = ev.Stopping.Ack
		l.step(sched.StopAnnounced{UniID: ev.UniID, Why: ev.Stopping.Why})
	case ev.Declined != "":
		l.step(sched.Declined{UniID: ev.UniID, Why: ev.Declined})
	case ev.Ended != nil:
		e := *ev.Ended
		if e.NoRoom { // the attempt never began, through no fault of its job, so the run ends
			l.stateFailed(errors.New(e.Err))
			e.Lost, e.Void, e.Why = true, true, state.WhyInterrupted
		} else if e.Unsaved != "" {
			l.stateFailed(errors.New(e.Unsaved))
		}
		l.examine(at, ev.Running, e)
	}
}

// placed registers an attempt's process and GPUs with a simulation.
func (l *loop) placed(at *attempt, pid int) {
	if sim, ok := l.Prober.(*probe.Sim); ok {
		sim.Placed(at.launch.UniID, pid, at.launch.Grant)
	}
}

// examine looks at the files of an ended attempt, outside the loop.
func (l *loop) examine(at *attempt, unreported *engine.Running, e state.End) {
	if sim, ok := l.Prober.(*probe.Sim); ok {
		sim.Removed(at.launch.UniID)
	}
	was, vanished := *at, at.vanished(e) // a copy, since a sample may still change the attempt
	bring := l.bring(at)
	reports := l.Report != nil && at.job >= 0 && l.Batch.Jobs[at.job].Spec.Tree
	l.offload(func() func() {
		kind := ""
		if reports {
			var end string
			end, kind = l.Report(at.job, at.launch.UniID)
			e.Report = cmp.Or(e.Report, end) // the engine's own report takes precedence
		}
		if l.Does.Places {
			at.awaitOutputs(l.ctx, e)
		}
		notes := bring()
		ev := judge(&was, e, kind)
		if unreported != nil {
			ev.PID = unreported.PID
		}
		if at.evidence != nil {
			ev.Evidence = at.evidence()
		}
		if vanished && ev.Warning == "" {
			ev.Warning = "its background process was gone when its script ended, and its GPUs were never used; check whether that process failed"
		}
		return func() {
			l.warn(notes...)
			l.warnOf(at.launch.Job, ev)
			l.step(ev)
			l.forget(at)
		}
	})
}

// visibleWithin is how long a file written on another host may take to become visible. Network file
// systems cache the absence of a file for up to half a minute.
const visibleWithin = 40 * time.Second

// awaitOutputs waits until the outputs of an attempt that succeeded on another host are visible.
func (at *attempt) awaitOutputs(ctx context.Context, e state.End) {
	succeeded := e.Report == "normal_exit" || e.Report == "" && exitedZero(e)
	if len(at.outputs) == 0 || !succeeded {
		return
	}
	look, end := time.NewTicker(time.Second), time.After(visibleWithin)
	defer look.Stop()
	for {
		if p, err := at.missing(); p == "" || err != nil {
			return
		}
		select {
		case <-look.C:
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}

// exitedZero reports whether an attempt exited with status 0, without being stopped.
func exitedZero(e state.End) bool {
	return e.ExitCode == 0 && e.Signal == "" && e.Err == "" && e.Why == "" && !e.Lost
}

// lastSign returns when an attempt of an earlier run last showed that it was alive: when a run watched
// it, or when it wrote to its log. The time since then is not its own, for example after a reboot.
func (at *attempt) lastSign() time.Time {
	last := at.launch.Grant.Since
	if at.watched != nil {
		last = at.watched(last)
	}
	for _, o := range at.out {
		if fi, err := os.Stat(o.Path); err == nil && fi.Mode().IsRegular() && fi.ModTime().After(last) {
			last = fi.ModTime()
		}
	}
	if now := time.Now(); last.After(now) { // by the clock of a file server
		return now
	}
	return last
}

// judge adds evidence to an end: from the log, the result file, the outputs, and the error type
// that the script reported. The core decides what the evidence means.
func judge(at *attempt, e state.End, reported string) sched.Ended {
	if e.Lost && e.At.IsZero() {
		e.At = at.lastSign()
	}
	ev := sched.Ended{UniID: at.launch.UniID, End: e, Good: e.Report == "normal_exit"}
	left, err := files.Result(ResultPath(at.launch.Dir), at.out[0].Path+".result.json", at.curve)
	if err != nil {
		ev.Warning = err.Error()
	}
	ev.Metrics, ev.LogTo = left.Metrics, size(at.out[0].Path)
	if at.reports != nil {
		ev.Points, ev.Rule = at.report(true), at.reports.Rule
	}
	if e.Report == "abnormal_exit" {
		ev.Failed = "its script reported abnormal_exit"
	}
	if e.Why == state.WhyPruned {
		at.measure(&ev)
	}
	if !ev.Good && (ev.ExitCode != 0 || ev.Signal != "" || ev.Failed != "") {
		tail := at.out.tail(logTail)
		ev.Line = files.TellingLine(tail, ev.Signal != "" && e.Why == "")
		if !ev.Lost {
			ev.Cause = causeOf(tail)
		}
	} else if p, err := at.missing(); p == "" {
		ev.Whole = len(at.outputs) > 0
		at.measure(&ev)
	} else {
		ev.Failed, ev.Good, ev.Cause = "output "+files.Short(at.launch.WorkDir, p)+" missing", false, sched.OutputMissing
		if err != nil {
			ev.Failed = "output " + err.Error()
		}
	}
	if !ev.Good && e.Why == "" && (ev.ExitCode != 0 || ev.Signal != "" || ev.Failed != "") {
		ev.Full = at.full()
	}
	switch {
	case e.OOMKilled:
		ev.Cause = sched.HostMemory
	case left.ErrorType == state.ErrOOM || reported == state.ErrOOM && !ev.Good:
		ev.Cause = sched.GPUMemory
	}
	return ev
}

// minFree is the free space below which a disk counts as full, in bytes.
const minFree = 1 << 20

// full describes a full disk to which an attempt writes, or returns "".
func (at *attempt) full() string {
	for _, d := range [][2]string{{"log", filepath.Dir(at.out[0].Path)}, {"work dir", at.launch.WorkDir}} {
		if free, files := disk.Room(d[1]); files == 0 || free >= 0 && free < minFree {
			return "the disk of its " + d[0] + " is full, " + d[1]
		}
	}
	return ""
}

// measureFor bounds the reading of metrics at the end of a job, while its GPUs stay claimed. gpurun
// commands read slow files later, on demand.
const measureFor = 200 * time.Millisecond

// metricsRoom is how many bytes of a ledger line metrics may take, also those that the job reported.
const metricsRoom = 48 << 10

func (at *attempt) measure(ev *sched.Ended) {
	if len(at.metrics) == 0 {
		return
	}
	read, until := make(chan files.Measured, 1), time.Now().Add(measureFor)
	go func() {
		defer func() { _ = recover() }() // there are no values after a panic
		read <- files.Measure(at.metrics, at.out.found(), files.Limits{Bytes: 4 << 20, Until: until})
	}()
	select {
	case m := <-read:
		if ev.Metrics == nil {
			ev.Metrics = map[string]any{}
		}
		ev.Measured = m.Sums
		reported, _ := json.Marshal(ev.Metrics)
		room, left := metricsRoom-len(reported), []string(nil)
		for _, x := range at.metrics {
			if value, found := m.Values[x.Name]; found {
				entries, _ := json.Marshal([]any{x.Name, value, x.Name, m.Sums[x.Name]})
				if room -= len(entries); room >= 0 {
					ev.Metrics[x.Name] = value
					continue
				}
				delete(ev.Measured, x.Name)
				left = append(left, x.Name)
			}
		}
		if left != nil {
			text := fmt.Sprintf("%d of its metrics (%s and following) are not in the ledger, which keeps %d KiB of metrics per attempt; gpurun results reads them from the log or file", len(left), left[0], metricsRoom>>10)
			ev.Warning = strings.TrimPrefix(ev.Warning+"; "+text, "; ")
		}
	case <-time.After(measureFor):
	}
}

func causeOf(tail []byte) sched.Cause {
	switch {
	case files.OutOfMemory(tail):
		return sched.GPUMemory
	case files.DeviceFault(tail):
		return sched.DeviceFault
	}
	return sched.NoCause
}

// vanishedWithin is the run time below which a script is suspected of starting a background process
// that failed. The shell reaps such a process without reporting its status.
const vanishedWithin = 10 * time.Second

// vanished reports whether a successful attempt may have done nothing: its commands started a
// background process without waiting for it, no process remains, and none was seen on the attempt's
// GPUs.
func (at *attempt) vanished(e state.End) bool {
	return exitedZero(e) && e.LeftOver == 0 && e.LeftRunning == "" && e.Elapsed < vanishedWithin && len(at.launch.Grant.UUIDs) > 0 && at.launch.Leftovers == engine.LeftoversAuto &&
		!at.behind && len(at.onGPU) == 0 && startsBehind(strings.Join(at.launch.Commands, "\n"))
}

var (
	ampersand = regexp.MustCompile(`(^|[^&<>|])&(\s|;|\)|$)`)
	waits     = regexp.MustCompile(`\b(wait|fg)\b`)
	quoted    = regexp.MustCompile(`'[^']*'|"[^"]*"|(^|\s)#.*`)
)

// startsBehind reports whether a script appears to start a background process without waiting for
// it. The check is reliable enough only for a warning.
func startsBehind(script string) bool {
	if !strings.Contains(script, "&") {
		return false
	}
	script = quoted.ReplaceAllString(script, " x")
	return ampersand.MatchString(script) && !waits.MatchString(script)
}
