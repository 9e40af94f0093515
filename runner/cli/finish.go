package cli

import (
	"errors"
	"os"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"golang.org/x/sys/unix"

	"gpurun/runner/batches"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// summary prints the summary of the run and returns its exit status.
func (s *shownRun) summary(r *session.Run, res schema.Result) error {
	sum := terminal.Summary{Result: res}
	code := batches.ExitOf(res, s.cmd.NoWait)
	if words := r.Lacking(); words != "" {
		sum.Warnings = append(sum.Warnings, words)
	}
	if sum.Code = code; code != batches.ExitDone {
		sum.Rest, sum.Anyway = s.restCommand(r, ""), s.restCommand(r, "--breaker=0")
	}
	var failed *batches.Failure
	if res.StateErr != nil {
		failed = ledgerFailure(res, code)
	}
	if s.view != nil { // the run got as far as starting jobs
		keepSummary(r, sum, code, failed)
	}
	// Writing to stdout may block forever, so release everything first.
	r.Close()
	if s.view != nil {
		s.view.Wait()
	}
	s.print(strings.Join(sum.Lines(s.width()), "\n") + "\n")
	if failed != nil {
		return failed
	}
	return batches.Exit(code)
}

// ledgerFailure returns the failure for a run whose ledger could not be written.
func ledgerFailure(res schema.Result, code int) *batches.Failure {
	f := &batches.Failure{Code: code, Text: res.StateErr.Error(), Err: res.StateErr, Hint: "fix it and run gpurun again; finished jobs do not run twice"}
	for full, fix := range map[error]string{unix.ENOSPC: "free some space", unix.EDQUOT: "free some space", unix.EFBIG: "raise the limit on file size (ulimit -f)"} {
		if errors.Is(f.Err, full) || strings.Contains(f.Text, full.Error()) { // an error from another process is only a text
			f.Hint = fix + " and run gpurun again; finished jobs do not run twice"
		}
	}
	if !batches.Finished(res.Final) {
		f.Text = "no more jobs started: " + f.Text
	}
	if taken := (*disk.TakenError)(nil); errors.As(res.StateErr, &taken) {
		f.Hint = "the records of this run are back in the ledger; run gpurun again to continue"
		if taken.Err != nil {
			f.Hint = "gpurun done JOB… records jobs as succeeded without running them"
		}
	}
	return f
}

// summaryWidth is the line width of summary.txt.
const summaryWidth = 80

// keepSummary saves the summary for gpurun status, and for users whose terminal is gone. A full
// disk does not fail the run. failed is the run's own failure, or nil.
func keepSummary(r *session.Run, s terminal.Summary, code int, failed *batches.Failure) {
	lines := s.Lines(summaryWidth)
	if failed != nil {
		lines = append(lines, terminal.Wrap("error: "+failed.Text, summaryWidth, 4)...)
		lines = append(lines, terminal.Wrap("hint: "+failed.Hint, summaryWidth, 4)...)
	}
	for i := range r.Batch.Files {
		if err := batches.WriteSummary(r.State.Dir(i), s.Wall, code, terminal.Plain(strings.Join(lines, "\n"))); err != nil {
			r.Log.Warn().Err(err).Msg("cannot save the summary")
		}
	}
}

// keptFlags are the flags for a list of commands. They are stored in the state folder along with
// the list.
var keptFlags = []string{"--lines", "--name", "-g", "--gpus", "-m", "--gpu-memory", "--timeout", "--retry", "--setup"}

// restCommand returns the command that runs the remaining jobs, with flag added unless it is "". If
// the jobs came from standard input, the command refers to their list by name.
func (s *shownRun) restCommand(r *session.Run, flag string) string {
	args, lacks := []string{"gpurun"}, r.Lacking() != ""
	name, _, _ := strings.Cut(flag, "=")
	given := os.Args[1:]
	for i := 0; i < len(given); i++ {
		switch arg, _, hasValue := strings.Cut(given[i], "="); {
		case arg == "--force" && !hasValue:
			if i+1 < len(given) && takesGlob(given[i+1]) {
				i++
			}
		case arg == "--force":
		case arg == "--exact" && lacks:
		case arg == "--abandon", name != "" && arg == name, // a run needs to be abandoned only once
			s.input != nil && slices.Contains(keptFlags, arg):
			if !hasValue {
				i++
			}
		default:
			args = append(args, given[i])
		}
	}
	if flag != "" {
		args = append(args, flag)
	}
	if s.input != nil {
		args = append(args, r.Batch.Files[0].Path)
	}
	return shellescape.QuoteCommand(args)
}
