package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gpurun/jobspec"
	"gpurun/runner/configcopy"
	"gpurun/runner/engine"
	"gpurun/runner/files"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
)

// prepared is a Prepared on its way to the core, with its attempt.
type prepared struct {
	sched.Event
	attempt *attempt
	event   sched.Event
}

// prepare sets up everything a start needs, outside the loop: it uses the file
// system, which may be slow, and may hash gigabytes of inputs.
func (l *loop) prepare(a sched.Prepare) {
	first := !l.fresh[a.Job]
	port := l.ports.take()
	wall := l.Now().Wall
	if a.Note != "" {
		l.warn([]string{l.Batch.Jobs[a.Job].Name + ": " + a.Note})
	}
	l.Go(func() {
		ev, warnings := l.makeReady(a, first, port, wall)
		if _, ok := ev.(prepared); !ok {
			l.ports.give(port)
		}
		select {
		case l.inbox <- withWarnings(ev, warnings):
		case <-l.ctx.Done():
		}
	})
}

// makeReady performs a start's steps up to its record: folder, claim, rendered
// commands, config file, inputs, log.
func (l *loop) makeReady(a sched.Prepare, first bool, port int, wall time.Time) (sched.Event, []string) {
	job := &l.Batch.Jobs[a.Job]
	uniID, dir, err := l.Ledger.NewAttempt(job.File)
	if err != nil {
		return refused(a.Job, err), nil
	}
	others, warnings, err := l.claim(uniID, job.Name, a.Grant)
	if err != nil {
		l.Ledger.RemoveAttempt(job.File, uniID)
		if !errors.As(err, new(rival)) {
			return refused(a.Job, err), warnings
		}
		return sched.PrepareFailed{Job: a.Job, Reason: err.Error(), Rival: true}, warnings
	}
	at, start, notes, err := l.furnish(a, job, uniID, dir, first, port, wall)
	for tries := 0; outOfFiles(err) && tries < filesTries && l.ctx.Err() == nil; tries++ {
		select { // not the job's fault; descriptors will be freed
		case <-time.After(filesPause):
		case <-l.ctx.Done():
		}
		at, start, notes, err = l.furnish(a, job, uniID, dir, first, port, wall)
	}
	warnings = append(warnings, notes...)
	if err != nil {
		l.withdraw(uniID, a.Grant)
		l.Ledger.RemoveAttempt(job.File, uniID)
		return refused(a.Job, err), warnings
	}
	ev := sched.Prepared{Job: a.Job, Start: start, Claims: others}
	return prepared{Event: ev, attempt: at, event: ev}, warnings
}

func (l *loop) furnish(a sched.Prepare, job *jobspec.Job, uniID, dir string, first bool, port int, wall time.Time) (at *attempt, start state.Fact, notes []string, err error) {
	fail := func(err error) (*attempt, state.Fact, []string, error) { return nil, state.Fact{}, notes, err }
	r, err := l.Batch.Render(job, jobspec.Runtime{
		UniID: uniID, Attempt: a.Attempt, GPUs: a.Grant.Indices, Port: port,
		Log: l.Ledger.LogPath(job.File, job.Name),
	})
	if err != nil {
		return fail(err)
	}
	if r.Config != nil {
		if err := configcopy.Write(r.Config.Path, r.Config.Content, r.Config.ByContent); err != nil {
			return fail(err)
		}
	}
	if err := files.MakeFolders(r.WorkDir, r.Outputs); err != nil { // the job itself may be able to, for example in a container
		notes = append(notes, job.Name+": "+err.Error())
	}
	inputs, err := files.Inputs(l.ctx, r.Inputs)
	var missing *files.NoMatch
	if errors.As(err, &missing) {
		err = &files.NoMatch{Pattern: files.Short(r.WorkDir, missing.Pattern)}
	}
	if err != nil {
		return fail(err)
	}
	shell := r.Shell
	if len(shell) == 0 {
		shell = l.shell
	}
	own := l.Ledger.LogPath(job.File, job.Name)
	if r.Stdout == own {
		// Logs that the job file names are opened as they are, but this is gpurun's own.
		if fi, err := os.Lstat(own); err == nil && !fi.Mode().IsRegular() {
			return fail(fmt.Errorf("cannot open log %q: not a regular file: remove it", own))
		}
	}
	parts, header, err := openLogs(r, own, a.Attempt, first, l.Batch.ClashingLog, wall)
	if err != nil {
		return fail(err)
	}
	l.fresh[a.Job] = true // no race: only this goroutine uses it while the job is prepared
	at = &attempt{
		job: a.Job, file: job.File, uniID: uniID, name: job.Name, dir: dir, out: parts, outputs: r.Outputs, grant: a.Grant, port: port,
		launch: engine.Launch{
			UniID: uniID, Job: job.Name, Attempt: a.Attempt, Dir: dir,
			Shell: shell, Commands: r.Commands, WorkDir: r.WorkDir,
			Env:    jobEnviron(l.inherited, job, r, identity{uniID, a.Attempt, port, resultPath(dir)}, a.Grant, l.Indexed),
			Stdout: r.Stdout, Stderr: r.Stderr, Header: header,
			Timeout: job.Spec.Timeout, Grace: job.Spec.Grace,
			Tree: job.Spec.Tree, Leftovers: job.Spec.Leftovers, UniFile: l.Batch.Files[job.File].UniID, Grant: a.Grant,
		},
	}
	if r.Config != nil {
		at.launch.Config, at.launch.ConfigSum = r.Config.Path, configcopy.Sum(r.Config.Content)
	}
	start = state.Fact{
		UniID: uniID, Log: r.Stdout, Commands: r.Commands, Inputs: inputs, Params: params(job), Traits: l.Batch.Traits(job),
	}
	return at, start, notes, nil
}

// resultPath returns the value of GPURUN_RESULT, a file in the attempt's folder.
func resultPath(dir string) string { return filepath.Join(dir, "result") }

func params(j *jobspec.Job) map[string]string {
	if len(j.Params()) == 0 {
		return nil
	}
	m := make(map[string]string, len(j.Params()))
	for _, p := range j.Params() {
		m[p.Name] = p.Text
	}
	return m
}

// A logPart is where one attempt's output begins in its log files.
type logPart struct {
	stdout, stderr         string
	fromStdout, fromStderr int64
}

// openLogs makes room for an attempt's output. A run's first attempt starts a new
// log; a retry appends after a header line, which is returned. own is where gpurun keeps
// the log of a job that names none.
func openLogs(r jobspec.Rendered, own string, n int, first bool, isLog func(string) bool, wall time.Time) (logPart, string, error) {
	p := logPart{stdout: r.Stdout, stderr: r.Stderr}
	var err error
	if p.fromStdout, err = openLog(r.Stdout, own, first, isLog); err != nil {
		return p, "", err
	}
	if p.fromStderr = p.fromStdout; r.Stderr != r.Stdout {
		if p.fromStderr, err = openLog(r.Stderr, own, first, isLog); err != nil {
			return p, "", err
		}
	}
	if (first || n == 1) && p.fromStdout == 0 && p.fromStderr == 0 {
		return p, "", nil // the log is empty, even if an attempt that lost a race for its GPU created it
	}
	return p, fmt.Sprintf("--- attempt %d, %s ---\n", n, wall.Local().Format("2006-01-02 15:04:05")), nil
}

// openLog returns the offset at which output begins in one log.
func openLog(path, own string, first bool, isLog func(string) bool) (int64, error) {
	if first && !isLog(path+".1") { // else the old log would overwrite another job's
		empty, err := disk.FreshLog(path, path == own)
		if err != nil {
			return 0, fmt.Errorf("cannot start new log %q: %w", path, err)
		}
		if empty {
			return 0, nil
		}
	}
	return size(path), nil
}

func size(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return 0
	}
	return fi.Size()
}

// discard releases everything held by a prepared attempt that will not start.
func (l *loop) discard(uniID string) {
	at := l.live[uniID]
	if at == nil {
		return
	}
	delete(l.live, uniID)
	l.withdraw(uniID, at.grant)
	l.releasePort(at)
	l.Ledger.RemoveAttempt(at.file, uniID)
}

// start launches a prepared attempt once the ledger has its start.
func (l *loop) start(a sched.Launch) {
	at := l.live[a.UniID]
	if l.dropped[a.UniID] {
		delete(l.dropped, a.UniID)
		l.discard(a.UniID)
		l.unstarted[a.UniID] = true
		l.later(sched.Ended{UniID: a.UniID, ExitCode: -1, At: l.Now().Wall, Lost: true, Void: true, Err: "its start could not be recorded"})
		return
	}
	l.Engine.Launch(at.launch)
}

// adopt asks the engine about an attempt of an earlier run.
func (l *loop) adopt(a state.Attempt) {
	at := adopted(l.Batch, l.jobOf(a), &a, l.Ledger.AttemptDir(a.Ledger, a.Start.UniID))
	l.live[at.uniID] = at
	l.out.started(a.Start)
	ask := engine.Attempt{UniID: at.uniID, Job: a.Start.Job, Dir: at.dir, Started: a.Start.Time, Grace: 10 * time.Second, Grant: at.grant}
	if at.job >= 0 {
		ask.Grace = l.Batch.Jobs[at.job].Spec.Grace
	}
	if a.Running != nil {
		ask.PID, ask.PIDStart = a.Running.PID, a.Running.PIDStart
	}
	l.Engine.Adopt(ask)
}

// A fileKey is a key in one file; two files may have identical jobs.
type fileKey struct {
	file int
	key  string
}

// jobOf returns the job of this batch that an attempt belongs to, or -1.
func (l *loop) jobOf(a state.Attempt) int {
	if l.byKey == nil {
		l.byKey = make(map[fileKey]int)
		for i := range l.Batch.Jobs {
			j := &l.Batch.Jobs[i]
			l.byKey[fileKey{j.File, j.Key.String()}] = i
		}
	}
	if id, ok := l.byKey[fileKey{a.Ledger, a.Start.Key}]; ok {
		return id
	}
	return -1
}
