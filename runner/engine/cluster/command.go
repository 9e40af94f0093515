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

// How long a command of the cluster may take. A submission is left alone for longer: ended in
// the middle, nobody knows whether it was heard.
const (
	commandLimit = 30 * time.Second
	submitLimit  = 3 * time.Minute
	lateAfter    = 5 * time.Second
)

// run runs a command of the cluster and returns what it printed, and what beside, even if it failed.
func (c Command) run() (out, notes string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env = append(environ(), c.Env...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no Ctrl-C of ours
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return "", "", fmt.Errorf("%s has not answered in %v", c.Name(), commandLimit)
	}
	if err != nil {
		return "", stderr.String(), fmt.Errorf("%s: %w", c.Name(), said(err, stderr.String()))
	}
	return stdout.String(), stderr.String(), nil
}

// Name returns what is called, also by a shell, whose $0 says it.
func (c Command) Name() string {
	if c.Args[0] == "sh" && len(c.Args) > 3 {
		return c.Args[3]
	}
	return c.Args[0]
}

// said returns the first line that a failed command printed, or else the error.
func said(err error, stderr string) error {
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" {
			return errors.New(line)
		}
	}
	return err
}

// environ is what all of the cluster's commands get of our environment: a job that this may be in
// has variables that would override arguments. Times are printed and read in the same zone.
func environ() []string { return Passed("PATH", "HOME", "USER", "LANG", "TZ") }

// Passed returns those of some variables that are set, for a Command.
func Passed(names ...string) (env []string) {
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// late is what the cluster does not answer now.
type late struct {
	began map[string]time.Time // commands under way, by what they do
	wrong map[string]string    // what was wrong first with each, until it succeeds
	said  []string
}

func (l *late) begin(what string) {
	if l.began == nil {
		l.began, l.wrong = map[string]time.Time{}, map[string]string{}
	}
	l.began[what] = time.Now()
}

func (l *late) done(what string, err error) {
	delete(l.began, what)
	if err == nil {
		delete(l.wrong, what)
	} else if l.wrong[what] == "" {
		l.wrong[what] = ": " + err.Error()
	}
}

// tell says what is wrong when that changes.
func (l *late) tell(c *Cluster) {
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

// orders are commands of one kind, given one at a time.
type orders struct {
	busy  bool          // the cluster is being told
	again time.Time     // not before
	pause time.Duration // after the next failure
}

// tell gives an order, and then calls heard in our goroutine.
func (c *Cluster) tell(o *orders, what string, command Command, heard func(error)) {
	o.busy = true
	c.late.begin(what)
	c.beside(func() func() {
		_, _, err := command.run()
		return func() {
			o.busy = false
			c.told(o, what, err)
			heard(err)
		}
	})
}

// told notes how an order was heard.
func (c *Cluster) told(o *orders, what string, err error) {
	if c.late.done(what, err); err == nil {
		o.pause = 0
		return
	}
	c.Log.Warn().Err(err).Msg(what)
	o.pause = min(max(time.Second, 2*o.pause), longestPause)
	o.again = time.Now().Add(o.pause)
}

// WithoutJob returns an environment without what a cluster says of the job that it is in, which
// its commands would take for arguments, and without the GPUs that are visible here.
func (all Dialects) WithoutJob(env []string) []string {
	patterns := []string{visible}
	for _, d := range all {
		patterns = append(patterns, d.Traits(nil).Arguments...)
	}
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return among(patterns, kv) })
}

// visible are the variables that say which GPUs a process sees.
const visible = "*VISIBLE_DEVICES"

// among reports whether a variable fits one of some patterns. What follows ! is none.
func among(patterns []string, kv string) (is bool) {
	name, _, _ := strings.Cut(kv, "=")
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		if fits, _ := path.Match(p, name); fits {
			is = !not
		}
	}
	return is
}
