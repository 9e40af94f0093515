package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// How long a command may take, since some clients give up on a call after a minute, and how long
// it has to end once it was asked to. Tests cannot wait for that.
var patience, farewell = 55 * time.Second, 3 * time.Second

// maxOutput bounds a command's output.
const maxOutput = 64 << 20

// An answer is a command's output and exit status.
type answer struct {
	code     int
	out, err []byte
}

// run runs a command of gpurun. The call's end, or the session's, ends it.
func (s *server) run(ctx context.Context, free bool, args []string) (answer, error) {
	s.calls.Add(1)
	defer s.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	case <-ctx.Done():
		return answer{}, problem("busy", "too many calls at once", "call again once another has been answered")
	}
	cmd := s.Command(ctx, free, args)
	out, messages := &limited{most: maxOutput}, &limited{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, messages
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = farewell
	err := cmd.Run()
	a := answer{cmd.ProcessState.ExitCode(), out.Bytes(), messages.Bytes()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return a, problem("timeout", fmt.Sprintf("gpurun %s has not ended within %v and was stopped", args[0], patience), "call again; if that does not help, ask the user to run gpurun doctor")
	case ctx.Err() != nil:
		return a, problem("cancelled", "the call was cancelled", "")
	case out.cut:
		return a, problem("too_long", fmt.Sprintf("gpurun %s prints more than %d MiB", args[0], maxOutput>>20), "ask for fewer jobs")
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

// document runs a command that prints a document, and returns that as a tool's output.
func (s *server) document(ctx context.Context, args []string, show listing) (map[string]any, error) {
	a, err := s.run(ctx, false, args)
	if err != nil {
		return nil, err
	}
	doc := s.parse(a, show)
	if doc == nil || a.code != 0 && args[0] != "check" {
		return nil, s.failed(a)
	}
	return doc, nil
}

// said runs a command that reports its effect in words.
func (s *server) said(ctx context.Context, free bool, args []string) (Said, error) {
	a, err := s.run(ctx, free, args)
	if err != nil {
		return Said{}, err
	}
	if a.code != 0 {
		return Said{}, s.failed(a)
	}
	return Said{s.text(a.out)}, nil
}

// Said describes a command's effect in words.
type Said struct {
	Said string `json:"said" jsonschema:"what was done, in words"`
}

// text returns a command's output as text.
func (s *server) text(printed []byte) string {
	return strings.TrimSpace(s.tidy(string(printed)).(string))
}

// parse returns as much as is to be shown of the document that a command has printed, tidied; nil
// if it is none.
func (s *server) parse(a answer, show listing) map[string]any {
	d := json.NewDecoder(bytes.NewReader(a.out))
	d.UseNumber()
	var doc map[string]any
	if d.Decode(&doc) != nil {
		return nil
	}
	return s.tidy(show.cut(doc)).(map[string]any)
}

// codes name exit statuses in problems, as gpurun does.
var codes = map[int]string{1: "failed", 2: "usage", 4: "state", 70: "internal", 75: "not_yet", 124: "gave_up", 130: "interrupted", 143: "interrupted"}

// failed returns why a command has failed: its problems, or else its text.
func (s *server) failed(a answer) error {
	if doc := s.parse(a, listing{}); doc["problems"] != nil {
		b, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		return &problems{string(b)}
	}
	text, hint := s.text(a.err), ""
	if text == "" {
		text = s.text(a.out)
	}
	if before, after, found := strings.Cut(text, "gpurun: hint: "); found {
		text, hint = strings.TrimSpace(before), strings.TrimSpace(after)
	}
	code := codes[a.code]
	if code == "" {
		code = fmt.Sprint("exit_", a.code)
	}
	return problem(code, strings.TrimPrefix(text, "gpurun: error: "), hint)
}
