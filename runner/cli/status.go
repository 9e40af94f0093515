package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"time"

	"gpurun/gpu"
	"gpurun/runner/control"
	"gpurun/runner/terminal"
	"gpurun/state"
)

type statusCmd struct {
	Path  string `arg:"" optional:"" name:"file" help:"The job file, instead of the batch that runs in this folder, or ran last here."`
	File  string `placeholder:"FILE" help:"The same, as a flag."`
	Watch bool   `short:"w" help:"Show it live, until Ctrl-C; that stops nothing."`
	JSON  bool   `name:"json" help:"Print it as JSON."`
}

// Help shows how the command is used.
func (statusCmd) Help() string {
	return `Whether or not a run is alive: without one, what its ledger says.

Examples:

    gpurun status
    gpurun status -w
    gpurun status --json jobs.yaml | jq .counts`
}

// A status is what is known of a batch at one moment, and what --json prints.
type status struct {
	File     string              `json:"file"`
	Alive    bool                `json:"alive"`            // a run holds the lock
	Silent   string              `json:"silent,omitempty"` // why that run says nothing itself
	At       time.Time           `json:"time"`
	Total    int                 `json:"total"`
	Counts   map[state.Phase]int `json:"counts"`
	Running  []running           `json:"running"`
	Waiting  []running           `json:"waiting_for_retry,omitempty"`
	Head     string              `json:"head,omitempty"`
	HeadWhy  string              `json:"head_waits_for,omitempty"`
	Kept     string              `json:"kept,omitempty"`
	Queues   []queue             `json:"queues,omitempty"`
	Draining string              `json:"draining,omitempty"`
	Failures []failed            `json:"failures"`

	snap state.Snapshot
}

type running struct {
	Job     string     `json:"job"`
	UniID   string     `json:"uni_id,omitempty"`
	Attempt int        `json:"attempt"`
	GPUs    []int      `json:"gpus"`
	Memory  gpu.Bytes  `json:"memory_bytes"`
	Used    gpu.Bytes  `json:"memory_used_bytes"`
	PID     int        `json:"pid,omitempty"`
	Started *time.Time `json:"started,omitempty"`
	NextAt  *time.Time `json:"next_attempt,omitempty"`
	Stop    string     `json:"stopping,omitempty"`
	Log     string     `json:"log,omitempty"`
}

type queue struct {
	Name string `json:"name"`
	Busy string `json:"running,omitempty"`
	Left int    `json:"left"`
}

type failed struct {
	Job      string      `json:"job"`
	State    state.Phase `json:"state"`
	ExitCode *int        `json:"exit_code,omitempty"`
	Signal   string      `json:"signal,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	Ended    time.Time   `json:"ended"`
	Log      string      `json:"log,omitempty"`
}

// Run shows the status, once or live: of each batch that runs in this folder, or
// of the one that ran last.
func (c *statusCmd) Run(a *app) error {
	file := c.Path
	if file == "" {
		file = c.File
	}
	refs, err := a.find(file, toShow)
	if err != nil {
		return err
	}
	if c.Watch {
		if len(refs) > 1 {
			return &failure{code: exitUsage, text: fmt.Sprintf("%d batches are running here: ", len(refs)) + names(refs), hint: "name one of them: gpurun status -w " + refs[0].file}
		}
		if err := a.watchStatus(refs[0]); err != nil {
			return err
		}
	}
	all := make([]status, 0, len(refs))
	for i, ref := range refs {
		if err := ref.read(a); err != nil {
			return err
		}
		s := statusOfBatch(ref)
		all = append(all, s)
		if c.JSON {
			continue
		}
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		s.print(a.out, time.Now())
	}
	switch {
	case !c.JSON:
		return nil
	case len(all) == 1:
		return writeJSON(a.out, all[0])
	}
	return writeJSON(a.out, all)
}

// statusOfBatch asks the run, and reads the ledger for what the run does not
// say, or for everything when there is none.
func statusOfBatch(ref *batchRef) status {
	s := status{File: ref.name(), Alive: ref.alive, At: time.Now().UTC()}
	rep, err := ref.ask(control.Request{Op: control.OpStatus})
	switch {
	case err == nil && rep.Snapshot != nil:
		s.Alive, s.snap = true, *rep.Snapshot
	default:
		s.snap = lastSnapshot(ref)
		if s.Alive {
			s.Silent = err.Error()
		}
	}
	s.fill()
	s.Failures = failures(ref, s.snap)
	return s
}

func (s *status) fill() {
	s.Total, s.Counts = s.snap.Total, s.snap.Counts
	s.Running, s.Waiting = views(s.snap.Running), views(s.snap.Waiting)
	s.HeadWhy, s.Kept, s.Draining = s.snap.HeadWhy, s.snap.Kept, s.snap.Draining
	if s.snap.Head != nil {
		s.Head = s.snap.Head.Job
	}
	for _, q := range s.snap.Queues {
		s.Queues = append(s.Queues, queue{q.Name, q.Busy, q.Left})
	}
}

func views(vs []state.View) []running {
	out := []running{}
	for _, v := range vs {
		r := running{Job: v.Job, UniID: v.UniID, Attempt: v.Attempt, GPUs: v.GPUs, Memory: v.Memory, Used: v.Used, PID: v.PID, Stop: v.Stop, Log: v.Log}
		if !v.Started.IsZero() {
			r.Started = &v.Started
		}
		if !v.NextAt.IsZero() {
			r.NextAt = &v.NextAt
		}
		if r.GPUs == nil {
			r.GPUs = []int{}
		}
		out = append(out, r)
	}
	return out
}

// lastSnapshot is what the ledger alone says: no run is there.
func lastSnapshot(ref *batchRef) state.Snapshot {
	h := ref.history
	s := state.Snapshot{Counts: map[state.Phase]int{}}
	open := map[string]bool{}
	for _, at := range h.Attempts() {
		v := state.View{
			Job: at.Start.Job, ID: -1, UniID: at.Start.UniID, Attempt: at.Start.Attempt, Phase: state.Running, Started: at.Start.Time,
			GPUs: at.Start.GPUs, Memory: at.Start.Memory, Used: -1, Log: at.Start.Log, Stop: at.Stop,
		}
		if at.Running != nil {
			v.PID = at.Running.PID
		}
		s.Running = append(s.Running, v)
		open[at.Start.Job] = true
	}
	if ref.batch == nil {
		for r := range h.Records() {
			s.Total++
			s.Counts[r.State]++
		}
		return s
	}
	s.Total = len(ref.batch.Jobs)
	for id := range ref.batch.Jobs {
		j := &ref.batch.Jobs[id]
		r := recordOf(ref, id)
		switch {
		case open[j.Name]:
			s.Counts[state.Running]++
		case r == nil || r.Forgotten:
			s.Counts[state.Pending]++
		default:
			s.Counts[r.State]++
		}
	}
	return s
}

// recordOf is the last end of a job: of what it does now, else of what a job of
// its name did.
func recordOf(ref *batchRef, id int) *state.Record {
	j := &ref.batch.Jobs[id]
	if r := ref.history.Of(0, j.Key.String()); r != nil {
		return r
	}
	return ref.history.Named(0, j.Name)
}

// failures are the jobs whose last end was no success and that do not run now.
func failures(ref *batchRef, snap state.Snapshot) []failed {
	out := []failed{}
	now := map[string]bool{}
	for _, v := range append(snap.Running, snap.Waiting...) {
		now[v.Job] = true
	}
	add := func(name string, r *state.Record) {
		if r != nil && !r.Forgotten && !now[name] && r.State != state.Succeeded {
			out = append(out, failed{name, r.State, r.ExitCode, r.Signal, r.Reason, r.End, r.Log})
		}
	}
	if ref.batch != nil {
		for id := range ref.batch.Jobs {
			add(ref.batch.Jobs[id].Name, recordOf(ref, id))
		}
		return out
	}
	for r := range ref.history.Records() {
		add(r.Job, r)
	}
	sort.Slice(out, func(i, k int) bool { return out[i].Ended.Before(out[k].Ended) })
	return out
}

// maxFailuresShown bounds what a person reads; --json has all.
const maxFailuresShown = 50

// print writes the status for people.
func (s *status) print(w io.Writer, now time.Time) {
	alive := "no run goes on"
	if s.Alive {
		alive = "running"
	}
	fmt.Fprintf(w, "%s: %s; %s\n", s.File, alive, terminal.Phases(s.Counts))
	if len(s.Running) > 0 {
		rows := [][]string{{"  RUNNING", "GPU", "MEMORY", "TIME", "PID"}}
		for _, r := range s.Running {
			rows = append(rows, r.cells(now))
		}
		table(w, rows)
		if !s.Alive {
			fmt.Fprintln(w, "these were running when the last run ended; the next gpurun of this file finds out what has become of them")
		}
	}
	for _, r := range s.Waiting {
		fmt.Fprintf(w, "  %s: attempt %d in %s\n", terminal.CleanText(r.Job), r.Attempt, terminal.Duration(r.NextAt.Sub(now)))
	}
	if s.Head != "" {
		fmt.Fprintf(w, "%s waits: %s\n", terminal.CleanText(s.Head), terminal.CleanText(s.HeadWhy))
	}
	for _, line := range []string{s.Kept, prefixed("nothing more starts: ", s.Draining)} {
		if line != "" {
			fmt.Fprintln(w, terminal.CleanText(line))
		}
	}
	s.printQueues(w)
	s.printFailures(w)
}

func (r running) cells(now time.Time) []string {
	gpus, mem, pid, age := "CPU", "", "", "starting"
	if len(r.GPUs) > 0 {
		gpus = strings.Trim(strings.ReplaceAll(fmt.Sprint(r.GPUs), " ", ","), "[]")
		mem = memoryWords(r.Used) + " of " + memoryWords(r.Memory*gpu.Bytes(len(r.GPUs)))
	}
	if r.PID > 0 {
		pid = fmt.Sprint(r.PID)
	}
	if r.Started != nil {
		age = terminal.Duration(now.Sub(*r.Started))
	}
	return []string{"  " + terminal.CleanText(r.Job), gpus, mem, age, pid}
}

func (s *status) printQueues(w io.Writer) {
	var rows [][]string
	for _, q := range s.Queues {
		busy := "idle"
		if q.Busy != "" {
			busy = "busy: " + terminal.CleanText(q.Busy)
		}
		rows = append(rows, []string{"  queue " + terminal.CleanText(q.Name), busy, fmt.Sprintf("%d left", q.Left)})
	}
	table(w, rows)
}

func (s *status) printFailures(w io.Writer) {
	rows := [][]string{}
	for i, f := range s.Failures {
		if i == maxFailuresShown {
			rows = append(rows, []string{fmt.Sprintf("  … and %d more", len(s.Failures)-i)})
			break
		}
		why := terminal.Ending(state.Fact{ExitCode: f.ExitCode, Signal: f.Signal, Reason: f.Reason})
		rows = append(rows, []string{"  " + string(f.State), terminal.CleanText(f.Job), why, terminal.CleanText(f.Log)})
	}
	table(w, rows)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// watchStatus shows a run live until it ends or Ctrl-C.
func (a *app) watchStatus(ref *batchRef) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	painter := terminal.NewPainter(a.out, a.redraws(), terminalSize)
	for {
		rep, err := ref.ask(control.Request{Op: control.OpStatus})
		if errors.Is(err, control.ErrNoRun) {
			return painter.Draw(nil)
		}
		if err != nil {
			return &failure{code: exitState, text: "the run does not answer: " + err.Error(), err: err}
		}
		frame := terminal.Frame{Snap: *rep.Snapshot, Now: time.Now(), ETA: -1, Color: a.outTTY && a.colored(), Last: map[string]string{}}
		for _, v := range frame.Snap.Running {
			frame.Last[v.UniID] = terminal.LastLine(v.Log)
		}
		if err := painter.Draw(frame.Rows(terminalSize())); err != nil {
			return quiet(exitDone) // nobody looks any more
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}
