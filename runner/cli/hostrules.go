package cli

import (
	"fmt"
	"io"
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

// printRules prints the host rules that apply to this user, if there are any.
func printRules(w io.Writer, pool *gpu.Pool) {
	if h := pool.Host(); h.File != "" {
		fmt.Fprintf(w, "rules of this host (%s):\n", h.File)
		table(w, hostRows(h, pool.Held()))
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
		r.Hours = append(r.Hours, hoursWords(&hours))
	}
	return r
}

// hoursWords returns "GPU 6: Mon-Fri 20:00-08:00".
func hoursWords(h *gpu.DeviceHours) string {
	devices := "all GPUs"
	if h.Devices != nil {
		devices = "GPU " + strings.Join(h.Devices, ",")
	}
	return devices + ": " + h.Hours.String()
}

// hostRows returns rows with the rules for this user, who holds held GPUs, for gpurun gpus.
func hostRows(h *gpu.HostRules, held int) (rows [][]string) {
	add := func(given bool, key, format string, args ...any) {
		if given {
			rows = append(rows, []string{"  " + key, fmt.Sprintf(format, args...)})
		}
	}
	you := h.User(host.CurrentUID(), time.Now())
	limit, _, _ := strings.Cut(you.LimitedBy, " (")
	add(h.Devices != nil, "devices", "%s", strings.Join(h.Devices, ","))
	add(h.Reserve > 0, "reserve", "%d", h.Reserve)
	add(you.MaxGPUs >= 0, "your GPUs", "%s; you hold %d", limit, held)
	add(h.MaxGPUsPerJob >= 0, "max_gpus_per_job", "%d", h.MaxGPUsPerJob)
	add(h.MaxTimeout > 0, "max_timeout", "%s", source.FormatDuration(h.MaxTimeout))
	add(h.Others == gpu.OthersAvoid, "others", "%s", h.Others)
	for _, hours := range h.Hours {
		add(true, "hours", "%s", hoursWords(&hours))
	}
	add(true, "schedule", "%s; your priority is %d", h.Schedule, you.Priority)
	add(true, "courtesy", "%s", source.FormatDuration(h.Courtesy))
	add(true, "patience", "%s, then gather for %s", source.FormatDuration(h.Patience), source.FormatDuration(h.Gather))
	return rows
}
