package report

import (
	"strings"

	"gpurun/runner/results"
	"gpurun/state"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

// Input is the data about a batch that the command line collects for a report.
type Input struct {
	Status   *schema.Status
	Runs     []schema.RunRow
	Attempts []schema.AttemptRow // oldest first
	Starts   map[ID]*state.Fact  // the last start of each job
	Readings *state.GPUReadings
	Usage    *schema.BatchUsage
	Results  *results.Table // nil without measurements
	Curves   []schema.ReportCurve
	Lines    func(log *schema.Log) []string // returns the last lines of an attempt's log
	Secrets  []string                       // to be masked in all texts
}

// ID identifies a job in a batch's ledgers.
type ID struct{ File, Key string }

// Build returns the report with all secrets masked.
func Build(k *Input) *schema.Report {
	st := k.Status
	r := &schema.Report{
		Head: st.Head, Batch: st.Batch, Run: st.Run, Counts: st.Counts, Outcome: st.Outcome, Tally: st.Tally, Line: st.Line, Runs: k.Runs,
		Jobs: make([]schema.ReportJob, 0, len(st.Jobs)), Failures: []schema.ReportFailure{}, Curves: thin(k.Curves), Warnings: st.Warnings,
	}
	attempts, firsts := map[ID][]schema.Attempt{}, []*schema.AttemptRow{}
	for i := range k.Attempts {
		x := &k.Attempts[i]
		id := ID{x.File, x.Key}
		if attempts[id] == nil {
			firsts = append(firsts, x)
		}
		a := x.Attempt
		a.Metrics = nil
		attempts[id] = append(attempts[id], a)
	}
	present := map[ID]bool{}
	for _, job := range st.Jobs {
		j := describe(job)
		id := ID{j.File, j.Key}
		present[id] = true
		j.Attempts = schema.List(attempts[id])
		r.Jobs = append(r.Jobs, j)
	}
	for _, first := range firsts {
		if id := (ID{first.File, first.Key}); !present[id] {
			r.Jobs = append(r.Jobs, former(first, attempts[id], k.Starts[id]))
		}
	}
	provenance(r, k)
	failures(r, k)
	r.Readings, r.Usage = Readings(k.Readings), k.Usage
	if k.Results != nil {
		r.Results, r.Copies = k.Results.Document(st.Now), k.Results.Copies(st.Now)
	}
	return redact.Document(r, redact.Hiding(k.Secrets))
}

// describe returns a job of the status as a report job.
func describe(j *schema.Job) schema.ReportJob {
	d := schema.ReportJob{Job: *j, Inputs: []state.Input{}}
	if d.Attempt = nil; j.Wait != nil {
		w := *j.Wait
		w.GPUs = nil // only valid at the time of the status
		d.Wait = &w
	}
	return d
}

// former returns the report of a job that is in the ledger but no longer in the job file. start is
// the fact of its last start, or nil.
func former(first *schema.AttemptRow, attempts []schema.Attempt, start *state.Fact) schema.ReportJob {
	last := &attempts[len(attempts)-1]
	j := schema.ReportJob{Former: true, Inputs: []state.Input{}, Attempts: attempts, Job: schema.Job{
		File: first.File, Name: first.Job, Key: first.Key, Params: map[string]string{}, Tags: []string{}, Needs: []string{}, State: last.State,
		Since: last.Ended, Cause: last.Cause, Commands: []string{},
	}}
	if start != nil && start.Params != nil {
		j.Params = start.Params
	}
	return j
}

// provenance adds the config, inputs and commands of each job's last start. Values that all configs
// share are stored once, in the report itself.
func provenance(r *schema.Report, k *Input) {
	values, having := map[[2]string]int{}, 0 // by name and value: how many configs have it
	for i := range r.Jobs {
		j := &r.Jobs[i]
		j.Config = map[string]string{}
		start := k.Starts[ID{j.File, j.Key}]
		if start == nil {
			continue
		}
		j.Inputs = schema.List(start.Inputs)
		if len(start.Commands) > 0 {
			j.Commands = start.Commands
		}
		for trait, value := range start.Traits {
			if name, is := strings.CutPrefix(trait, "config "); is {
				j.Config[name] = value
				values[[2]string{name, value}]++
			}
		}
		if len(j.Config) > 0 {
			having++
		}
	}
	r.Config = map[string]string{}
	for v, n := range values {
		if n == having && having > 1 {
			r.Config[v[0]] = v[1]
		}
	}
	for i := range r.Jobs {
		for name := range r.Config {
			delete(r.Jobs[i].Config, name)
		}
	}
}

// maxTails is how many failure groups show the end of a log.
const maxTails = 200

// failures adds the failure groups, with the end of one log each.
func failures(r *schema.Report, k *Input) {
	groups, of := schema.Failures(k.Status.Jobs)
	schema.Tried(groups, func() []schema.AttemptRow { return k.Attempts })
	logs := make([]*schema.Log, len(groups))
	for i, g := range of {
		if g < 0 {
			continue
		}
		if r.Jobs[i].Failure = &g; logs[g] == nil {
			logs[g] = k.Status.Jobs[i].Attempt.Log
		}
	}
	for g, a := range groups {
		f := schema.ReportFailure{Alike: a, Lines: []string{}}
		if logs[g] != nil && g < maxTails {
			f.Lines = schema.List(k.Lines(logs[g]))
		}
		r.Failures = append(r.Failures, f)
	}
}
