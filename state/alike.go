package state

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// What varies between log lines that mean the same thing: addresses, paths, numbers.
var (
	addresses = regexp.MustCompile(`\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8}[0-9a-f-]*\b`)
	paths     = regexp.MustCompile(`[\w.~+@=-]*(/[\w.~+@=-]*)+`)
	durations = regexp.MustCompile(`\b([0-9]+(\.[0-9]+)?(ms|[dhms]))+\b`)
	numbers   = regexp.MustCompile(`[0-9]+([.,:][0-9]+)*([eE][+-]?[0-9]+)?`)
)

// A Failure is how an attempt failed, in terms that can be compared across attempts.
type Failure struct {
	State     Phase
	ErrorType string
	ExitCode  *int
	Signal    string
	Reason    string
	Line      string // the log line that best explains it
	Code      CauseCode
	NoRetry   string
}

// Failure returns how the attempt that f ends failed. How one ended that gpurun stopped says
// nothing beyond why.
func (f *Fact) Failure() Failure {
	code, signal := f.ExitCode, f.Signal
	if StopCause(f.Why) != "" {
		code, signal = nil, ""
	}
	return Failure{f.State, f.ErrorType, code, signal, f.Reason, f.Line, f.CauseCode(), f.NoRetry}
}

// Kind returns a string that is equal for failures with the same error: same state, error
// type, exit code or signal, and same text once numbers, paths and addresses are removed. All
// or none of them have retries left that do not follow.
func (f Failure) Kind() string {
	code := ""
	if f.ExitCode != nil {
		code = strconv.Itoa(*f.ExitCode)
	}
	return fmt.Sprintf("%s\n%s\n%s\n%s\n%s\n%s\n%s", f.State, f.ErrorType, code, f.Signal, general(f.Reason), general(f.Line), f.NoRetry)
}

func general(s string) string {
	s = addresses.ReplaceAllString(s, "#")
	s = paths.ReplaceAllString(s, "/")
	s = durations.ReplaceAllString(s, "#")
	return numbers.ReplaceAllString(s, "#")
}

// speaking matches log lines that name an error. Of others, the exit status says more.
var speaking = regexp.MustCompile(`(?i)error|exception|not found|no such|denied|panic|fault|assert|killed|abort|interrupt|cannot|can't|memory|no space`)

// Cause returns a short explanation of the failure: the reason gpurun gives, else the
// signal, else the error in the log, else the exit status and the last line.
func (f Failure) Cause() string {
	failed := f.ExitCode != nil && *f.ExitCode != 0
	switch {
	case f.Reason != "":
		return f.Reason
	case f.Signal != "" && strings.HasPrefix(f.Line, "at "):
		return f.Signal + " " + f.Line
	case f.Signal != "":
		return strings.TrimSuffix(f.Signal+": "+f.Line, ": ")
	case failed && !speaking.MatchString(f.Line):
		return strings.TrimSuffix(fmt.Sprintf("exit %d: %s", *f.ExitCode, f.Line), ": ")
	case f.Line != "":
		return f.Line
	}
	return string(f.State)
}

// Ending returns how the process ended, where Cause does not say so, to go after that:
// " (exit status 1)", " (SIGSEGV)".
func (f Failure) Ending() string {
	switch {
	case f.Reason == "" && (f.Signal != "" || !speaking.MatchString(f.Line)):
	case f.Signal != "":
		return " (" + f.Signal + ")"
	case f.ExitCode != nil && *f.ExitCode != 0:
		return fmt.Sprintf(" (exit status %d)", *f.ExitCode)
	}
	return ""
}

// Alike is a group of jobs in a batch that failed the same way.
type Alike struct {
	Cause string    `json:"cause"`          // of the first job
	Code  CauseCode `json:"code,omitempty"` // of the first job
	State Phase     `json:"state"`          // of all
	Count int       `json:"count"`          // number of jobs
	Jobs  []string  `json:"jobs"`
	Log   string    `json:"log,omitempty"` // of the first job that has one
}

// AlikeWords counts a group's jobs: "12 failed with the same error". Jobs that a person stopped did not
// fail.
func AlikeWords(p Phase, count int) string {
	if p == Cancelled || p == Interrupted {
		return fmt.Sprintf("%d %s", count, p)
	}
	return fmt.Sprintf("%d failed with the same error", count)
}

// Bounds on memory for batches in which every job fails its own way.
const (
	maxGroups    = 1000
	maxAlikeJobs = 20 // named per group
)

// A Grouping collects failures with the same error into groups, ordered by each group's
// first failure.
type Grouping struct {
	Groups []Alike
	at     map[string]int // index in Groups, by kind
}

// Add records one job's failure and returns the index of its group, or -1 if it
// would start a new group and there is no room for one.
func (g *Grouping) Add(job, log string, f Failure) int {
	if g.at == nil {
		g.at = map[string]int{}
	}
	kind := f.Kind()
	i, ok := g.at[kind]
	if !ok && len(g.Groups) == maxGroups {
		return -1
	}
	if !ok {
		i = len(g.Groups)
		g.at[kind] = i
		g.Groups = append(g.Groups, Alike{Cause: f.Cause(), Code: f.Code, State: f.State})
	}
	a := &g.Groups[i]
	a.Count++
	if len(a.Jobs) < maxAlikeJobs {
		a.Jobs = append(a.Jobs, job)
	}
	if a.Log == "" {
		a.Log = log
	}
	return i
}
