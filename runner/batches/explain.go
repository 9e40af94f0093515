package batches

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gpurun/gpu"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// An explanation holds everything known about the jobs of a batch.
type explanation struct {
	Status *schema.Status
	Log    *runLog
	named  map[string]*schema.Job // by file and name
}

// Explain collects the state of a batch's jobs, the outcome of their attempts, and what the next
// run would do.
func (ref *Ref) Explain() *explanation {
	doc, verdicts := ref.Status(), ref.verdicts()
	return explained(doc, ref.RunLog(), verdicts)
}

// explained combines the data about a batch's jobs. verdicts belong to the first jobs in doc. To
// each of these jobs, explained adds what the next run would do.
func explained(doc *schema.Status, past *runLog, verdicts []sched.Verdict) *explanation {
	w := &explanation{Status: doc, Log: past, named: make(map[string]*schema.Job, len(doc.Jobs))}
	for i, j := range doc.Jobs {
		w.named[j.File+"\x00"+j.Name] = j
		if i < len(verdicts) {
			v := &verdicts[i]
			j.Plan = &schema.Plan{Run: v.Run, Code: v.Code, Details: []string{v.Reason}}
		}
	}
	return w
}

// verdicts returns what the next run would do with each job of a batch, or nil if its files cannot be
// read.
func (ref *Ref) verdicts() []sched.Verdict {
	if ref.former {
		return nil
	}
	return ref.Judge(ref.Batch, ref.History, sched.Options{Sim: ref.History.LastRun(0).Sim != ""}).Verdicts
}

// maxChain limits how far Chain follows jobs that wait for each other.
const maxChain = 20

// Chain explains a job: first the job itself, then the jobs that it waits for, back to one that
// waits for none.
func (w *explanation) Chain(j *schema.Job) []string {
	lines := append([]string{stateWords(j)}, w.detail(j)...)
	seen := map[*schema.Job]bool{j: true}
	for next := w.behind(j); next != nil && !seen[next] && len(seen) < maxChain; next = w.behind(next) {
		seen[next] = true
		lines = append(lines, Place(next)+": "+stateWords(next))
		lines = append(lines, w.detail(next)...)
	}
	return append(lines, w.outlook(j)...)
}

// behind returns the job that keeps or kept j from running, or nil.
func (w *explanation) behind(j *schema.Job) *schema.Job {
	of := func(name string) *schema.Job { return w.named[j.File+"\x00"+name] }
	if j.Wait != nil && len(j.Wait.Jobs) > 0 {
		return of(j.Wait.Jobs[0])
	}
	if j.State != state.Blocked {
		return nil
	}
	for _, name := range j.Needs {
		if n := of(name); n != nil && (n.State == state.Blocked || n.Cause != nil) {
			return n
		}
	}
	return nil
}

// Place returns a job's name and position: "train-3 (jobs.yaml:12)".
func Place(j *schema.Job) string {
	if j.Line == nil {
		return fmt.Sprintf("%s (%s)", j.Name, Shown(j.File))
	}
	return fmt.Sprintf("%s (%s:%d)", j.Name, Shown(j.File), *j.Line)
}

// over are the phases that start when an attempt ends.
var over = []state.Phase{state.Succeeded, state.Failed, state.Timeout, state.OOM, state.Stalled, state.Pruned, state.Cancelled, state.Interrupted, state.Lost}

// stateWords describes a job's state: "failed at 2026-03-01 03:12:07, exit: ValueError: bad lr".
func stateWords(j *schema.Job) string {
	s := j.State.String()
	if j.Since != nil {
		s += map[bool]string{false: " since ", true: " at "}[slices.Contains(over, j.State)] + j.Since.Local().Format(time.DateTime)
	}
	switch {
	case j.Cause != nil:
		s += j.Cause.After(j.State)
	case j.Wait != nil:
		s += ", waits: " + j.Wait.Text
	case j.State == state.Running && j.Attempt != nil && j.Attempt.PID != nil:
		s += fmt.Sprintf(", process %d", *j.Attempt.PID)
		if j.Attempt.Stalled != nil {
			s += ", " + *j.Attempt.Stalled
		}
	}
	return s
}

// detail describes a job's attempts in the run that last tried it, and gives the path of its log.
func (w *explanation) detail(j *schema.Job) (lines []string) {
	file := fileOf(w.Log.ref.Batch, j.File)
	var tried []*state.AttemptRecord
	for _, x := range w.Log.Attempts {
		if x.Ledger == file && x.Key == j.Key {
			tried = append(tried, x)
		}
	}
	if r := w.Log.ref.History.Of(file, j.Key); r != nil && r.From != "" && (j.State == state.Succeeded || j.State == state.UpToDate) {
		return []string{"copied from " + r.From, "log: " + r.Log}
	}
	if len(tried) == 0 {
		return nil
	}
	last := tried[len(tried)-1].Began
	tried = slices.DeleteFunc(tried, func(x *state.AttemptRecord) bool { return x.Began != last })
	for _, x := range tried {
		lines = append(lines, attemptWords(x))
	}
	if a := j.Attempt; a != nil && a.Log != nil {
		lines = append(lines, "log: "+a.Log.Path)
	}
	if a := j.Attempt; a != nil && a.Snapshot != nil && host.Exists(*a.Snapshot) {
		lines = append(lines, "code: "+*a.Snapshot)
	}
	return lines
}

// attemptWords describes an attempt: "attempt 1 on GPU 1, 2026-03-01 02:10:00 to 03:12:07: timeout".
func attemptWords(x *state.AttemptRecord) string {
	s := fmt.Sprintf("attempt %d", max(1, x.Attempt))
	switch {
	case x.Host != "":
		s += " on " + x.Host + ", " + gpu.List(x.GPUs)
	case len(x.GPUs) > 0:
		s += " on " + gpu.List(x.GPUs)
	}
	start := cmp.Or(x.Fact.BeganAt(), x.Start) // before it began, it waited in a cluster's queue
	switch {
	case x.Open != nil:
		return s + ", since " + x.Start.Local().Format(time.DateTime)
	case x.Start.IsZero():
		s += " never started"
	default:
		s += fmt.Sprintf(", %s to %s", start.Local().Format(time.DateTime), UntilTime(start, x.Time))
	}
	s += ": " + x.State.String()
	if cause := schema.CauseOf(&x.Fact); cause != nil {
		s += cause.After(x.State) + x.Failure().Ending()
	}
	if x.Uncharged != "" {
		s += "; spent no retry: " + x.Uncharged
	}
	return s
}

// outlook describes what the next run would do with a job, unless a live run still handles it.
func (w *explanation) outlook(j *schema.Job) []string {
	p := j.Plan
	switch {
	case j.State == state.Running && w.Status.Run != nil && !w.Status.Run.Alive && j.Attempt != nil && j.Attempt.UniID != nil && w.Log.after.Away[*j.Attempt.UniID] != "":
		return []string{"its run has ended: to reattach to the job, run gpurun " + Shown(j.File) + " on " + w.Log.after.Away[*j.Attempt.UniID]}
	case j.State == state.Running && w.Status.Run != nil && !w.Status.Run.Alive:
		return []string{"its run has ended: to reattach to the job, run gpurun " + Shown(j.File)}
	case p == nil || p.Code == schema.PlanRunning || j.Wait != nil || w.Status.Run != nil && w.Status.Run.Alive && j.State == state.Pending:
		return nil
	case p.Run && j.State == state.Pending && w.Log.ref.over.Why != "":
		return []string{"the last run ended: " + w.Log.ref.over.Why, "it will run in the next run: " + p.Details[0]}
	case p.Run:
		return []string{"it will run in the next run: " + p.Details[0]}
	}
	return []string{"it will not run in the next run: " + p.Details[0]}
}
