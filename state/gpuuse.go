package state

import (
	"cmp"
	"slices"
	"time"

	"gpurun/gpu"
)

// UseKind is a way in which GPU time was used or lost.
type UseKind string

const (
	UseUseful  UseKind = "useful"                 // attempts that succeeded, or continued with a different number of GPUs
	UseRunning UseKind = "running"                // attempts that are still running
	UsePruned  UseKind = "pruned"                 // attempts that prune stopped
	UseIdle    UseKind = "stalled_or_idle"        // attempts of any kind while stalled, or while a GPU was less than 5% busy for over 5 minutes
	UseFailed  UseKind = "failed_and_retried"     // attempts that failed, were stopped or had to start over
	UseWaiting UseKind = "free_while_jobs_waited" // unused, although a job was ready to start
	UseFree    UseKind = "free_otherwise"         // unused for any other reason
	UseOthers  UseKind = "others"                 // other users, and programs outside the run
)

// GPUUse is an amount of GPU time of one kind.
type GPUUse struct {
	Kind    UseKind  `json:"kind"`
	Code    gpu.Code `json:"code"` // for free_while_jobs_waited: the reason; for free_otherwise: "unread" for time without readings, when no job waited; else ""
	User    string   `json:"user"` // for others, if known; else ""
	Seconds float64  `json:"gpu_seconds"`
}

// A GPUHolding is a period, in nanoseconds since 1970, during which an attempt held GPUs or a run
// could use some number of them.
type GPUHolding struct {
	From, To int64
	GPUs     []gpu.UUID
	Kind     UseKind // kind of the time that was not stalled or idle
	Stalled  []int64 // when it stalled and resumed, in turn
	Usable   int     // for a run: how many GPUs it could use
}

// GPUUses adds up how the time of all usable GPUs was used during some runs, which must not
// overlap, and the time of GPUs held outside of runs. Attempts that share a GPU split its time
// equally.
func GPUUses(runs, held []GPUHolding, g *GPUReadings) (list []GPUUse, seconds float64) {
	sums, unread, holds := map[GPUUse]int64{}, map[int]int64{}, map[gpu.UUID][]GPUHolding{}
	for i, r := range runs {
		unread[i] = int64(r.Usable) * max(0, r.To-r.From)
	}
	for _, d := range g.Devices {
		holds[d.UUID] = nil
	}
	for _, h := range held {
		for _, id := range h.GPUs {
			holds[id] = append(holds[id], h)
		}
	}
	for id, held := range holds {
		rows, cuts, on := g.Of(id), []int64(nil), []GPUHolding(nil)
		for _, h := range slices.Concat(runs, held) {
			cuts = append(append(cuts, h.From, h.To), h.Stalled...)
		}
		for at := range rows {
			cuts = append(cuts, at, at+int64(g.Step))
		}
		slices.Sort(cuts)
		slices.SortStableFunc(held, func(x, y GPUHolding) int { return cmp.Compare(x.From, y.From) })
		for i := range max(1, len(cuts)) - 1 { // no holding begins or ends within a piece
			at, length := cuts[i], cuts[i+1]-cuts[i]
			for ; len(held) > 0 && held[0].From <= at; held = held[1:] {
				on = append(on, held[0])
			}
			on = slices.DeleteFunc(on, func(h GPUHolding) bool { return h.To <= at })
			read := rows[at-at%max(1, int64(g.Step))]
			in := slices.IndexFunc(runs, func(r GPUHolding) bool { return r.From <= at && at < r.To })
			if len(on) == 0 && (in < 0 || read == GPUReading{} || read.Code == gpu.NotManaged) {
				continue
			}
			unread[in] -= length
			if use := (GPUUse{Kind: UseFree}); len(on) == 0 {
				if read.Others || read.User != "" {
					use = GPUUse{Kind: UseOthers, User: read.User}
				} else if read.Code != "" {
					use = GPUUse{Kind: UseWaiting, Code: read.Code}
				}
				sums[use] += length
			}
			for k, h := range on {
				if n, _ := slices.BinarySearch(h.Stalled, at+1); read.Idle || n%2 == 1 {
					h.Kind = UseIdle
				}
				n, k := int64(len(on)), int64(k)
				sums[GPUUse{Kind: h.Kind}] += length*(k+1)/n - length*k/n
			}
		}
	}
	for _, t := range unread {
		sums[GPUUse{Kind: UseFree, Code: gpu.Unread}] += max(0, t)
	}
	for u, t := range sums {
		if u.Seconds = float64(t) / 1e9; t > 0 {
			list, seconds = append(list, u), seconds+u.Seconds
		}
	}
	kinds := []UseKind{UseUseful, UseRunning, UsePruned, UseIdle, UseFailed, UseWaiting, UseFree, UseOthers}
	slices.SortFunc(list, func(a, b GPUUse) int {
		return cmp.Or(slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind), cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Code, b.Code), cmp.Compare(a.User, b.User))
	})
	return list, seconds
}

const idleBelow, idleAfter = 5, 5 * time.Minute // a job's GPU is idle if it is less than idleBelow percent busy for longer than idleAfter

// Of returns a GPU's readings by the start of their step, in nanoseconds since 1970.
func (g *GPUReadings) Of(id gpu.UUID) map[int64]GPUReading {
	d := slices.IndexFunc(g.Devices, func(d GPUReadingDevice) bool { return d.UUID == id })
	rows, quiet := map[int64]GPUReading{}, []int64(nil) // quiet holds consecutive steps in which a job hardly used the GPU
	for _, row := range g.Rows {
		if d < 0 || d >= len(row.GPUs) {
			continue
		}
		at, r := row.Unix*1e9, row.GPUs[d]
		rows[at] = r
		if n := len(quiet); n > 0 && quiet[n-1]+int64(g.Step) != at {
			quiet = nil
		}
		if quiet = append(quiet, at); r.Jobs == 0 || r.Util == nil || *r.Util >= idleBelow {
			quiet = nil
		}
		for i := len(quiet) - 1; i >= 0 && time.Duration(len(quiet))*g.Step > idleAfter && !rows[quiet[i]].Idle; i-- {
			r := rows[quiet[i]]
			r.Idle = true
			rows[quiet[i]] = r
		}
	}
	return rows
}

// Holding returns which GPUs the attempt held, from when to when, and the kind of that time. An open
// attempt holds its GPUs until now.
func (x *AttemptRecord) Holding(now time.Time) GPUHolding {
	h, end, held := GPUHolding{Kind: UseFailed, Stalled: x.Stalled}, x.Fact, GPUTime{}
	switch {
	case x.Open != nil:
		if h.Kind = UseRunning; x.Open.Running != nil {
			end = *x.Open.Running
		}
		end.Began, end.Time = end.BeganAt(), now
	case x.State == Succeeded, x.CauseCode() == CauseResized:
		h.Kind = UseUseful
	case x.State == Pruned:
		h.Kind = UsePruned
	}
	held.AddAttempt(&Fact{Time: x.Start, GPUUUIDs: x.GPUUUIDs}, &end)
	for id, spans := range held {
		h.GPUs, h.From, h.To = append(h.GPUs, id), spans[0].from, spans[0].to
	}
	return h
}
