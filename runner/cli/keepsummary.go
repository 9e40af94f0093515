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

const (
	summaryName  = "summary.txt" // in the state folder of each file of a run
	summaryWidth = 80
	maxSummary   = 1 << 20
)

// summaryHead is the first line of summary.txt: when the run took place, and its exit status.
const summaryHead = "run of %s to %s, exit status %d"

// keepSummary saves the summary for status, and for users whose terminal is gone. A
// full disk does not fail the run. failed is what else the run says at its end, or nil.
func (r *run) keepSummary(s terminal.Summary, code int, failed *failure) {
	end := time.Now()
	head := fmt.Sprintf(summaryHead, end.Add(-s.Wall).Format(time.DateTime), end.Format(time.DateTime), code)
	lines := s.Lines(summaryWidth)
	if failed != nil {
		lines = append(lines, terminal.Wrap("error: "+failed.text, summaryWidth, 4)...)
		lines = append(lines, terminal.Wrap("hint: "+failed.hint, summaryWidth, 4)...)
	}
	text := head + "\n\n" + terminal.Plain(strings.Join(lines, "\n")) + "\n"
	for i := range r.batch.Files {
		if err := disk.Replace(filepath.Join(r.state.Dir(i), summaryName), []byte(text)); err != nil {
			r.log.Warn().Err(err).Msg("cannot save the summary")
		}
	}
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
	lines := strings.Split(strings.Trim(k.text, "\n"), "\n")
	for i := range lines {
		lines[i] = terminal.CleanText(lines[i])
	}
	k.text = strings.Join(lines, "\n")
	return k, true
}
