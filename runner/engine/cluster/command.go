package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpurun/runner/engine"
)

// Time limits of the cluster's commands. A submission may take longer, because its outcome is
// unknown if it is killed.
const (
	commandLimit = 30 * time.Second
	submitLimit  = 3 * time.Minute
	lateAfter    = 5 * time.Second
)

// run runs one of the cluster's commands and returns its stdout and stderr. If the command fails,
// run returns only its stderr.
func (c Command) run() (out, notes string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env = append(environ(), c.Env...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so that Ctrl-C does not reach it
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return "", "", fmt.Errorf("%s did not respond within %v", c.Name(), commandLimit)
	}
	if err != nil {
		return "", stderr.String(), fmt.Errorf("%s: %w", c.Name(), commandError(err, stderr.String()))
	}
	return stdout.String(), stderr.String(), nil
}

// Name returns the name of the program; for a shell command, its $0.
func (c Command) Name() string {
	if c.Args[0] == "sh" && len(c.Args) > 3 {
		return c.Args[3]
	}
	return c.Args[0]
}

// commandError returns the first line of a failed command's stderr, or err if stderr is empty.
func commandError(err error, stderr string) error {
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" {
			return errors.New(line)
		}
	}
	return err
}

// environ returns the environment of the cluster's commands. It excludes the variables of a
// surrounding cluster job, which would override arguments. TZ makes commands print times in
// gpurun's time zone.
func environ() []string { return Passed("PATH", "HOME", "USER", "LANG", "TZ") }

// Passed returns those of the named variables that are set, for Command.Env.
func Passed(names ...string) (env []string) {
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// outage tracks commands that the cluster does not answer, or that fail.
type outage struct {
	began map[string]time.Time // when each running command began, by what it does
	wrong map[string]string    // first error of each command, until it succeeds
	said  []string
}

func (l *outage) begin(what string) {
	if l.began == nil {
		l.began, l.wrong = map[string]time.Time{}, map[string]string{}
	}
	l.began[what] = time.Now()
}

func (l *outage) done(what string, err error) {
	delete(l.began, what)
	if err == nil {
		delete(l.wrong, what)
	} else if l.wrong[what] == "" {
		l.wrong[what] = ": " + err.Error()
	}
}

// report emits the current problems when they change.
func (l *outage) report(c *Cluster) {
	var now []string
	for _, what := range []string{"submit", "list", "cancel", "hold"} {
		if began, ok := l.began[what]; ok && time.Since(began) > lateAfter && l.wrong[what] == "" {
			l.wrong[what] = fmt.Sprintf(" does not answer (%s)", what)
		}
		if l.wrong[what] != "" {
			now = append(now, c.dialect.Name()+l.wrong[what]+"; running jobs continue")
		}
	}
	if strings.Join(now, "\n") != strings.Join(l.said, "\n") {
		l.said = now
		c.emit(engine.Event{Silent: &now})
	}
}

// A commandSlot runs commands of one kind, one at a time.
type commandSlot struct {
	busy  bool          // a command is running
	again time.Time     // earliest time of the next command
	pause time.Duration // after the latest failure; 0 after a success
}

// send runs a command, and then calls heard in the owner's goroutine.
func (c *Cluster) send(o *commandSlot, what string, command Command, heard func(error)) {
	o.busy = true
	c.outage.begin(what)
	c.inBackground(func() func() {
		_, _, err := command.run()
		return func() {
			o.busy = false
			c.answered(o, what, err)
			heard(err)
		}
	})
}

// answered records the result of a command.
func (c *Cluster) answered(o *commandSlot, what string, err error) {
	if c.outage.done(what, err); err == nil {
		o.pause = 0
		return
	}
	c.Log.Warn().Err(err).Msg(what)
	o.pause = min(max(time.Second, 2*o.pause), longestPause)
	o.again = time.Now().Add(o.pause)
}

// WithoutJob removes from an environment the variables of a surrounding cluster job, which the
// cluster's commands would take for arguments, and those that select visible GPUs.
func (all Dialects) WithoutJob(env []string) []string {
	patterns := []string{visible}
	for _, d := range all {
		patterns = append(patterns, d.Traits(nil).Arguments...)
	}
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return matchesAny(patterns, kv) })
}

// visible matches the variables that select a process's GPUs.
const visible = "*VISIBLE_DEVICES"

// matchesAny reports whether a variable matches one of the patterns. The last pattern that matches
// decides; one that begins with "!" excludes.
func matchesAny(patterns []string, kv string) (is bool) {
	name, _, _ := strings.Cut(kv, "=")
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		if fits, _ := path.Match(p, name); fits {
			is = !not
		}
	}
	return is
}
