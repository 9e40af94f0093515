package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/configcopy"
	"gpurun/runner/engine"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/host"
)

// A preparation prepares the start of an attempt outside the loop, because file systems may be slow
// and there may be gigabytes of inputs to hash.
type preparation struct {
	*Config // the only part of the loop that a preparation uses
	sched.Prepare
	ctx   context.Context
	job   *jobspec.Job
	uniID string
	slot  state.Slot
	dir   string
	first bool // first attempt of this job in this run, so it starts a new log
	port  int
	wall  time.Time
	shell []string // for jobs that specify none
	notes []string // to be printed as warnings
}

func (l *loop) prepare(a sched.Prepare) {
	config := l.Config // a copy, since a reload may change it meanwhile
	p := &preparation{
		Config: &config, Prepare: a, ctx: l.ctx, job: &l.Batch.Jobs[a.Job], shell: l.attempts.shell,
		first: !l.attempts.fresh[a.Job], wall: l.Now().Wall,
	}
	if !l.Does.Places { // otherwise the node chooses the port
		p.port = l.attempts.ports.take()
	}
	if a.Note != "" {
		l.warn(p.job.Name + ": " + a.Note)
	}
	l.use(p.code(), 1)
	l.offload(func() func() {
		began := time.Now()
		at, ev, err := p.run()
		return func() {
			l.warn(p.notes...)
			if err != nil {
				l.attempts.ports.give(p.port)
				l.use(p.code(), -1)
				l.step(l.refused(a, err))
				return
			}
			l.attempts.fresh[a.Job] = true
			l.attempts.live[at.launch.UniID] = at
			stale := ev.Claims != nil && l.readings.stale(began)
			if l.step(ev); stale { // the core must not use claims that are older than the ones it has
				l.readClaims()
			}
		}
	})
}

// run performs the steps that come before the record of a start: slot, claim, rendered commands,
// config file, inputs, log.
func (p *preparation) run() (at *attempt, ev sched.Prepared, err error) {
	if p.uniID, p.slot, err = p.Ledger.NewAttempt(p.job.File, p.Does.Places); err != nil {
		return nil, ev, err
	}
	p.dir = p.Ledger.AttemptDir(p.job.File, p.uniID)
	ev.Job = p.Prepare.Job
	if ev.Claims, err = p.claim(); err == nil {
		if at, ev.Start, err = p.acquireWithRetry(); err != nil {
			withdraw(p.Engine.Claims, p.uniID, p.Grant)
		}
	}
	if err != nil {
		p.Ledger.RemoveAttempt(p.job.File, p.uniID)
	}
	return at, ev, err
}

// claim publishes the attempt's grant and returns the claims of other runs, or nil for an attempt
// without GPUs.
func (p *preparation) claim() ([]gpu.Claim, error) {
	if len(p.Grant.UUIDs) == 0 {
		return nil, nil
	}
	others, warnings, err := p.Engine.Claims.Claim(p.ctx, p.uniID, p.job.Name, p.Grant)
	p.notes = append(p.notes, warnings...)
	if err != nil && !isOutOfSpace(err) {
		// Nothing starts without a claim. The start is retried, as after a lost race.
		p.notes = append(p.notes, fmt.Sprintf("claims: %v", err))
		err = lostRace{err}
	}
	return others, err
}

// gather makes a gathering claim, outside the loop.
func (l *loop) gather(a sched.Gather) {
	l.offload(func() func() {
		others, warnings, err := l.Engine.Claims.Claim(l.ctx, a.UniID, a.Job, a.Grant)
		return func() {
			l.warn(warnings...)
			l.step(sched.Gathered{UniID: a.UniID, Failed: err != nil, Claims: others})
		}
	})
}

// withdraw ends the claim of an attempt that will not be launched.
func withdraw(c engine.Claims, uniID string, g gpu.Grant) {
	if len(g.UUIDs) > 0 && c != nil {
		c.Withdraw(uniID)
	}
}

// A start waits up to a minute for free file descriptors.
const (
	filesPause = 200 * time.Millisecond
	filesTries = int(time.Minute / filesPause)
)

// acquireWithRetry calls acquire, and retries while there are no free file descriptors, which is
// not the job's fault.
func (p *preparation) acquireWithRetry() (*attempt, state.Fact, error) {
	for tries := 0; ; tries++ {
		notes := p.notes
		at, start, err := p.acquire()
		if !host.OutOfFiles(err) || tries == filesTries || p.ctx.Err() != nil {
			return at, start, err
		}
		p.notes = notes
		select {
		case <-time.After(filesPause):
		case <-p.ctx.Done():
		}
	}
}

func (p *preparation) acquire() (*attempt, state.Fact, error) {
	job, own := p.job, p.Ledger.LogPath(p.job.File, p.job.Name)
	rt := jobspec.Runtime{UniID: p.uniID, Attempt: p.Attempt, GPUs: p.Grant.Indices, Port: p.port, Log: own, Started: p.started(), Environ: p.Environ}
	if p.Does.Places {
		rt.Later = engine.Token
	}
	code := p.code()
	if code != nil {
		rt.Copy = code.Map
	}
	r, err := p.Batch.Render(job, rt)
	if err == nil && p.Does.Places {
		err = tooEarly(r)
	}
	if err != nil {
		return nil, state.Fact{}, err
	}
	if r.Config != nil {
		c := p.copyOf(r.Config)
		if code != nil {
			_, c.Own = host.Below(code.Home(), c.Path)
		}
		kept, err := c.Write()
		if err != nil {
			return nil, state.Fact{}, err
		}
		if kept != "" {
			p.notes = append(p.notes, fmt.Sprintf("%s: gpurun did not write %s; its previous content is now in %s", job.Name, c.Path, kept))
		}
	}
	if err := files.MakeFolders(r.WorkDir, r.Outputs); err != nil { // the job itself may be able to create them, for example in a container
		p.notes = append(p.notes, job.Name+": "+err.Error())
	}
	if code != nil {
		if err := code.Link(slices.Concat(written(r.Outputs, r.Metrics), r.Inputs)...); err != nil {
			return nil, state.Fact{}, err
		}
	}
	inputs, err := inputsIn(p.ctx, code, r)
	if missing, is := errors.AsType[*files.NoMatch](err); is {
		err = &files.NoMatch{Pattern: files.Short(r.WorkDir, missing.Pattern)}
	}
	if err != nil {
		return nil, state.Fact{}, err
	}
	if r.Stdout == own {
		// A log path from the job file may be anything, but gpurun's own log must be a regular
		// file.
		if fi, err := os.Lstat(own); err == nil && !fi.Mode().IsRegular() {
			return nil, state.Fact{}, fmt.Errorf("cannot open log %q: not a regular file (remove it)", own)
		}
	}
	out, header, err := openLogs(r, own, p.Attempt, p.first, p.Batch.ClashingLog, p.Ledger.Began(p.job.File), p.wall)
	if err != nil {
		return nil, state.Fact{}, err
	}
	at := &attempt{
		job: p.Prepare.Job, file: job.File, out: out, outputs: r.Outputs, metrics: r.Metrics, reports: job.PruneMetric(), port: p.port,
		curve:  p.Ledger.CurvePath(job.File, p.uniID),
		launch: p.launch(r, header), code: code,
	}
	start := state.Fact{
		UniID: p.uniID, Log: r.Stdout, LogFrom: out[0].From, Commands: p.named(r.Commands), Inputs: inputs, Params: Params(job), Traits: p.Batch.Traits(job),
	}
	if r.Stderr != r.Stdout {
		start.Stderr = r.Stderr
	}
	paths := r.Stdout + r.Stderr
	for _, m := range r.Metrics {
		paths += m.Path
	}
	if strings.Contains(paths, rt.Started) {
		start.Started = rt.Started
	}
	if rt.Port > 0 && strings.Contains(paths, strconv.Itoa(rt.Port)) {
		start.Port = rt.Port
	}
	if p.Does.Places {
		start.Engine = p.Does.Name
	}
	if code != nil {
		at.launch.WorkDir, start.Snapshot = code.Map(r.WorkDir), code.Home()
		at.snapshot = start.Snapshot
		start.Commands = slices.Clone(start.Commands) // the launch shares them
		for i, c := range start.Commands {
			start.Commands[i] = code.Unmap(c)
		}
	}
	return at, start, nil
}

// nodeOnly are the variables that only the node can fill in.
var nodeOnly = []string{"gpu", "gpu_list", "ngpus", "port"}

// named returns the commands with "{name}" in place of the engine's token for each nodeOnly
// variable.
func (p *preparation) named(commands []string) []string {
	if !p.Does.Places {
		return commands
	}
	var pairs []string
	for _, name := range nodeOnly {
		pairs = append(pairs, engine.Token(name), "{"+name+"}")
	}
	names, all := strings.NewReplacer(pairs...), make([]string, len(commands))
	for i, c := range commands {
		all[i] = names.Replace(c)
	}
	return all
}

// tooEarly returns an error if a value depends on the node but is needed before the node is chosen.
func tooEarly(r jobspec.Rendered) error {
	texts := []struct{ what, text string }{
		{"the log", r.Stdout + r.Stderr}, {"work_dir", r.WorkDir}, {"outputs", strings.Join(r.Outputs, " ")},
		{"inputs", strings.Join(r.Inputs, " ")}, {"metrics", strings.Join(written(nil, r.Metrics), " ")},
	}
	if r.Config != nil {
		texts = append(texts, struct{ what, text string }{"the config file", r.Config.Path + string(r.Config.Content)})
	}
	for _, t := range texts {
		for _, name := range nodeOnly {
			if strings.Contains(t.text, engine.Token(name)) {
				return fmt.Errorf("{%s} in %s is not known until the cluster chooses a node: use {uni_id} instead, or move it to the command", name, t.what)
			}
		}
	}
	return nil
}

// started returns the start time of the run, formatted for folder names.
func (p *preparation) started() string {
	if len(p.Starts) == 0 {
		return ""
	}
	return p.Starts[0].Time.Local().Format("20060102-150405")
}

// copyOf returns the job's copy of a config. Only users who can read the job files and the base
// config can read the copy.
func (p *preparation) copyOf(c *jobspec.Config) *configcopy.Copy {
	lock, mode := p.Ledger.ConfigCopy(p.job.File, c.Path)
	if c.ByContent {
		lock = ""
	}
	if fi, err := os.Stat(c.Base); err == nil {
		mode &= 0o600 | fi.Mode()
	}
	return &configcopy.Copy{Path: c.Path, Lock: lock, Mode: mode, Content: c.Content}
}

func (p *preparation) launch(r jobspec.Rendered, header string) engine.Launch {
	job, port, gpus := p.job, strconv.Itoa(p.port), p.Grant.Environ(p.Indexed)
	if p.Does.Places { // the node sets them
		port, gpus = engine.Token("port"), nil
	}
	l := engine.Launch{
		Identity: engine.Identity{UniID: p.uniID, Job: job.Name, Dir: p.dir, Grace: job.Spec.Grace, Grant: p.Grant},
		Command: engine.Command{
			Shell: r.Shell, Commands: r.Commands, WorkDir: r.WorkDir, Cores: p.Cores,
			Env: jobEnviron(p.Environ, job, r, identity{p.uniID, p.Attempt, port, ResultPath(p.dir)}, gpus),
		},
		Output:  engine.Output{Stdout: r.Stdout, Stderr: r.Stderr, Header: header},
		Attempt: p.Attempt, Slot: p.slot, Timeout: p.Timeout, TimeoutSignal: (*engine.TimeoutSignal)(&job.Spec.AtTimeout),
		Request: p.ask(),
		Tree:    job.Spec.Tree, Leftovers: job.Spec.Leftovers, UniFile: p.Batch.Files[job.File].UniID,
	}
	if len(l.Shell) == 0 {
		l.Shell = p.shell
	}
	if r.Config != nil {
		l.Config, l.ConfigLock, l.ConfigSum = r.Config.Path, p.copyOf(r.Config).Lock, configcopy.Sum(r.Config.Content)
	}
	return l
}

// ask returns the job's request to an engine that places attempts itself; nil for other engines.
func (p *preparation) ask() *engine.Request {
	if !p.Does.Places {
		return nil
	}
	s := p.job.Spec
	return &engine.Request{
		GPUs: s.Request.Min, Models: s.Request.Models.List(), GPUMemory: p.Grant.Memory, CPUs: p.Grant.CPUs, Memory: p.Grant.RAM, Priority: s.Priority,
		Strays: slices.Contains(s.Allow, sched.AllowStray), Options: s.Cluster, Limit: s.ClusterTime,
	}
}

// ResultPath returns the value of GPURUN_RESULT: a file in the attempt's folder dir, or next to it
// if there is no such folder.
func ResultPath(dir string) string {
	if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
		return filepath.Join(dir, "result")
	}
	return dir + state.ResultSuffix
}

// Params returns a job's parameters by name.
func Params(j *jobspec.Job) map[string]string {
	m := make(map[string]string, len(j.Params()))
	for _, p := range j.Params() {
		m[p.Name] = p.Text
	}
	return m
}
