package cli

import (
	"strings"

	"gpurun/runner/batches"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
)

// summaryWidth is the line width of summary.txt.
const summaryWidth = 80

// keepSummary saves the summary for status, and for users whose terminal is gone. A full disk does
// not fail the run. failed is the run's own failure, or nil.
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
