package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"al.essio.dev/pkg/shellescape"

	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/control"
	"gpurun/runner/engine/procs"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/schema"
)

// A follower prints a job's log as it grows, across attempts, until the job ends.
type follower struct {
	*app
	ref    *batches.Ref
	only   string // the given job file, symlinks resolved; "" for any file of the batch
	out    io.Writer
	job    string
	l      jobLog      // the attempt whose log is shown; its uniID is "" before the first
	leader procs.ID    // the attempt's process; the zero ID if unknown
	file   *os.File    // the attempt's log; nil before the first
	waited state.Phase // state for which a message was last printed
	phase  state.Phase // the job's phase in the run's last answer; "" if unknown
}

// follow prints the log of the selected job until the job ends or the user presses Ctrl-C, which
// does not stop the job. none is the error to return if no log matches yet.
func (c *logCmd) follow(a *app, ref *batches.Ref, logs []jobLog, none error) error {
	f := &follower{app: a, ref: ref, only: c.only(ref)}
	if len(logs) > 1 && !slices.ContainsFunc(logs, func(l jobLog) bool { return l.job != logs[0].job }) {
		logs = []jobLog{newestOf(logs)} // files of a batch may have jobs of the same name
	}
	switch {
	case len(logs) > 1:
		return &batches.Failure{Code: batches.ExitUsage, Text: fmt.Sprintf("-f follows one job, but %d match", len(logs)), Hint: "name one of them: " + logs[0].job}
	case len(logs) == 1:
		f.job = logs[0].job
	default:
		if f.job = c.onlyJob(ref); f.job == "" {
			return none
		}
		if _, err := ref.Ask(control.Request{Op: control.OpStatus}); errors.Is(err, control.ErrNoRun) {
			return &batches.Failure{Code: batches.ExitUsage, Text: f.job + " has not run yet, and " + ref.File + " is not running", Hint: "gpurun " + shellescape.Quote(ref.File) + " runs it"}
		}
	}
	var flush func()
	f.out, flush = c.writer(a, a.out)
	defer flush()
	defer func() { f.file.Close() }()
	if len(logs) == 1 {
		if at := ref.History.Open[logs[0].uniID]; at != nil && at.Running != nil {
			f.leader = procs.ID{PID: at.Running.PID, Start: at.Running.PIDStart}
		}
		if err := f.switchTo(logs[0]); err != nil {
			return err
		}
	}
	return ignorePipe(f.run())
}

// onlyJob returns the name of the selected job, or "" unless there is exactly one.
func (c *logCmd) onlyJob(ref *batches.Ref) string {
	if ref.Batch == nil {
		return ""
	}
	name := func(id int) string { return ref.Batch.Jobs[id].Name }
	ids, err := runner.MatchJobs(c.Jobs, len(ref.Batch.Jobs), name)
	if err != nil || slices.ContainsFunc(ids, func(id int) bool { return name(id) != name(ids[0]) }) {
		return ""
	}
	return name(ids[0])
}

// followEvery is how often a log is checked for new output.
const followEvery = 250 * time.Millisecond

func (f *follower) run() error {
	return f.poll(followEvery, func() (over bool, err error) {
		// Ask for the state before reading, so that output just before the end is not missed.
		next, over := f.ask()
		if over {
			return true, f.printRest()
		}
		if err := f.switchTo(next); err != nil {
			return false, err
		}
		return false, f.print()
	})
}

// poll calls f repeatedly until f returns true or an error, or a signal arrives.
func (a *app) poll(every time.Duration, f func() (over bool, err error)) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	for {
		if over, err := f(); over || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// ask returns the attempt that is running now, and whether the job has ended.
func (f *follower) ask() (now jobLog, over bool) {
	rep, err := f.ref.Ask(control.Request{Op: control.OpStatus, File: f.only, Jobs: []string{f.job}})
	if err != nil {
		return jobLog{}, errors.Is(err, control.ErrNoRun) && !procs.Alive(f.leader)
	}
	if len(rep.Jobs) == 0 { // no longer in the batch
		return jobLog{}, !slices.ContainsFunc(rep.Status.Jobs, f.shows)
	}
	j := slices.MinFunc(rep.Jobs, func(a, b *schema.Job) int { return cmp.Compare(f.rank(a), f.rank(b)) })
	f.phase = j.State
	f.printWait(j, rep.Status.Now)
	switch a := j.Attempt; {
	case j.State == state.Running && a != nil && a.UniID != nil:
		if pid := schema.Value(a.PID); pid != f.leader.PID {
			p, _ := procs.One(pid)
			f.leader = procs.ID{PID: pid, Start: p.Start}
		}
		return jobLog{job: j.Name, uniID: *a.UniID, path: schema.Value(a.Log).Path, attempt: a.N, open: true}, false
	case j.State == state.Waiting && f.l.attempt < j.Attempts:
		return f.newest(), false // the attempt failed between two polls
	}
	return jobLog{}, j.State == "" || j.State.Ended()
}

// shows reports whether the job is the one being shown.
func (f *follower) shows(j *schema.Job) bool {
	return j.Attempt != nil && j.Attempt.UniID != nil && *j.Attempt.UniID == f.l.uniID
}

// rank orders jobs with the same name, which different files of a batch may have: first the job
// being shown, then running jobs, then jobs that may still run.
func (f *follower) rank(j *schema.Job) int {
	switch {
	case f.shows(j):
		return 0
	case j.State == state.Running:
		return 1
	case j.State != "" && !j.State.Ended():
		return 2
	}
	return 3
}

// printWait prints what the job is waiting for, once for each state.
func (f *follower) printWait(j *schema.Job, now time.Time) {
	if j.State == f.waited || j.State != state.Pending && j.State != state.Waiting {
		return
	}
	f.waited = j.State
	text := f.job + " has not started yet"
	switch {
	case j.State == state.Waiting && j.Wait != nil && j.Wait.Until != nil:
		text = fmt.Sprintf("attempt %d of %s starts in %s", j.Attempts+1, f.job, terminal.Duration(j.Wait.Until.Sub(now)))
	case j.Wait != nil:
		text += ": " + j.Wait.Text
	}
	fmt.Fprintln(f.Err, "gpurun: waiting: "+terminal.CleanText(text))
}

func (f *follower) print() error {
	if f.file == nil {
		return nil
	}
	at, err1 := f.file.Seek(0, io.SeekCurrent)
	fi, err2 := f.file.Stat()
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	if fi.Size() < at {
		f.say("note", "the log of "+f.job+" was truncated")
		if _, err := f.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	_, err := io.Copy(f.out, f.file)
	return err
}

// newest returns the job's newest attempt in the ledger.
func (f *follower) newest() jobLog {
	if f.ref.Read() != nil {
		return jobLog{}
	}
	logs := slices.DeleteFunc(newestLogs(f.ref, f.only != ""), func(l jobLog) bool { return l.job != f.job })
	if len(logs) == 0 {
		return jobLog{}
	}
	return newestOf(logs)
}

func newestOf(logs []jobLog) jobLog {
	return slices.MaxFunc(logs, func(a, b jobLog) int { return a.at.Compare(b.at) })
}

// switchTo switches to attempt l if it is a new one. If l appends to the log that is already open,
// switchTo continues reading there.
func (f *follower) switchTo(l jobLog) error {
	if l.uniID == "" || l.uniID == f.l.uniID {
		return nil
	}
	part := l
	if f.waited != "" {
		part.from = 0 // show this run's whole log: attempts may have been too short to be noticed
	}
	file, err := part.file()
	if errors.Is(err, os.ErrNotExist) && l.open {
		return nil // the log does not exist yet; try again later
	}
	if err != nil {
		return err
	}
	if err := f.print(); err != nil {
		file.Close()
		return err
	}
	f.l, f.waited = l, ""
	old, err1 := f.file.Stat()
	now, err2 := file.Stat()
	if err1 == nil && err2 == nil && os.SameFile(old, now) {
		return file.Close()
	}
	f.file.Close()
	f.file = file
	return nil
}

// printRest prints the output since the last read. It looks in the ledger for attempts that both
// started and ended since then.
func (f *follower) printRest() error {
	if err := f.switchTo(f.newest()); err != nil {
		return err
	}
	if f.file == nil {
		text := f.job + " did not start before the run of " + f.ref.File + " ended"
		if f.phase.Ended() {
			text = f.job + " did not start: " + f.phase.String()
		}
		return &batches.Failure{Code: batches.ExitFailed, Text: text, Hint: "gpurun plan " + shellescape.Quote(f.ref.File) + " shows what would run"}
	}
	return f.print()
}
