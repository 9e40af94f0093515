package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/units"
	"gpurun/runner"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/redact"
	"gpurun/state/schema"
)

type historyCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" optional:"" name:"job" help:"Jobs or globs: show their attempts. Without any, a digest of each run."`
	Since     string   `placeholder:"TIME" help:"Only what ended within this time, e.g. 12h or 2d."`
	JSON      bool     `name:"json" help:"Print it as JSON."`
}

// Help returns the command's description and examples.
func (historyCmd) Help() string {
	return `What happened, by the ledger: when each run began and ended, and why; its jobs, failures that are alike, retries, GPU hours, and the GPU time that it could not use although jobs waited, by whose fault. With jobs, every attempt of theirs, also those of earlier versions of the job file.

Examples:

    gpurun history
    gpurun history --since 2d --file jobs.yaml
    gpurun history 'train-*'`
}

// Run prints the history of a batch.
func (c *historyCmd) Run(a *app) error {
	if err := noFiles(c.Jobs); err != nil {
		return err
	}
	var since time.Time
	if c.Since != "" {
		d, err := units.ParseDuration(c.Since)
		if err != nil {
			return &failure{code: exitUsage, text: "--since: " + err.Error(), err: err}
		}
		since = time.Now().Add(-d)
	}
	refs, err := a.findJobs(c.File, c.Jobs)
	if err != nil {
		return err
	}
	if err := onlyOne(refs, "--file "); err != nil {
		return err
	}
	ref := refs[0]
	p := ref.annals()
	if len(c.Jobs) > 0 {
		return c.attempts(a, ref, p, since)
	}
	rows := redact.Document(p.rows(ref, since), redact.Hiding(p.secrets))
	if c.JSON {
		return writeJSON(a.out, schema.History{Head: schema.At(time.Now()), Batch: batchDoc(ref.batch, ref.dir), Runs: rows})
	}
	var text strings.Builder
	if len(rows) == 0 {
		fmt.Fprintln(&text, ref.name()+": no run to tell of")
	}
	for i := range rows {
		if i > 0 {
			fmt.Fprintln(&text)
		}
		printRun(&text, &rows[i], a.width())
	}
	a.print(text.String())
	return nil
}

// wideEnough is where lines are wrapped that go to no terminal.
const wideEnough = 200

// A chronicle is what the ledgers of a batch tell, and what has become since of the attempts
// that they leave open.
type chronicle struct {
	state.Annals
	after   aftermath
	secrets []string // of the jobs as they are, and of all that have started
}

// annals reads the ledgers of a batch from their beginnings.
func (ref *batchRef) annals() *chronicle {
	ref.unread()
	p := &chronicle{secrets: secretsOf(ref.batch)}
	for i := range ref.files() {
		disk.FromStart(ref.folder(i)).Next(func(seq int64, f state.Fact) {
			p.secrets = append(p.secrets, secretsIn(&f)...)
			p.Add(i, seq, f)
		})
	}
	p.after = ref.settled()
	for r := range ref.history.Records() {
		if p.after.ended[r.UniID] {
			p.Add(r.Ledger, r.EndSeq, r.Fact)
		}
	}
	p.Close()
	return p
}

// secretsIn returns the secrets that an attempt began with, as far as its start has them.
func secretsIn(start *state.Fact) []string {
	return append(redact.Secrets(start.Params), redact.Secrets(start.Traits)...)
}

// rows returns the digests of the runs that were seen since some time.
func (p *chronicle) rows(ref *batchRef, since time.Time) []schema.RunRow {
	rows := []schema.RunRow{}
	for i, e := range p.Runs {
		alive := ref.alive && i == len(p.Runs)-1
		if !alive && e.Last.Before(since) {
			continue
		}
		rows = append(rows, p.row(i+1, e, alive))
	}
	return rows
}

func (p *chronicle) row(n int, e *state.Episode, alive bool) schema.RunRow {
	row := schema.RunRow{
		N: n, ID: schema.Known(e.Run.RunID), Params: e.Run.Params,
		Started: e.Run.Time.UTC(), LastSeen: e.Last.UTC(), Host: e.Run.Host, Git: schema.GitOf(&e.Run), Sim: schema.Known(e.Run.Sim),
		Driver: schema.Known(e.Run.Driver), GPUs: schema.Known(e.Run.Usable), Attempts: e.Starts, Retries: e.Retries, Lost: []schema.Loss{},
	}
	switch {
	case alive:
		row.Why = "running"
	case e.Over.Kind != "":
		row.Ended, row.Exit, row.Why = schema.Time(e.Over.Time), e.Over.ExitCode, e.Over.Why
	default:
		row.Why = "killed, or the machine went down: it recorded no end"
	}
	type job struct {
		ledger int
		key    string
	}
	last := map[job]*state.Exploit{}
	var order []job
	var mine []*state.Exploit
	for _, x := range p.Attempts {
		if x.Open != nil || x.Recorded != e {
			continue
		}
		mine = append(mine, x)
		at := job{x.Ledger, x.Key}
		if last[at] == nil {
			order = append(order, at)
		}
		last[at] = x
	}
	counts := map[state.Phase]int{}
	var alike state.Grouping
	for _, at := range order {
		x := last[at]
		if counts[x.State]++; x.State.Bad() {
			f := x.Failure()
			f.Reason = f.Cause() + f.Ending()
			alike.Add(x.Job, x.Log, f)
		}
	}
	for _, x := range p.Attempts {
		if x.Open != nil && x.Began == e {
			counts[state.Running]++
		}
	}
	row.Counts, row.GPUSeconds = schema.CountsOf(counts), state.GPUSeconds(mine)
	row.Alike = schema.AlikeOf(alike.Groups[:min(len(alike.Groups), maxAlikeRows)])
	rest := e.Last.Sub(e.Run.Time).Seconds()*float64(e.Run.Usable) - row.GPUSeconds
	for _, l := range e.Lost {
		row.Lost = append(row.Lost, schema.Loss{Code: l.Code, User: schema.Known(l.User), Seconds: l.Seconds})
		rest -= l.Seconds
	}
	if e.Run.Usable > 0 {
		rest = max(0, rest)
		row.Idle = &rest
	}
	return row
}

// maxAlikeRows is how many kinds of failures of a run are told apart.
const maxAlikeRows = 10

// printRun writes the digest of a run.
func printRun(w io.Writer, r *schema.RunRow, width int) {
	head := fmt.Sprintf("run %d of %s", r.N, localTime(r.Started))
	switch {
	case r.Ended != nil:
		head += fmt.Sprintf(" to %s (%s): exit status %d, %s", untilTime(r.Started, *r.Ended), terminal.Duration(r.Ended.Sub(r.Started)), *r.Exit, r.Why)
	default:
		head += fmt.Sprintf(", last seen at %s: %s", untilTime(r.Started, r.LastSeen), r.Why)
	}
	line := func(indent int, text string) {
		printLines(w, terminal.Wrap(strings.Repeat(" ", indent)+terminal.CleanText(text), width, indent+2))
	}
	line(0, head)
	if len(r.Params) > 0 {
		line(2, "with"+paramFlags(r.Params))
	}
	var parts []string
	for _, s := range schema.States {
		if n := r.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no job ended"}
	}
	line(2, fmt.Sprintf("%s; %s, %s; %s GPU hours", strings.Join(parts, ", "), count(r.Attempts, "attempt"), count(r.Retries, "retry"), hourWords(r.GPUSeconds)))
	for _, f := range r.Alike {
		which := ""
		if f.Count > 1 {
			which = fmt.Sprintf("%d alike: ", f.Count)
		}
		line(2, fmt.Sprintf("%s%s: %s (%s)", which, f.Cause.Code, f.Cause.Text, jobWords(f.Jobs, 5, f.Count)))
	}
	for _, l := range r.Lost {
		if l.Seconds >= leastLoss {
			line(2, fmt.Sprintf("lost %s GPU hours to %s (%s)", hourWords(l.Seconds), lossWords(&l), l.Code))
		}
	}
}

// leastLoss is what people are told of, in GPU seconds.
const leastLoss = 18

// lossWords says to whom or what GPU time was lost.
func lossWords(l *schema.Loss) string {
	switch {
	case l.User != nil:
		return *l.User
	case l.Code == gpu.Limit:
		return "limits"
	case l.Code == gpu.Quarantined || l.Code == gpu.SilentNow:
		return "faulty GPUs"
	}
	return "others"
}

// jobWords names at most so many jobs of a number: the first.
func jobWords(names []string, most, all int) string {
	s := strings.Join(names[:min(len(names), most)], ", ")
	if all > most {
		s += fmt.Sprintf(" and %d more", all-most)
	}
	return s
}

func localTime(t time.Time) string { return t.Local().Format(time.DateTime) }

// untilTime returns a time that stands beside another, without the date if that is the same.
func untilTime(from, t time.Time) string {
	if from.Local().Format(time.DateOnly) == t.Local().Format(time.DateOnly) {
		return t.Local().Format(time.TimeOnly)
	}
	return t.Local().Format(time.DateTime)
}

// attempts prints the attempts of the jobs that the arguments mean.
func (c *historyCmd) attempts(a *app, ref *batchRef, p *chronicle, since time.Time) error {
	known := names(len(ref.batch.Jobs), func(id int) string { return ref.batch.Jobs[id].Name })
	present := ref.present()
	for _, x := range p.Attempts {
		known = append(known, x.Job)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	ids, err := runner.MatchJobs(c.Jobs, len(known), func(i int) string { return known[i] })
	if none := runner.NoMatch(""); errors.As(err, &none) {
		return noSuchJob(ref.file, string(none), known)
	}
	meant := map[string]bool{}
	for _, id := range ids {
		meant[known[id]] = true
	}
	now, rows, endings := time.Now(), []schema.AttemptRow{}, []string{}
	for _, x := range p.Attempts {
		if (meant[x.Job] || meant[present(x.Ledger, x.Key)]) && (x.Open != nil || !x.Time.Before(since)) {
			rows = append(rows, p.attempt(ref, x, now))
			endings = append(endings, x.Failure().Ending())
		}
	}
	rows = redact.Document(rows, redact.Hiding(p.secrets))
	if c.JSON {
		return writeJSON(a.out, schema.History{Head: schema.At(now), Batch: batchDoc(ref.batch, ref.dir), Attempts: rows})
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.out, "no attempts of "+strings.Join(c.Jobs, ", "))
		return nil
	}
	cells := [][]string{{"JOB", "ATTEMPT", "STATE", "STARTED", "ENDED", "TIME", "GPU", "CAUSE"}}
	for i := range rows {
		cells = append(cells, attemptCells(&rows[i], endings[i]))
	}
	table(a.out, cells)
	return nil
}

// attempt describes one attempt.
func (p *chronicle) attempt(ref *batchRef, x *state.Exploit, now time.Time) schema.AttemptRow {
	row := schema.AttemptRow{File: ref.files()[x.Ledger], Job: x.Job, Key: x.Key}
	if x.Open != nil {
		row.Attempt = *schema.Open(x.Open, now)
		if f := p.after.found[x.UniID]; f.PID != 0 {
			row.PID = schema.Known(f.PID)
		}
	} else {
		row.Attempt = *schema.Ended(&x.Record)
		row.Meanwhile = p.after.ended[x.UniID]
	}
	if x.Began != nil {
		row.Host = schema.Known(x.Began.Run.Host)
	}
	return row
}

func attemptCells(r *schema.AttemptRow, ending string) []string {
	started, ended, took, cause := "never", "", "", ""
	if r.Started != nil {
		started = localTime(*r.Started)
	}
	if r.Ended != nil {
		ended = localTime(*r.Ended)
	}
	if r.Seconds != nil {
		took = terminal.Seconds(*r.Seconds)
	}
	if r.Cause != nil {
		cause = fmt.Sprintf("%s: %s", r.Cause.Code, terminal.CleanText(r.Cause.Text)) + ending
	}
	var gpus []int
	for _, g := range r.GPUs {
		gpus = append(gpus, g.Index)
	}
	return []string{terminal.CleanText(r.Job), fmt.Sprint(r.N), string(r.State), started, ended, took, strings.TrimPrefix(gpu.List(gpus), "GPU "), cause}
}
