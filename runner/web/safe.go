package web

import (
	"gpurun/runner/results"
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

// A hider hides secrets in a text: those that it knows, wherever they stand, and what looks
// like one.
type hider func(string) string

// hiderOf knows the secrets among the parameters of a job.
func hiderOf(j *schema.Job) hider { return redact.Hiding(redact.Secrets(j.Params)) }

func (hide hider) cause(c *schema.Cause) *schema.Cause {
	if c == nil {
		return nil
	}
	return &schema.Cause{Code: c.Code, Text: hide(c.Text)}
}

func (hide hider) texts(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = hide(t)
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

func (hide hider) attempt(a schema.Attempt) schema.Attempt {
	a.Cause = hide.cause(a.Cause)
	background := make([]schema.BackgroundJob, len(a.Background))
	for i, b := range a.Background {
		background[i] = schema.BackgroundJob{PID: b.PID, Command: hide(b.Command)}
	}
	a.Background = background
	return a
}

func (hide hider) job(j schema.Job) schema.Job {
	j.Params, j.Commands, j.Cause = safeParams(j.Params), hide.texts(j.Commands), hide.cause(j.Cause)
	if j.Wait != nil {
		w := *j.Wait
		w.Text = hide(w.Text)
		j.Wait = &w
	}
	if j.Plan != nil {
		p := *j.Plan
		p.Details = hide.texts(p.Details)
		j.Plan = &p
	}
	if j.Attempt != nil {
		a := hide.attempt(*j.Attempt)
		j.Attempt = &a
	}
	return j
}

// safeResults hides the values of parameters in a table.
func safeResults(doc any) any {
	switch d := doc.(type) {
	case results.Document:
		for i := range d.Rows {
			d.Rows[i].Params = safeParams(d.Rows[i].Params)
		}
	case results.RawDocument:
		for i := range d.Jobs {
			d.Jobs[i].Params = safeParams(d.Jobs[i].Params)
		}
	}
	return doc
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
