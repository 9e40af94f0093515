package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpurun/runner/terminal"
	"gpurun/state/disk"
	"gpurun/state/host"
)

// summaryWidth is where the lines of summary.txt are wrapped.
const summaryWidth = 80

const (
	summaryName = "summary.txt" // in the state folder of each file of a run
	maxSummary  = 1 << 20
)

// summaryHead is the first line of summary.txt: when the run took place, and its exit status.
const summaryHead = "run of %s to %s, exit status %d"

// keepSummary saves the summary for status, and for users whose terminal is gone. A
// full disk does not fail the run. failed is what else the run says at its end, or nil.
func (r *run) keepSummary(s terminal.Summary, code int, failed *failure) {
	lines := s.Lines(summaryWidth)
	if failed != nil {
		lines = append(lines, terminal.Wrap("error: "+failed.text, summaryWidth, 4)...)
		lines = append(lines, terminal.Wrap("hint: "+failed.hint, summaryWidth, 4)...)
	}
	for i := range r.batch.Files {
		if err := writeSummary(r.state.Dir(i), s.Wall, code, terminal.Plain(strings.Join(lines, "\n"))); err != nil {
			r.log.Warn().Err(err).Msg("cannot save the summary")
		}
	}
}

// writeSummary saves the summary of a run that took some time and has just ended.
func writeSummary(dir string, wall time.Duration, code int, text string) error {
	end := time.Now()
	head := fmt.Sprintf(summaryHead, end.Add(-wall).Format(time.DateTime), end.Format(time.DateTime), code)
	return disk.Replace(filepath.Join(dir, summaryName), []byte(head+"\n\n"+text+"\n"))
}

// A kept is the last run's summary.
type kept struct {
	head string
	text string
	code int // exit status
}

// keptSummary reads the summary of a batch's last run. It ignores one older than the
// ledger: a later run was killed, or somebody has marked jobs since.
func keptSummary(dir string) (k kept, ok bool) {
	path := filepath.Join(dir, summaryName)
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxSummary || disk.Changed(dir).After(fi.ModTime()) {
		return k, false
	}
	b, err := host.ReadOwn(path, maxSummary)
	if err != nil {
		return k, false
	}
	k.head, k.text, _ = strings.Cut(string(b), "\n")
	_, code, _ := strings.Cut(k.head, "exit status ")
	if _, err := fmt.Sscan(code, &k.code); err != nil {
		return k, false
	}
	k.text = strings.Trim(k.text, "\n")
	return k, true
}
