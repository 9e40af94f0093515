package web

import (
	"gpurun/state/redact"
	"gpurun/state/schema"
)

// What leaves the server has no secrets in it, as far as their names tell: a page may be
// on a wall.

func safeParams(params map[string]string) map[string]string {
	out := make(map[string]string, len(params))
	for name, value := range params {
		out[name] = redact.Value(name, value)
	}
	return out
}

func safeCause(c *schema.Cause) *schema.Cause {
	if c == nil {
		return nil
	}
	return &schema.Cause{Code: c.Code, Text: redact.Text(c.Text)}
}

func safeTexts(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = redact.Text(t)
	}
	return out
}

func safeRun(r *schema.Run) *schema.Run {
	if r == nil {
		return nil
	}
	run := *r
	if r.Settings != nil {
		run.Settings = safeParams(r.Settings)
	}
	if r.Params != nil {
		run.Params = safeParams(r.Params)
	}
	return &run
}

func safeAttempt(a schema.Attempt) schema.Attempt {
	a.Cause = safeCause(a.Cause)
	background := make([]schema.BackgroundJob, len(a.Background))
	for i, b := range a.Background {
		background[i] = schema.BackgroundJob{PID: b.PID, Command: redact.Text(b.Command)}
	}
	a.Background = background
	return a
}

func safeJob(j schema.Job) schema.Job {
	j.Params, j.Commands, j.Cause = safeParams(j.Params), safeTexts(j.Commands), safeCause(j.Cause)
	if j.Wait != nil {
		w := *j.Wait
		w.Text = redact.Text(w.Text)
		j.Wait = &w
	}
	if j.Plan != nil {
		p := *j.Plan
		p.Details = safeTexts(p.Details)
		j.Plan = &p
	}
	if j.Attempt != nil {
		a := safeAttempt(*j.Attempt)
		j.Attempt = &a
	}
	return j
}

// safeHost hides what other people's processes were given on their command lines, and one's own.
func safeHost(d *schema.GPUs) *schema.GPUs {
	for i := range d.GPUs {
		g := &d.GPUs[i]
		if g.Text != nil {
			g.Text = schema.Known(redact.Text(*g.Text))
		}
		for k := range g.Processes {
			if c := g.Processes[k].Command; c != nil {
				g.Processes[k].Command = schema.Known(redact.Text(*c))
			}
		}
	}
	return d
}
