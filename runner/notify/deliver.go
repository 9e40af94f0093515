package notify

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"gpurun/jobspec"
	"gpurun/state/schema"
)

// deliver sends a message to a target in a new goroutine.
func (s *Sink) deliver(t *target, n schema.Notification) {
	o := t.order
	o.Notification = n
	s.sent.Add(1)
	s.Go(func() {
		defer s.sent.Done()
		if how := try(s.ctx, s.send, &o); !how.ok() {
			s.problem(t, how)
		}
	})
}

// try sends an order, retrying if that may help, and returns the outcome of the last try.
func try(ctx context.Context, send func(context.Context, *order) outcome, o *order) (how outcome) {
	for n := 0; ; n++ {
		if how = send(ctx, o); !how.passes() || n == len(pauses) {
			return how
		}
		select {
		case <-time.After(pauses[n]):
		case <-ctx.Done():
			return how
		}
	}
}

// problem reports that a target gets no notifications, but only once for each reason.
func (s *Sink) problem(t *target, how outcome) {
	text := fmt.Sprintf("cannot notify %s: %s; %s (gpurun notify --test tries again)", t.label, how, how.fix())
	s.mu.Lock()
	known, over := s.said[text], s.over
	if s.said[text] = true; over && !known {
		s.lost = append(s.lost, text)
	}
	s.mu.Unlock()
	if !known && !over {
		s.Say(text)
	}
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$(?:\w+|\{\w+\})`) })

// resolve replaces the environment variables in a target's URL. It escapes the values in the user
// and password, so these may contain any character.
func resolve(t *jobspec.Notify, lookup func(string) (string, bool)) (o order, bad outcome) {
	if t.Command != "" {
		return order{Service: command, Command: t.Command}, outcome{}
	}
	missing := ""
	fill := func(text string, escape func(string) string) string {
		return variable().ReplaceAllStringFunc(text, func(name string) string {
			name = strings.Trim(name, "${}")
			value, _ := lookup(name)
			if value == "" {
				missing = name
			}
			return escape(value)
		})
	}
	escaped := func(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }
	rest, user := t.URL, ""
	if scheme, after, ok := strings.Cut(t.URL, "://"); ok {
		authority, _, _ := strings.Cut(after, "/")
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			user, rest = scheme+"://"+fill(authority[:at], escaped)+"@", after[at+1:]
		}
	}
	text := user + fill(rest, strings.TrimSpace)
	if missing != "" {
		return o, outcome{Class: unset, name: missing}
	}
	var err error
	if o.Service, o.URL, err = jobspec.ServiceOf(text); err != nil {
		return o, outcome{Class: badURL}
	}
	return o, outcome{}
}

// A Trial is the outcome of a test message to a target.
type Trial struct {
	Label     string
	Delivered bool
	Wrong     string // the problem
	Fix       string
}

// Test sends a message to each target, and returns the outcomes. start starts a goroutine.
func Test(ctx context.Context, targets []jobspec.Notify, r Run, start func(func())) []Trial {
	all, labels := make([]Trial, len(targets)), jobspec.Labels(targets)
	var done sync.WaitGroup
	for i := range targets {
		done.Add(1)
		start(func() {
			defer done.Done()
			o, how := resolve(&targets[i], os.LookupEnv)
			if how.Class == "" {
				o.Notification = compose(r, []item{{on: "test", text: "test notification: gpurun will send run notifications here"}}, nil, 0, "", time.Now())
				how = send(ctx, &o)
			}
			all[i] = Trial{labels[i], how.ok(), how.String(), how.fix()}
		})
	}
	done.Wait()
	return all
}
