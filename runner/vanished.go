package runner

import (
	"regexp"
	"strings"
	"time"

	"gpurun/runner/engine"
)

// vanishedWithin is how soon a script has ended whose work in the background did not get
// going: a shell takes the status of what has ended before itself, and nobody hears of it.
const vanishedWithin = 10 * time.Second

// vanished reports whether an attempt that succeeded may have done nothing: its commands
// put something in the background and waited for nothing, it has left nothing behind, and
// nothing of it was seen on its GPUs.
func (at *attempt) vanished(e engine.Ended) bool {
	good := e.ExitCode == 0 && e.Signal == "" && e.Err == "" && e.Why == "" && !e.Lost && e.LeftOver == 0 && e.LeftRunning == ""
	return good && e.Elapsed < vanishedWithin && len(at.grant.UUIDs) > 0 && at.launch.Leftovers == engine.LeftoversAuto &&
		!at.behind && len(at.onGPU) == 0 && startsBehind(strings.Join(at.launch.Commands, "\n"))
}

var (
	ampersand = regexp.MustCompile(`(^|[^&<>|])&(\s|;|\)|$)`)
	waits     = regexp.MustCompile(`\b(wait|fg)\b`)
	quoted    = regexp.MustCompile(`'[^']*'|"[^"]*"|(^|\s)#.*`)
)

// startsBehind reports whether a script puts something in the background for good, as far
// as its text tells. It is worth no more than a warning.
func startsBehind(script string) bool {
	if !strings.Contains(script, "&") {
		return false
	}
	script = quoted.ReplaceAllString(script, " x")
	return ampersand.MatchString(script) && !waits.MatchString(script)
}
