package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"

	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/runner/files"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/host"
	"gpurun/state/redact"
)

type logCmd struct {
	batchFlag `embed:""`
	Jobs      []string `arg:"" optional:"" name:"job" help:"Jobs or globs."`
	Failed    bool     `help:"Print the logs of failed jobs."`
	Lines     int      `short:"n" placeholder:"N" help:"Print only the last N lines of each log."`
	Follow    bool     `short:"f" help:"Keep printing until the job ends, across retries."`
	Path      bool     `help:"Print only the path of the log."`
	Raw       bool     `help:"Send control sequences to the terminal unchanged."`
}

func (logCmd) Help() string {
	return helpText("On a terminal, shows control sequences as text, except for colors.",
		"gpurun log -f train-cifar10-s42",
		"gpurun log --failed -n 20",
		"less $(gpurun log --path train-cifar10-s42)")
}

// A jobLog is a job's newest log.
type jobLog struct {
	job     string
	was     string // the name under which the job ran; it may have been renamed since
	uniID   string
	path    string
	from    int64 // offset of the attempt's part
	attempt int
	at      time.Time
	failed  bool // the job's last attempt failed
	open    bool // the ledger does not record the attempt's end
	ledger  int  // index of the batch's file
	lost    error
	record  *state.Record
	queued  bool // on a cluster
}

// Run prints the logs of the selected jobs, or of all failed jobs in each live batch.
func (c *logCmd) Run(a *app) error {
	if len(c.Jobs) == 0 && !c.Failed {
		return &batches.Failure{Code: batches.ExitUsage, Text: "missing argument \"<job> ...\"", Hint: "name a job, or pass --failed for all failed jobs"}
	}
	if c.Lines < 0 || c.Lines > 0 && c.Follow {
		return &batches.Failure{Code: batches.ExitUsage, Text: "-n must be positive, and does not work with -f"}
	}
	refs, err := a.FindJobs(c.File, c.Jobs, "")
	if err != nil {
		return err
	}
	for _, ref := range refs {
		a.say("note", "logs of "+ref.Name())
		if err := c.of(a, ref); err != nil {
			return err
		}
	}
	return nil
}

// of prints the logs of one batch.
func (c *logCmd) of(a *app, ref *batches.Ref) error {
	logs, err := c.matching(newestLogs(ref, c.only(ref) != ""), ref)
	if c.Follow && !c.Path {
		return c.follow(a, ref, logs, err)
	}
	if err != nil {
		return err
	}
	if c.Failed && len(logs) == 0 {
		fmt.Fprintln(a.out, ref.Name()+": no job failed")
		return nil
	}
	to := a.out
	if host.Confined() { // the output goes to a client of gpurun mcp, so it must not contain secrets
		var text bytes.Buffer
		to = &text
		defer func() { _, _ = io.WriteString(a.out, redact.Hiding(batches.SecretsOf(ref.Batch))(text.String())) }()
	}
	out, flush := c.writer(a, to)
	defer flush()
	for i, l := range logs {
		if l.job == l.was && !host.Exists(l.path) {
			l.path = cmp.Or(ref.LogOf(l.record), l.path)
		}
		switch {
		case c.Path && l.lost == nil:
			fmt.Fprintln(to, l.path)
			continue
		case len(logs) > 1:
			fmt.Fprintf(to, "%s==> %s <==\n", map[bool]string{true: "\n"}[i > 0], l.title(logs, ref))
		}
		f, err := l.file()
		if err != nil && len(logs) > 1 {
			a.Warn(l.job + ": " + err.Error()) // continue with the other logs
			continue
		}
		if err != nil {
			return err
		}
		if err = c.skip(f); err == nil {
			_, err = io.Copy(out, f)
		}
		f.Close()
		if err := ignorePipe(err); err != nil {
			return err
		}
	}
	return nil
}

// title identifies a log among others, since several files of a batch may have a job with that
// name.
func (l jobLog) title(all []jobLog, ref *batches.Ref) string {
	if slices.ContainsFunc(all, func(o jobLog) bool { return o.job == l.job && o.ledger != l.ledger }) {
		return l.job + " (" + batches.Shown(ref.Files()[l.ledger]) + ")"
	}
	return l.job
}

// newestLogs returns the log of each job's newest attempt, sorted by name. If first is set, it
// returns only the logs of the first file's jobs.
func newestLogs(ref *batches.Ref, first bool) []jobLog {
	var logs []jobLog
	present := ref.Present()
	add := func(r *state.Record, open bool) {
		logs = append(logs, jobLog{cmp.Or(present(r.Ledger, r.Key), r.Job), r.Job, r.UniID, r.Log, r.LogFrom, r.Attempt, r.Start, r.State.Bad(), open, r.Ledger, nil, r, false})
	}
	marked, paths, shared := map[string]bool{}, map[string]int{}, false
	for r := range ref.History.Records() {
		if r.By != "" && r.Log == "" {
			marked[r.Key] = true
		}
		add(r, false)
	}
	for id, at := range ref.History.Open {
		add(state.NewRecord(at.Ledger, 0, state.Fact{UniID: id}, at), true)
		logs[len(logs)-1].queued = at.Start.Engine != "" && at.Running == nil
	}
	for _, l := range logs {
		paths[l.path]++
		shared = shared || l.path != "" && paths[l.path] > 1
	}
	if shared || len(marked) > 0 {
		past := ref.RunLog()
		for _, x := range past.Attempts {
			if marked[x.Key] { // the job's record was made by gpurun done and has no log
				add(&x.Record, false)
				logs[len(logs)-1].failed = false
			}
		}
		find := past.LogPaths()
		for i := range logs { // a later job of the same name may have moved the log
			if path, err, known := find(logs[i].uniID); known {
				logs[i].path, logs[i].lost = path, err
			}
		}
	}
	logs = slices.DeleteFunc(logs, func(l jobLog) bool { return l.path == "" || first && l.ledger != 0 })
	slices.SortStableFunc(logs, func(a, b jobLog) int {
		return cmp.Or(strings.Compare(a.job, b.job), a.ledger-b.ledger, b.at.Compare(a.at))
	})
	return slices.CompactFunc(logs, func(a, b jobLog) bool { return a.job == b.job && a.ledger == b.ledger })
}

// matching returns the logs that the arguments select, sorted by name.
func (c *logCmd) matching(logs []jobLog, ref *batches.Ref) ([]jobLog, error) {
	job := func(i int) string { return logs[i].job }
	if c.Failed {
		there := ref.JobNames()
		logs = slices.DeleteFunc(logs, func(l jobLog) bool { return !l.failed || there != nil && !there[l.job] })
		if len(c.Jobs) == 0 {
			return logs, nil
		}
	}
	ids, err := runner.MatchJobs(c.Jobs, len(logs), job)
	if err != nil {
		if former, err2 := runner.MatchJobs(c.Jobs, len(logs), func(i int) string { return logs[i].was }); err2 == nil {
			ids, err = former, nil
		}
	}
	var none runner.NoMatch
	if errors.As(err, &none) {
		return nil, noLog(string(none), names(len(logs), job), ref)
	}
	out := make([]jobLog, len(ids))
	for i, id := range ids {
		out[i] = logs[id]
	}
	return out, nil
}

// noLog returns a failure for a name without a log. Its text depends on whether a job has that
// name.
func noLog(glob string, known []string, ref *batches.Ref) error {
	if ref.Batch != nil {
		if _, err := batches.Match(ref.Batch, []string{glob}); err == nil {
			return &batches.Failure{Code: batches.ExitUsage, Text: quoted(glob) + " has no log, because it has not run yet", Hint: "gpurun status lists running jobs"}
		}
		known = append(known, names(len(ref.Batch.Jobs), func(id int) string { return ref.Batch.Jobs[id].Name })...)
	}
	_, err := ref.Matching([]string{glob}, known)
	return err
}

// writer returns the writer for logs. On a terminal, it makes control sequences visible.
func (c *logCmd) writer(a *app, to io.Writer) (out io.Writer, flush func()) {
	if !a.OutTTY || c.Raw {
		return to, func() {}
	}
	v := terminal.NewVisible(to, a.colored())
	return v, func() { _ = v.Close() } // fails only if the reader has closed the output
}

// file opens the log at the start of the attempt's part.
func (l jobLog) file() (*os.File, error) {
	if l.lost != nil {
		return nil, l.lost
	}
	f, err := host.OpenReachable(l.path)
	if errors.Is(err, fs.ErrNotExist) && l.queued {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: quoted(l.job) + " has no log yet, because it has not begun", Hint: "gpurun why " + shellescape.Quote(l.job) + " says what it waits for", Err: err}
	}
	if err != nil {
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: "cannot open the log: " + err.Error(), Err: err}
	}
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: l.path + " is not a regular file, so gpurun cannot read it back"}
	}
	from := files.BeginsAt(l.from, fi.Size())
	if from < fi.Size() && !begins(f, from) { // the log was truncated and has grown since
		from = 0
	}
	if _, err = f.Seek(from, io.SeekStart); err != nil {
		f.Close()
		return nil, &batches.Failure{Code: batches.ExitUsage, Text: err.Error(), Err: err}
	}
	return f, nil
}

// begins reports whether an attempt's part of a log begins at an offset, or soon after it, since other
// jobs may write to the same log.
func begins(f *os.File, at int64) bool {
	if at == 0 {
		return true
	}
	part := make([]byte, 64<<10)
	n, err := f.ReadAt(part, at)
	return err != nil && err != io.EOF || bytes.Contains(part[:n], []byte(files.AttemptHeader))
}

// ignorePipe returns err, or nil if err means that the reader has closed the output.
func ignorePipe(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
