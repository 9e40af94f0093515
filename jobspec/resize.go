package jobspec

import (
	"strings"
	"time"

	"gpurun/jobspec/source"
)

// Resize defines when a running job gets more or fewer GPUs, and how it is asked to save its work
// first. Every resize ends the attempt and starts another.
type Resize struct {
	Up, Down int           // thresholds for average GPU use over a minute, in percent; Up is 0 for a job that is never resized
	Signal   string        // signal that asks it to save its work: "USR1"
	Grace    time.Duration // time it has to save its work
	Every    time.Duration // minimum time between two resizes
}

// resizing holds the defaults of a job that sets resize.
var resizing = Resize{Up: 80, Down: 30, Signal: "USR1", Grace: time.Minute, Every: 10 * time.Minute}

// resized returns a key in resize. Setting it also enables resizing.
func resized[T any](key string, parse func(string) (T, error), at func(*Resize) *T) JobKey {
	return single("resize."+key, parse, func(s *Spec) *T {
		if s.Resize.Up == 0 {
			s.Resize = resizing
		}
		return at(&s.Resize)
	})
}

// parseResize parses resize: true, which selects the defaults, and false.
func parseResize(s string) (Resize, error) {
	on, err := source.ParseBool(s)
	if err != nil {
		return Resize{}, source.Faultf("write true or false, or {up: 80%, down: 30%, signal: USR1, grace: 60s, every: 10m}", "invalid value %q", s)
	}
	if on {
		return resizing, nil
	}
	return Resize{}, nil
}

// parseShare parses a percentage in resize, with or without the % sign.
func parseShare(s string) (int, error) {
	n, err := source.ParsePercent(strings.TrimSuffix(s, "%"))
	if err == nil && n == 0 {
		return 0, source.Faultf("use a number from 1 to 100", "invalid percentage %q", s)
	}
	return n, err
}

// parseSignal parses a signal that a job can catch.
func parseSignal(s string) (string, error) {
	return source.ParseWord(strings.TrimPrefix(s, "SIG"), "USR1", "USR2", "HUP", "INT", "TERM")
}

// checkResize reports settings that make a resize impossible.
func (p *proto) checkResize(d *draft) {
	r := &d.Resize
	if r.Up == 0 {
		return
	}
	line, col := p.Line, p.Col
	if n := p.get("resize"); n != nil {
		line, col = n.Line, n.Column
	}
	problem := func(hint, text string, args ...any) {
		p.src.Problem(line, col, hint, "resize: "+text, args...)
		d.Resize = Resize{}
	}
	switch {
	case d.Request.Max <= d.Request.Min:
		if p.inherited["resize"] {
			d.Resize = Resize{}
			return
		}
		problem("write gpus: 1-4", "the job has a fixed number of GPUs, gpus: %d", d.Request.Min)
	case d.Request.Share:
		problem("remove resize, or set share: false", "cannot resize a job that shares its GPUs: their utilization includes other jobs")
	case r.Down >= r.Up:
		problem("decrease down, or increase up", "down: %d%% is not below up: %d%%", r.Down, r.Up)
	case r.Every < time.Second:
		problem("write every: 10m", "every: %s would restart the job constantly", source.FormatDuration(r.Every))
	}
}
