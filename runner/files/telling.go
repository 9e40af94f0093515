package files

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// How well a line explains a failure. The highest weight wins, and the last line among equals.
const (
	silent  = iota // explains nothing: blank, a line of dashes, a launcher's epilogue
	plain          // the last line printed
	warned         // mentions an error
	wrapped        // only reports that something else failed: a launcher's exception, a shell's "Aborted"
	fatal          // the exception of a traceback, a crash, a missing command
)

// pattern compiles a regular expression on first use. Most commands and all successful jobs need none
// of these expressions, and compiling them would take a tenth of a command's startup time.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

var (
	escapes = pattern(`\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|\x1b.`)

	// Prefixes that launchers add for each rank ("[rank0]: ", "[default1]:", "0: "), and the margin
	// that Python draws beside the tracebacks of an exception group.
	margin = pattern(`^((\[(rank|default)?\d+\]:?|\d+:) ?| *[|+] )`)

	traceback = pattern(`^(Exception Group )?Traceback \(most recent call last\):`)

	// The exception below a traceback: "pkg.mod.SomeError: text", "KeyboardInterrupt".
	exception = pattern(`^[A-Za-z_][\w.]*(:( .*)?)?$`)

	// Exceptions with which a launcher only reports that its worker failed.
	launcher = pattern(`ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException|^SystemExit`)

	// Final messages of any program.
	finalMessage = pattern(`(?i)^\S+: (line \d+: )?.*: (command )?not found$` +
		`|: (can't|cannot) open (file )?['"]|: No such file or directory$|: Permission denied$|cannot execute` +
		`|segmentation fault|bus error|illegal instruction|floating point exception` +
		`|^fatal python error:|^terminate called|^\s*what\(\):|^panic: |^thread '.*' panicked at|^exception in thread ` +
		`|error while loading shared libraries|Assertion .* failed\.?$` +
		`|(?-i:\bKilled\b)|oom-kill|no space left on device|disk quota exceeded` +
		`|^\S+: error: (unrecognized|the following|argument|ambiguous|invalid|unknown)`)

	// A shell's message about an aborted program, after the program's own message.
	aborted = pattern(`\bAborted\b`)

	// Lines that mention an error, used if nothing better is found.
	mention = pattern(`(\b|_)(error|ERROR|Error|errors|fatal|FATAL|Fatal|CRITICAL|failed|FAILED|failure|Exception|exception|cannot|can't|not found|No such|Usage|usage)\b|\w(Error|Exception|Failure)\b`)

	// Lines that mention an error but explain nothing: epilogues of launchers, loggers and make.
	epilogue = pattern(`^(srun|slurmstepd|make|ninja)(\[\d+\])?: |^wandb: |HYDRA_FULL_ERROR|^Error executing job with overrides` +
		`|^\s*(error_file|traceback|exitcode|rank|host|time)\s*:|torch/distributed/elastic|torch\.distributed\.elastic|elastic_launch` +
		`|^\[?[\d/: TIWEF,.-]*\]?\s*(INFO|DEBUG|WARNING)\b|UserWarning:|DeprecationWarning:|FutureWarning:` +
		`|(?i)\b(0|no) errors?\b|^-{3,}|^={3,}|^#{3,}|` + bar)

	bars = pattern(bar)

	// Progress of a job that printed no error.
	step = pattern(`(?i)\b(epoch|step|iter(ation)?|batch|round)\b[ :=\[]*\d+ ?/ ?\d+`)
)

// bar matches progress bars of tqdm, Keras, rich and pip.
const bar = `\d+%\s?\||\d+/\d+ \[[^\]]*[=>.#]|[━█▏▎▍▌▋▊▉]{2,}`

// maxTelling is the longest telling line in bytes. It must fit in the ledger and on one line of a
// terminal.
const maxTelling = 300

// TellingLine returns the line of a failed job's log that best explains the failure: the exception
// of the last traceback, a crash, an error message, or else the last line; "" if nothing helps. For
// a job that a signal killed, an ordinary last line explains nothing, so TellingLine returns the
// job's progress: "at epoch 7/20".
func TellingLine(tail []byte, killed bool) string {
	best, weight, at := "", silent, ""
	inside := false // in a traceback whose exception follows
	for raw := range bytes.Lines(tail) {
		line := logLine(raw)
		bare := margin().ReplaceAllString(line, "")
		w := silent
		if killed {
			at = cmp.Or(step().FindString(bare), at)
		}
		switch {
		case strings.TrimSpace(bare) == "":
			continue
		case traceback().MatchString(bare):
			inside = true
		case inside && exception().MatchString(bare):
			inside, w = false, fatal
			if launcher().MatchString(bare) {
				w = wrapped
			}
		case inside && strings.HasPrefix(bare, "  "): // a frame above the exception
		default:
			inside = false
			w = weigh(bare)
		}
		if w >= weight && w > silent {
			best, weight = bare, w
		}
	}
	if killed && weight < warned {
		best = strings.TrimSuffix("at "+at, "at ")
	}
	return shorten(strings.TrimLeft(best, " \t"))
}

func weigh(line string) int {
	switch {
	case epilogue().MatchString(line):
		return silent
	case finalMessage().MatchString(line):
		return fatal
	case aborted().MatchString(line):
		return wrapped
	case mention().MatchString(line):
		return warned
	}
	return plain
}

// logLine returns a line as a terminal would finally show it: without colors, and with only the
// last state of a progress bar.
func logLine(raw []byte) string {
	line := strings.TrimRight(string(raw), "\r\n\t ")
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	if utf8.ValidString(line) && !strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }) {
		return line
	}
	line = strings.ToValidUTF8(escapes().ReplaceAllString(line, ""), "?")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\t' {
			return r
		}
		return -1
	}, line)
}

// AttemptHeader begins the first line of an attempt's part of a log.
const AttemptHeader = "--- attempt "

// LastLines returns the last n lines of an attempt's log, without its header, and without progress
// bars unless it contains nothing else.
func LastLines(log []byte, n int) []string {
	text := strings.TrimRight(string(log), "\n\r \t")
	if strings.HasPrefix(text, AttemptHeader) {
		_, text, _ = strings.Cut(text, "\n")
	}
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	last := lines[len(lines)-1]
	lines = slices.DeleteFunc(lines, func(l string) bool { return bars().MatchString(logLine([]byte(l))) })
	if len(lines) == 0 {
		return []string{last}
	}
	return lines[max(0, len(lines)-n):]
}

// shorten cuts a line to maxTelling bytes without splitting a character.
func shorten(line string) string {
	line = strings.ReplaceAll(line, "\t", " ")
	if len(line) <= maxTelling {
		return line
	}
	return strings.ToValidUTF8(line[:maxTelling-len("…")], "") + "…"
}
