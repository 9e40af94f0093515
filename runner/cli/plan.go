package cli

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/files"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

type planCmd struct {
	jobFlags    `embed:""`
	Verbose     bool `short:"v" help:"Also show every setting with its source, and each command."`
	ReplayPrune bool `help:"Show what prune would have saved and lost in finished jobs."`
	Simulate    bool `help:"Also show when each job would start and end, on the GPUs in their current state."`
	JSON        bool `name:"json" help:"Print the jobs as JSON."`
}

func (planCmd) Help() string {
	return helpText("Starts nothing; shows which GPUs the jobs could use now.",
		"gpurun plan -v jobs.yaml            # also settings and commands",
		"gpurun plan --simulate jobs.yaml    # also when each job would start and end",
		"gpurun plan --json jobs.yaml | jq '.jobs[] | select(.plan.run) | .name'")
}

// A planning holds the state while a plan is made.
type planning struct {
	*planCmd
	*app
	batches.Judgment
	batch    *jobspec.Batch
	warnings []string  // from the ledgers
	pool     *gpu.Pool // nil until the GPUs have been read
	seen     gpu.Observation
	unread   error         // why the GPUs could not be read
	there    []*submission // requests to the cluster, if there is one
}

func (p *planning) runs(id int) bool { return p.Verdicts[id].Run }

func (c *planCmd) Run(a *app) error {
	batch, err := a.load(&c.batchFlags)
	if err != nil {
		return err
	}
	if c.ReplayPrune {
		if c.Verbose || c.Simulate || c.JSON || len(c.Only)+len(c.Skip)+len(c.Tag)+len(c.Force.globs) > 0 {
			return &batches.Failure{Code: batches.ExitUsage, Text: "--replay-prune shows a table of all finished jobs", Hint: "run it without other flags"}
		}
		rows, err := a.ReplayPrune(batch.RealPaths())
		table(a.out, rows)
		return err
	}
	history, warnings, err := a.ReadHistory(batch.RealPaths())
	if err != nil {
		return err
	}
	opts, err := c.options(batch)
	if err != nil {
		return err
	}
	opts.Sim = c.Sim != ""
	attempts := history.Attempts()
	p := &planning{planCmd: c, app: a, batch: batch, warnings: warnings, Judgment: a.Judge(batch, history, opts)}
	if c.Sim != "" {
		sim, err := session.OpenSim(c.Sim) // an invalid --sim is an error even if no job needs a GPU
		if err != nil {
			return err
		}
		sim.Close()
	}
	if c.JSON {
		return p.json()
	}
	a.warnings(batch)
	a.Warn(warnings...)
	w := bufio.NewWriterSize(a.out, 64<<10)
	defer w.Flush()
	if running := p.Running(); running != "" {
		fmt.Fprintln(w, running)
	}
	run, live := p.print(w)
	w.Flush() // a driver may take seconds to answer
	if impossible := p.printGPUs(w); len(impossible) > 0 {
		fmt.Fprintf(w, "%s: no job can run because of %s\n", state.Count(len(batch.Jobs), "job"), state.Count(len(impossible), "problem"))
		w.Flush()
		return jobspec.Report(impossible)
	}
	if c.Simulate {
		f, err := p.forecast()
		if err != nil {
			return err
		}
		p.printForecast(w, f)
	}
	printCount(w, batch, run, live)
	if !c.Simulate {
		p.printExpected(w)
	}
	for _, problem := range batches.CheckHost(batch, p.runs) {
		fmt.Fprintln(w, "on this machine "+problem.Text)
	}
	session.CodeChanged(w, batch, history)
	if err := a.NoneRunning(batch, p.runs, ""); err != nil {
		fmt.Fprintln(w, err)
	}
	if m := a.Moved(batch, history, p.runs); m.Jobs > 0 {
		fmt.Fprintln(w, m.Words()+"; "+m.Fix())
	} else if history.Empty() && len(attempts) == 0 {
		offerDone(w, batch)
	}
	return nil
}

// json prints the plan as JSON.
func (p *planning) json() error {
	if impossible := p.printGPUs(io.Discard); len(impossible) > 0 {
		return jobspec.Report(impossible)
	}
	doc := p.Ref.Document(nil, false, p.Ref.Settle())
	doc.Jobs = doc.Jobs[:len(p.batch.Jobs)] // the rest are running attempts of jobs that are no longer in the files
	doc.Warnings = append(doc.Warnings, problemDocs(p.batch.Warnings)...)
	doc.Warnings = append(doc.Warnings, problemDocs(batches.CheckHost(p.batch, p.runs))...)
	for _, text := range p.warnings {
		doc.Warnings = append(doc.Warnings, schema.Problem{Code: schema.FailureCode(batches.ExitState), Text: text})
	}
	for id := range doc.Jobs {
		doc.Jobs[id].Plan = p.plan(id)
		doc.Jobs[id].Memory = schema.Known(p.Core.Request(id).Memory)
	}
	if p.pool != nil {
		doc.GPUs = []schema.GPU{}
		for _, s := range p.pool.Views(p.seen.At) {
			doc.GPUs = append(doc.GPUs, schema.GPUOf(&s))
		}
	}
	for _, s := range p.there {
		d := s.document()
		for _, id := range s.jobs {
			doc.Jobs[id].Plan.Submission = d
		}
	}
	if p.Simulate {
		f, err := p.forecast()
		if err != nil {
			return err
		}
		f.add(doc.Jobs)
	}
	// A reason may quote a parameter of an earlier attempt, so the secrets of past runs are hidden,
	// too.
	return writeJSON(p.out, redact.Document(doc, redact.Hiding(append(batches.SecretsOf(p.batch), p.Ref.RunLog().Secrets...))))
}

// plan returns the plan for a job.
func (p *planning) plan(id int) *schema.Plan {
	v := p.Verdicts[id]
	d := &schema.Plan{Run: v.Run, Code: v.Code, Details: []string{v.Reason}}
	if _, runs := p.Core.Learned(id); runs > 0 {
		d.Learned = &runs
	}
	if takes, by := p.Core.Expected(id); takes > 0 {
		seconds := takes.Seconds()
		d.Takes, d.TakesBy = &seconds, &by
	}
	return d
}

// print prints the plan. It returns how many jobs would run and how many are running.
func (p *planning) print(w io.Writer) (run, live int) {
	b := p.batch
	for _, f := range b.Files {
		fmt.Fprintf(w, "%s: %s\n", f.Path, fileWords(f))
	}
	if p.Verbose {
		rows := make([][]string, 0, len(b.Settings.Sources))
		for _, name := range slices.Sorted(maps.Keys(b.Params)) {
			rows = append(rows, []string{"  " + name, b.Params[name], "-p"})
		}
		for _, s := range b.Settings.Sources {
			rows = append(rows, []string{"  " + s.Name, s.Value, s.Source})
		}
		table(w, rows)
	}
	width := 0
	for id := range b.Jobs {
		width = max(width, min(terminal.Width(b.Jobs[id].Name), 72))
	}
	for id := range b.Jobs {
		j, v, word := &b.Jobs[id], p.Verdicts[id], "skip"
		switch {
		case v.Code == schema.PlanRunning:
			word = "now"
			live++
		case v.Run:
			word = "run"
			run++
		}
		fmt.Fprintf(w, "  %-4s  %s  %s\n", word, terminal.Pad(j.Name, max(width, terminal.Width(j.Name))), terminal.CleanText(v.Reason))
		if p.Verbose {
			printDetails(w, b, j)
			p.printLearned(w, id)
		}
	}
	return run, live
}

// printCount prints how many jobs would run and in which order.
func printCount(w io.Writer, b *jobspec.Batch, run, live int) {
	text := fmt.Sprintf("%s: %d would run, %d would not", state.Count(len(b.Jobs), "job"), run, len(b.Jobs)-run-live)
	if live > 0 {
		text += fmt.Sprintf(", %d running now", live)
	}
	fmt.Fprintln(w, text)
	if closed := b.Settings.Hours.Closed(time.Now()); closed != "" {
		fmt.Fprintf(w, "hours: %s: %s\n", b.Settings.Hours, closed)
	}
	if s := &b.Settings; s.Order == "shuffle" && run > 1 {
		how := "new random order in each run (--shuffle-seed N repeats one)"
		if s.ShuffleSeedNamed() {
			how = fmt.Sprintf("random order of seed %d", s.ShuffleSeed)
		}
		fmt.Fprintf(w, "order: shuffle: %s\n", how)
	}
}

// printDetails prints a job's commands, with the job's values filled in, and its needs.
func printDetails(w io.Writer, b *jobspec.Batch, j *jobspec.Job) {
	commands, later := b.Planned(j)
	for _, c := range commands {
		sign := "$"
		for _, line := range strings.Split(strings.TrimRight(c, "\n"), "\n") {
			fmt.Fprintf(w, "          %s %s\n", sign, terminal.CleanText(line))
			sign = " "
		}
	}
	if len(later) > 0 {
		fmt.Fprintf(w, "          (known only when the job starts: %s)\n", strings.Join(later, ", "))
	}
	if n := b.NeedNames(j); len(n) > 0 {
		fmt.Fprintf(w, "          needs %s\n", strings.Join(n, ", "))
	}
	if q := b.QueueName(j.Queue); q != "" {
		fmt.Fprintf(w, "          queue %s\n", q)
	}
}

// maxLooked is the maximum number of jobs that are checked for work done before gpurun was used.
const maxLooked = 10000

// offerDone explains how to record work done before gpurun was used, if there is no ledger but
// there are logs or outputs.
func offerDone(w io.Writer, b *jobspec.Batch) {
	var left []string
	look := files.NewLook()
	for id := range b.Jobs[:min(len(b.Jobs), maxLooked)] {
		if j := &b.Jobs[id]; (j.Spec.HasOutputs || j.Spec.LogNamed) && leftSomething(b, j, look) {
			left = append(left, j.Name)
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(w, "logs or outputs of %s already exist (%s, …); if the jobs are done, record them with: gpurun done --file %s JOB…\n",
			state.Count(len(left), "job"), left[0], b.Files[0].Path)
	}
}

// leftSomething reports whether all outputs of a job exist. If the job has none, it reports whether
// the log that the job file names exists.
func leftSomething(b *jobspec.Batch, j *jobspec.Job, look *files.Search) bool {
	r, err := b.Paths(j, jobspec.Runtime{Attempt: 1})
	if err != nil {
		return false
	}
	if len(r.Outputs) > 0 {
		missing, _ := look.Missing(r.Outputs)
		return missing == ""
	}
	fi, err := os.Stat(r.Stdout)
	return err == nil && fi.Mode().IsRegular() && fi.Size() > 0
}
