package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/host"
	"gpurun/state/schema"
)

type queueCmd struct {
	gpuFlags `embed:""`
	JSON     bool `name:"json" help:"Print the queue as JSON."`
}

func (queueCmd) Help() string {
	return helpText(
		`The user who holds the fewest GPUs comes first, unless the host's rules say "schedule: fifo".`,
		"gpurun queue",
		"gpurun queue --json")
}

func (c *queueCmd) Run(a *app) error {
	return a.withGPUs(&c.gpuFlags, c.show)
}

func (c *queueCmd) show(ctx context.Context, a *app, p probe.Prober, answered func()) error {
	rules := session.HostRulesOf(p)
	a.printHostNotes(rules)
	pool := gpu.NewPool(p.Devices(), gpu.Rules{Host: rules.HostRules, MinGPUs: -1, MaxGPUs: -1, UID: host.CurrentUID(), AtOnce: true})
	snap := session.Observe(ctx, p, rules, session.ReadOnlyClaimsOf(p), a.Warn)
	answered()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	pool.Observe(snap)
	rows := []schema.Waiter{}
	for i, place := range pool.Turns.Queue(snap.At) {
		row := waiterOf(i, &place)
		row.Text = schema.Known(whyWaiting(i, &place))
		rows = append(rows, row)
	}
	if c.JSON {
		return writeJSON(a.out, schema.Queue{Head: schema.At(time.Now()), Waiting: rows})
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.out, "no run is waiting for a GPU")
		return nil
	}
	printQueue(a.out, rows)
	return nil
}

// waiterOf describes the run at position i of the queue, counted from 0.
func waiterOf(i int, p *gpu.Place) schema.Waiter {
	w := schema.Waiter{
		Position: i + 1, User: gpu.UserName(p.User, p.UID), You: p.UID == host.CurrentUID(), Run: schema.Known(p.Run), Name: schema.Known(p.Name), Since: p.Since.UTC(), Holds: p.Holds,
		Background: p.Background, Requests: []schema.GPURequest{}, Start: schema.Time(p.Start),
	}
	for _, a := range p.Requests {
		w.Requests = append(w.Requests, schema.GPURequest{Jobs: a.Jobs, GPUs: a.Min, Memory: a.Memory, Share: a.Share, UUIDs: schema.List(a.UUIDs)})
	}
	return w
}

// whyWaiting explains why the first request of a run is still waiting for GPUs.
func whyWaiting(i int, p *gpu.Place) string {
	a, free := &p.Requests[0], 0
	var reasons []string
	gpus := map[string][]string{} // by reason
	for _, v := range p.Verdicts {
		if v.OK {
			free++
			continue
		}
		if gpus[v.Reason] == nil {
			reasons = append(reasons, v.Reason)
		}
		gpus[v.Reason] = append(gpus[v.Reason], strconv.Itoa(v.Index))
	}
	var parts []string
	switch {
	case a.Room < a.Min:
		parts = append(parts, fmt.Sprintf("limits allow only %s", state.Count(a.Room, "GPU")))
	case free >= a.Min && i == 0:
		parts = append(parts, "its turn")
	case free >= a.Min:
		parts = append(parts, "others are ahead")
	case free > 0:
		parts = append(parts, fmt.Sprintf("%d of %d free", free, a.Min))
	}
	for _, r := range reasons {
		parts = append(parts, "GPU "+strings.Join(gpus[r], ",")+": "+r)
	}
	return strings.Join(parts, "; ")
}

// printQueue prints a line for each waiting run.
func printQueue(w io.Writer, rows []schema.Waiter) {
	cells := [][]string{{"", "USER", "SINCE", "HOLDS", "WAITS FOR", "START", "WHY"}}
	for _, r := range rows {
		who, start := onGPU(r.User), "unknown"
		if r.You {
			who += " (you)"
		}
		if r.Name != nil {
			who += ", " + onGPU(*r.Name)
		}
		if r.Background {
			who += ", background"
		}
		switch {
		case r.Start != nil && time.Until(*r.Start) <= 0:
			start = "now"
		case r.Start != nil:
			start = "by " + gpu.Clock(*r.Start, time.Now())
		}
		cells = append(cells, []string{
			strconv.Itoa(r.Position), who, gpu.Clock(r.Since, time.Now()), gpusHeld(r.Holds), asksFor(&r), start, terminal.CleanText(schema.Value(r.Text)),
		})
	}
	table(w, cells)
}

// asksFor describes the needs of the next job: "2 GPUs with 40 GiB each, and other jobs".
func asksFor(r *schema.Waiter) string {
	a := r.Requests[0]
	s := state.Count(a.GPUs, "GPU") + " with " + a.Memory.Round()
	switch {
	case a.GPUs == 0:
		s = "cores, memory"
	case a.GPUs > 1:
		s += " each"
	}
	if len(r.Requests) > 1 {
		s += ", and other jobs"
	}
	return s
}

// gpusHeld formats a number of GPUs, which has a fraction if a GPU is shared.
func gpusHeld(load float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(load, 'f', 1, 64), ".0")
}

// waitingRuns returns the waiting runs in the order of the queue. If none of them is this user's,
// it inserts a hypothetical run of this user at its position, unless the queue is empty.
func waitingRuns(pool *gpu.Pool, snap *gpu.Observation, req gpu.Request) []schema.Waiter {
	list := []schema.Waiter{}
	if !pool.Turns.HasRivals() {
		return list
	}
	me := host.CurrentUID()
	if !slices.ContainsFunc(snap.Wishes, func(w gpu.Wish) bool { return w.UID == me && len(w.Requests) > 0 }) {
		ask := pool.WishRequest(snap.At, req, 1, pool.Sick())
		pool.Turns.SetWish(gpu.Wish{Run: hypothetical, UID: me, Since: time.Now(), Requests: []gpu.WishRequest{ask}})
		defer pool.Turns.SetWish(gpu.Wish{})
	}
	for i, p := range pool.Turns.Queue(snap.At) {
		w := waiterOf(i, &p)
		if p.Run == hypothetical {
			w.Run = nil
		}
		list = append(list, w)
	}
	return list
}

// hypothetical is the ID of the run that waitingRuns inserts.
const hypothetical = "gpurun gpus"

// maxNext is how many waiting runs gpurun gpus lists, apart from this user's.
const maxNext = 5

// printNext prints "next: bob (holds 1, waiting since 14:02), then you".
func printNext(w io.Writer, list []schema.Waiter) {
	var names []string
	for i, n := range list {
		name := terminal.CleanText(n.User)
		switch {
		case n.Run == nil:
			name = "you, if you were waiting"
		case n.You:
			name = "you"
		}
		if n.Run != nil {
			name += fmt.Sprintf(" (holds %s, waiting since %s)", gpusHeld(n.Holds), gpu.Clock(n.Since, time.Now()))
		}
		if i < maxNext || n.You {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		s := "next: " + strings.Join(names, ", then ")
		if more := len(list) - len(names); more > 0 {
			s += fmt.Sprintf("; %d more (gpurun queue)", more)
		}
		fmt.Fprintln(w, s)
	}
}
