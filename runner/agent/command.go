package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"gpurun/state/schema"
)

// maxRunTime is how long a command may run, because some clients give up on a call after a minute.
// exitWait is how long it may take to exit after SIGTERM. Tests shorten both.
var maxRunTime, exitWait = 55 * time.Second, 3 * time.Second

// maxOutput is the most output that a command may print, in bytes.
const maxOutput = 64 << 20

// An answer is a command's output and exit status.
type answer struct {
	code     int
	out, err []byte
}

// run runs a gpurun command. It stops the command after maxRunTime, or when the call or the session
// ends.
func (s *server) run(ctx context.Context, free bool, args []string) (answer, error) {
	s.calls.Add(1)
	defer s.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, maxRunTime)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return answer{}, problem("busy", "too many calls at the same time", "retry after another call returns")
	}
	cmd := s.Command(ctx, free, args)
	out, messages := &limited{most: maxOutput}, &limited{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, messages
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = exitWait
	err := cmd.Run()
	a := answer{cmd.ProcessState.ExitCode(), out.Bytes(), messages.Bytes()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return a, problem("timeout", fmt.Sprintf("gpurun %s did not finish within %v and was stopped", args[0], maxRunTime), "call again; if that does not help, ask the user to run gpurun doctor")
	case ctx.Err() != nil:
		return a, problem("cancelled", "the call was cancelled", "")
	case out.cut:
		return a, problem("too_long", fmt.Sprintf("gpurun %s printed more than %d MiB", args[0], maxOutput>>20), "ask for fewer jobs")
	case err != nil && !errors.As(err, &exit):
		return a, problem("internal", s.clean(err.Error()), "")
	}
	return a, nil
}

// A limited buffer silently drops bytes beyond its limit.
type limited struct {
	bytes.Buffer
	most int
	cut  bool
}

func (l *limited) Write(b []byte) (int, error) {
	if room := l.most - l.Len(); len(b) > room {
		l.cut = true
		l.Buffer.Write(b[:max(room, 0)])
		return len(b), nil
	}
	return l.Buffer.Write(b)
}

// document runs a command with --json, and returns the document that it prints, cut and cleaned.
func (s *server) document(ctx context.Context, args []string, show listing) (map[string]any, error) {
	a, err := s.run(ctx, false, slices.Insert(args, 1, "--json"))
	if err != nil {
		return nil, err
	}
	doc := s.parse(a, show)
	if doc == nil || a.code != 0 && args[0] != "check" {
		return nil, s.failed(a)
	}
	return doc, nil
}

// said runs a command that reports its effect as text.
func (s *server) said(ctx context.Context, free bool, args []string) (CommandOutput, error) {
	a, err := s.run(ctx, free, args)
	if err != nil {
		return CommandOutput{}, err
	}
	if a.code != 0 {
		return CommandOutput{}, s.failed(a)
	}
	return CommandOutput{s.text(a.out)}, nil
}

// CommandOutput is the text that reports a command's effect.
type CommandOutput struct {
	Said string `json:"said" jsonschema:"summary of what was done"`
}

// text returns a command's output as clean text.
func (s *server) text(printed []byte) string {
	return strings.TrimSpace(s.sanitize(string(printed)).(string))
}

// parse returns the JSON document that a command printed, cut and cleaned, or nil if there is none.
func (s *server) parse(a answer, show listing) map[string]any {
	d := json.NewDecoder(bytes.NewReader(a.out))
	d.UseNumber()
	var doc map[string]any
	if d.Decode(&doc) != nil {
		return nil
	}
	return s.sanitize(show.cut(doc)).(map[string]any)
}

// failed returns a failed command's problems, or else its output as a problem.
func (s *server) failed(a answer) error {
	if doc := s.parse(a, listing{}); doc["problems"] != nil {
		b, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		return &problems{string(b)}
	}
	said := s.text(a.err)
	if said == "" {
		said = s.text(a.out)
	}
	text, hint := schema.SplitFailure(said)
	return problem(schema.FailureCode(a.code), text, hint)
}
