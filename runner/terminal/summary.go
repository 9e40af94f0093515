package terminal

import (
	"fmt"
	"strings"
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// A Summary is what a run prints at its end.
type Summary struct {
	schema.Result
	Rest   string // the command that runs the remaining jobs, or ""
	Anyway string // the command that also runs the held jobs
	Code   int    // the exit status
}

// maxDemands is how many demands are listed. More would be repetitive, because all jobs of a matrix
// usually request the same amount.
const maxDemands = 8

// Lines returns the summary, failures first, in lines of at most width columns. It never breaks
// paths and commands, which users copy.
func (s Summary) Lines(width int) []string {
	var out []string
	for _, f := range s.Failures {
		out = append(out, FailureLines(f, width)...)
	}
	if n := s.unlisted(); n > 0 {
		out = append(out, fmt.Sprintf("… and %d more failed", n))
	}
	held := schema.Value(s.Final.Live).Held
	for _, h := range held {
		out = append(out, painted(Yellow, HeldLine(h), HeldLine(h), width)...)
	}
	if len(held) > 0 {
		advice := "    fix the cause and rerun, or run them anyway: "
		if Width(advice+s.Anyway) > width { // put the command on its own line, for copying
			advice = strings.TrimRight(advice, " ") + "\n        "
		}
		out = append(out, advice+s.Anyway)
	}
	for _, w := range s.Warnings {
		out = append(out, painted(Yellow, "warning:", "warning: "+CleanText(w), width)...)
	}
	for _, l := range demandLines(s.Demands) {
		out = append(out, Wrap(l, width, 4)...)
	}
	if s.GaveUp {
		line := "gave up waiting for a GPU"
		if next := s.Final.Live.Next; next != nil {
			line += ": " + CleanText(next.Job+" "+next.Text)
		}
		out = append(out, Wrap(line, width, 4)...)
	}
	out = append(out, s.last(width)...)
	if s.Rest != "" {
		out = append(out, "run the rest with: "+s.Rest)
	}
	return out
}

// unlisted returns the number of failures that the summary does not list. Blocked jobs are listed
// with the failure that blocks them.
func (s Summary) unlisted() int {
	listed := map[state.Phase]int{}
	for _, f := range s.Failures {
		listed[f.End.State] += max(f.Alike.Count, 1)
	}
	return schema.TallyOf(s.Final.Counts, false).Failed - schema.TallyOf(listed, false).Failed
}

// demandLines names the jobs whose gpu_memory is far off, with better values.
func demandLines(ds []schema.Demand) []string {
	var out []string
	for i, d := range ds {
		if i == maxDemands {
			return append(out, fmt.Sprintf("… and %d more whose gpu_memory is far off", len(ds)-i))
		}
		out = append(out, fmt.Sprintf("memory: %s requested %s but used %s (highest of %s); set gpu_memory: %s", CleanText(d.Job), d.Asked.Asked(), d.Peak.Round(), state.Count(d.Readings, "reading"), d.Peak.Ample()))
	}
	return out
}

// last returns the final state line of the run.
func (s Summary) last(width int) []string {
	st, hours := *s.Final, s.GPUHours*3600
	st.Run = &schema.Run{Exit: &s.Code, GPUSeconds: &hours}
	if s.Wall > 0 {
		now := time.Now()
		st.Run.Started, st.Run.Ended = schema.Time(now.Add(-s.Wall)), schema.Time(now)
	}
	causes := map[state.Phase]int{}
	for _, f := range s.Failures {
		causes[f.End.State]++
	}
	st.Alike = make([]schema.Alike, schema.TallyOf(causes, false).Failed) // the line contains the number of groups
	st.Sum()
	c := Red
	if s.Code == 0 {
		c = Green
	}
	word, rest, _ := strings.Cut(CleanText(st.Line), ":")
	if s.Stopped != "" {
		rest += " · stopped by " + s.Stopped
	}
	return painted(c, word, word+":"+rest, width)
}
