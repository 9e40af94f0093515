package state

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// These patterns match the parts of a log line that vary between otherwise equal errors.
var (
	addresses = regexp.MustCompile(`\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8}[0-9a-f-]*\b`)
	paths     = regexp.MustCompile(`[\w.~+@=-]*(/[\w.~+@=-]*)+`)
	durations = regexp.MustCompile(`\b([0-9]+(\.[0-9]+)?(ms|[dhms]))+\b`)
	numbers   = regexp.MustCompile(`[0-9]+([.,:][0-9]+)*([eE][+-]?[0-9]+)?`)
)

// A Failure describes how an attempt failed, in terms that can be compared across attempts.
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

// Failure returns how the attempt that ended with f failed. If gpurun stopped the attempt, its exit
// code and signal are left out, because they only follow from the stop.
func (f *Fact) Failure() Failure {
	code, signal := f.ExitCode, f.Signal
	if StopCause(f.Why) != "" {
		code, signal = nil, ""
	}
	return Failure{f.State, f.ErrorType, code, signal, f.Reason, f.Line, f.CauseCode(), f.NoRetry}
}

// Kind returns the same string for failures with the same error: the same state, error type, exit
// code or signal, and the same text once numbers, paths and addresses are removed. NoRetry is
// included, so all failures of a kind have the same reason for not being retried.
func (f Failure) Kind() string {
	code := ""
	if f.ExitCode != nil {
		code = strconv.Itoa(*f.ExitCode)
	}
	return fmt.Sprintf("%s\n%s\n%s\n%s\n%s\n%s\n%s", f.State, f.ErrorType, code, f.Signal, generalize(f.Reason), generalize(f.Line), f.NoRetry)
}

func generalize(s string) string {
	s = addresses.ReplaceAllString(s, "#")
	s = paths.ReplaceAllString(s, "/")
	s = durations.ReplaceAllString(s, "#")
	return numbers.ReplaceAllString(s, "#")
}

// errorLine matches log lines that name an error. For other lines, the exit status is more useful.
var errorLine = regexp.MustCompile(`(?i)error|exception|not found|no such|denied|panic|fault|assert|killed|abort|interrupt|cannot|can't|memory|no space`)

const outOfMemory = "CUDA out of memory"

// Cause returns a short explanation of the failure: gpurun's own reason, else the signal, else the
// error in the log, else the exit status and the last line.
func (f Failure) Cause() string {
	failed := f.ExitCode != nil && *f.ExitCode != 0
	switch {
	case f.Reason != "":
		return f.Reason
	case f.Code == CauseOOMGPU && strings.Contains(f.Line, outOfMemory):
		return outOfMemory // the rest of the line describes each GPU's memory
	case f.Signal != "" && strings.HasPrefix(f.Line, "at "):
		return f.Signal + " " + f.Line
	case f.Signal != "":
		return strings.TrimSuffix(f.Signal+": "+f.Line, ": ")
	case failed && !errorLine.MatchString(f.Line):
		return strings.TrimSuffix(fmt.Sprintf("exit %d: %s", *f.ExitCode, f.Line), ": ")
	case f.Line != "":
		return f.Line
	}
	return string(f.State)
}

// Ending returns how the process ended, as a suffix for Cause: " (exit status 1)", " (SIGSEGV)". It
// returns "" if Cause already includes this.
func (f Failure) Ending() string {
	switch {
	case f.Reason == "" && (f.Signal != "" || !errorLine.MatchString(f.Line)):
	case f.Signal != "":
		return " (" + f.Signal + ")"
	case f.ExitCode != nil && *f.ExitCode != 0:
		return fmt.Sprintf(" (exit status %d)", *f.ExitCode)
	}
	return ""
}
