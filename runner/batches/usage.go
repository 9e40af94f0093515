package batches

import (
	"cmp"
	"fmt"
	"time"

	"gpurun/gpu"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

// Readings returns the GPU readings of the batch. A run of several files keeps them with the first
// one.
func (ref *Ref) Readings() *state.GPUReadings {
	g := &state.GPUReadings{}
	for i := range ref.Files() {
		if one := disk.GPUReadings(ref.Folder(i)); len(one.Rows) > len(g.Rows) {
			g = one
		}
	}
	return g
}

// Usage returns how the batch's GPU time was used.
func (p *runLog) Usage(g *state.GPUReadings, now time.Time) *schema.BatchUsage {
	var runs, held []state.GPUHolding
	var wall, longest time.Duration
	for i, e := range p.Runs {
		r := state.GPUHolding{From: e.Run.Time.UnixNano(), To: e.Last.UnixNano(), Usable: e.Run.Usable}
		if p.ref.Alive && i == len(p.Runs)-1 {
			r.To = now.UnixNano()
		}
		runs, wall = append(runs, r), wall+time.Duration(r.To-r.From)
	}
	u, cluster := &schema.BatchUsage{Head: schema.At(now), Unknown: []string{}, Advice: []string{}}, false
	for _, x := range p.Attempts {
		until := now
		if p.after.Away[x.UniID] != "" && x.Began != nil {
			until = x.Began.Last
		}
		if h := x.Holding(until); len(h.GPUs) > 0 {
			held, longest, cluster = append(held, h), max(longest, time.Duration(h.To-h.From)), cluster || x.Engine != ""
		}
	}
	parts, all := state.GPUUses(runs, held, g)
	u.Parts, u.Time = schema.List(parts), all
	if cluster {
		u.Unknown = append(u.Unknown, "on a cluster, gpurun sees which GPUs these jobs held, but not how busy GPUs were, which were free, or what other users used")
	} else if len(held) > 0 && len(g.Rows) == 0 {
		u.Unknown = append(u.Unknown, "no GPU readings, so GPU utilization and other users' share are unknown")
	}
	p.adviseMemory(u)
	n, text := slotsFor(g)
	shorter := max(wall/time.Duration(n), longest)
	if set := p.ref.Batch != nil && p.ref.Batch.Settings.Slots > 0; !set && n > 1 && 4*shorter <= 3*wall {
		if !p.ref.Alive {
			text += fmt.Sprintf(" (at best, the run takes %s instead of %s)", state.Spell(shorter), state.Spell(wall))
		}
		u.Advice = append(u.Advice, text)
	}
	return u
}

// slotsFor returns how many jobs could share a GPU, and advice to set slots to that number. It uses
// the readings of GPUs that one job used alone.
func slotsFor(g *state.GPUReadings) (n int, text string) {
	var util, read float64
	var peak, total gpu.Bytes
	for _, d := range g.Devices {
		for _, r := range g.Of(d.UUID) {
			switch {
			case r.Jobs > 1:
				return 1, ""
			case r.Jobs == 1 && !r.Others && !r.Idle && r.Util != nil && r.Ours != nil:
				util, read, peak, total = util+*r.Util, read+1, max(peak, gpu.Bytes(*r.Ours)*gpu.MiB), min(cmp.Or(total, d.Total), d.Total)
			}
		}
	}
	if read*g.Step.Minutes() < 10 {
		return 1, ""
	}
	for util, n = util/read, 4; n > 1 && (gpu.Bytes(n)*peak.Ample() > total || float64(n)*util > 90); {
		n--
	}
	return n, fmt.Sprintf("%.0f%% busy, %s of %s used: try `slots: %d`", util, peak.Round(), total.Round(), n)
}

// adviseMemory adds the gpu_memory that jobs of an entry should request, if they request far more
// than they use. If there are several such entries, it picks the one with the most jobs or, on a
// tie, the first.
func (p *runLog) adviseMemory(u *schema.BatchUsage) {
	type entry struct {
		file, line int
		asked      gpu.Bytes
	}
	var order []entry
	jobs, all := map[entry]int{}, map[entry]schema.Demand{}
	for i := 0; p.ref.Batch != nil && i < len(p.ref.Batch.Jobs); i++ {
		j := &p.ref.Batch.Jobs[i]
		r := p.ref.History.Of(j.File, j.Key.String())
		if r == nil || r.PeakMemory <= 0 || j.Spec.DefaultMemory || j.Spec.LeastMemory {
			continue
		}
		at := entry{j.File, j.Line(), j.Spec.Request.Memory}
		if jobs[at]++; jobs[at] == 1 {
			order = append(order, at)
		}
		d := all[at]
		all[at] = schema.Demand{Asked: at.asked, Peak: max(d.Peak, r.PeakMemory), Readings: d.Readings + r.PeakReadings}
	}
	most := 0
	for _, at := range order {
		if d := all[at]; d.TooMuch() && jobs[at] > most {
			most = jobs[at]
			u.Advice = []string{fmt.Sprintf("%s requested %s but peaked at %s: `gpu_memory: %s`",
				state.Count(most, "job"), d.Asked.Asked(), d.Peak.Round(), d.Peak.Ample())}
		}
	}
}
