package cli

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/source"
	"gpurun/runner/session"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// printHostNotes prints problems with the host rules, and the host's message to its users.
func (a *app) printHostNotes(h session.HostRules) {
	a.Warn(h.Warnings...)
	if h.Prompt != "" {
		a.say("note", h.WithSource("%s", h.Prompt))
	}
}

// rulesFor returns the host rules that apply to this user, or nil.
func rulesFor(pool *gpu.Pool) *schema.HostRules {
	h := pool.Host()
	if h.File == "" {
		return nil
	}
	you := h.User(host.CurrentUID(), time.Now())
	r := &schema.HostRules{
		File: h.File, Devices: h.Devices, Reserve: h.Reserve, MaxGPUs: schema.AtLeast(you.MaxGPUs, 0), LimitedBy: schema.Known(you.LimitedBy), Held: pool.Held(),
		MaxGPUsPerJob: schema.AtLeast(h.MaxGPUsPerJob, 0), MaxTimeout: schema.Known(h.MaxTimeout.Seconds()), Others: string(h.Others), Hours: []string{},
		Prompt: schema.Known(h.Prompt), Schedule: string(h.Schedule), Priority: you.Priority,
		Courtesy: h.Courtesy.Seconds(), Patience: h.Patience.Seconds(), Gather: h.Gather.Seconds(),
	}
	for _, hours := range h.Hours {
		devices := "all GPUs"
		if hours.Devices != nil {
			devices = "GPU " + strings.Join(hours.Devices, ",")
		}
		r.Hours = append(r.Hours, devices+": "+hours.Hours.String()) // GPU 6: Mon-Fri 20:00-08:00
	}
	return r
}

// printRules prints the host rules that apply to this user, if there are any.
func printRules(w io.Writer, h *schema.HostRules) {
	if h == nil {
		return
	}
	var rows [][]string
	add := func(given bool, key, format string, args ...any) {
		if given {
			rows = append(rows, []string{"  " + key, fmt.Sprintf(format, args...)})
		}
	}
	spell := func(seconds float64) string {
		return source.FormatDuration(time.Duration(math.Round(seconds * float64(time.Second))))
	}
	limit, _, _ := strings.Cut(schema.Value(h.LimitedBy), " (")
	add(h.Devices != nil, "devices", "%s", strings.Join(h.Devices, ","))
	add(h.Reserve > 0, "reserve", "%d", h.Reserve)
	add(h.MaxGPUs != nil, "your GPUs", "%s; you hold %d", limit, h.Held)
	add(h.MaxGPUsPerJob != nil, "max_gpus_per_job", "%d", schema.Value(h.MaxGPUsPerJob))
	add(h.MaxTimeout != nil, "max_timeout", "%s", spell(schema.Value(h.MaxTimeout)))
	add(h.Others == string(gpu.OthersAvoid), "others", "%s", h.Others)
	for _, hours := range h.Hours {
		add(true, "hours", "%s", hours)
	}
	add(true, "schedule", "%s; your priority is %d", h.Schedule, h.Priority)
	add(true, "courtesy", "%s", spell(h.Courtesy))
	add(true, "patience", "%s, then gather for %s", spell(h.Patience), spell(h.Gather))
	fmt.Fprintf(w, "rules of this host (%s):\n", h.File)
	table(w, rows)
}
