package schema

import (
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/state"
)

// Ended returns the attempt that ended with r.
func Ended(r *state.Record) *Attempt {
	a := attempt(&r.Fact, r.Start)
	if r.Engine != "" {
		a.Submitted, a.Started, a.Host, a.JobID = a.Started, Time(r.BeganAt()), Known(r.Host), Known(r.JobID)
	}
	a.State, a.Ended, a.Seconds = r.State, Time(r.Time), AtLeast(r.Seconds, 0)
	a.ExitCode, a.Signal, a.Cause, a.Metrics = r.ExitCode, Known(r.Signal), CauseOf(&r.Fact), r.Metrics
	charged := r.ErrorType != "" && r.Uncharged == ""
	a.Charged = &charged
	if a.Log != nil {
		a.Log.To = Known(r.LogTo)
	}
	for i := range a.GPUs {
		peak := r.PeakMemory
		if len(r.PeakEach) == len(a.GPUs) {
			peak = r.PeakEach[i]
		}
		a.GPUs[i].Peak = AtLeast(peak, 1)
	}
	return a
}

// EndedJob returns a job in phase p whose last end is r, with only the fields that Failures needs.
func EndedJob(name string, p state.Phase, r *state.Record) *Job {
	return &Job{Name: name, State: p, Attempts: r.Attempt, Cause: CauseOf(&r.Fact), Attempt: Ended(r)}
}

// Open returns an attempt that has not ended.
func Open(o *state.Attempt, now time.Time) *Attempt {
	a := attempt(&o.Start, o.Start.Time)
	a.State, a.Stopping = state.Running, Known(o.Stop)
	if o.Start.Engine != "" {
		a.State, a.Submitted, a.Started, a.JobID = state.Queued, a.Started, nil, Known(o.JobID)
	}
	if r := o.Running; r != nil {
		if a.PID = Known(r.PID); r.Host != "" {
			a.State, a.Started, a.Host = state.Running, Time(r.Time), Known(r.Host)
			a.GPUs = Granted(r.GPUUUIDs, r.GPUs, o.Start.Memory)
		}
	}
	if a.Started != nil {
		a.Seconds = AtLeast(now.Sub(*a.Started).Seconds(), 0)
	}
	return a
}

// attempt returns an attempt with the start data in f.
func attempt(f *state.Fact, started time.Time) *Attempt {
	a := &Attempt{
		UniID: Known(f.UniID), N: f.Attempt, Started: Time(started),
		GPUs: Granted(f.GPUUUIDs, f.GPUs, f.Memory), Closeness: Known(f.Close), Background: []BackgroundJob{}, Snapshot: Known(f.Snapshot),
	}
	if f.Log != "" {
		a.Log = &Log{Path: f.Log}
		if from := f.LogFrom; from > 0 || f.LogTo > 0 || f.Attempt == 1 { // older ledgers lack the offset, and the log may contain earlier attempts
			a.Log.From = &from
		}
	}
	return a
}

// Granted returns the GPUs of a grant. On a cluster, only their numbers may be known.
func Granted(ids []gpu.UUID, indices []int, memory gpu.Bytes) []AttemptGPU {
	list := []AttemptGPU{}
	for i, index := range indices {
		g := AttemptGPU{Index: index, Granted: memory}
		if i < len(ids) {
			g.UUID = ids[i]
		}
		list = append(list, g)
	}
	return list
}

// Words returns the code and the text, or only the text if it begins with the code.
func (c *Cause) Words() string {
	if strings.HasPrefix(c.Text, string(c.Code)) || c.Code == state.CauseNeedFailed {
		return c.Text
	}
	return string(c.Code) + ": " + c.Text
}

// noRetry separates a cause from the reason why there was no retry.
const noRetry = "; no retry: "

// Brief returns the text without the reason why there was no retry.
func (c *Cause) Brief() string {
	text, _, _ := strings.Cut(c.Text, noRetry)
	return text
}

// After returns the cause as it follows a job's state: ", exit: ValueError: loss is nan".
func (c *Cause) After(p state.Phase) string {
	if string(c.Code) == string(p) {
		return ": " + c.Text
	}
	return ", " + c.Words()
}

// GitOf returns the state of the code recorded in a run fact.
func GitOf(run *state.Fact) *Git {
	if run.Commit == "" {
		return nil
	}
	return &Git{run.Commit, run.Dirty}
}

// GPUOf converts a device, without a verdict.
func GPUOf(s *gpu.DeviceView) GPU {
	g := GPU{
		Index: s.Index, UUID: s.UUID, Name: s.Name, PCI: s.PCI, MIG: s.MIG,
		Total: Known(s.Total), Used: AtLeast(s.Used, 0), Free: AtLeast(s.Free, 0), Util: AtLeast(s.Util, 0),
		Jobs: []string{}, Stalled: []string{}, Claims: []Claim{}, Quarantines: []Quarantine{},
	}
	if s.Listed {
		g.Processes = []Process{}
	}
	for _, p := range s.Processes {
		g.Processes = append(g.Processes, Process{PID: p.PID, User: Known(gpu.UserName(p.User, p.UID)), Command: Known(p.Command), Memory: AtLeast(p.Memory, 0)})
	}
	for _, c := range s.Claims {
		g.Claims = append(g.Claims, Claim{Known(gpu.UserName(c.User, c.UID)), c.Job, Known(c.Attempt), Known(c.PID), c.Memory, Time(c.Since), c.To != "", c.Gathering})
	}
	for _, q := range s.Quarantines {
		g.Quarantines = append(g.Quarantines, Quarantine{Known(gpu.UserName(q.User, q.UID)), q.Since.UTC(), q.Until.UTC(), q.Why, List(q.Evidence)})
	}
	return g
}

// Judge records in g whether a job could use the device now and, if not, why.
func (g *GPU) Judge(v *gpu.Verdict) {
	fits := v.OK
	g.Fits = &fits
	if g.Text = Known(v.Note); !v.OK {
		g.Code, g.Text = Known(v.Code), Known(v.Reason)
	}
}
