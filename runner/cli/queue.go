package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/runner/terminal"
	"gpurun/state/host"
)

type queueCmd struct {
	gpuFlags `embed:""`
	JSON     bool `name:"json" help:"Print the queue as JSON."`
}

// Help returns the command's description and examples.
func (queueCmd) Help() string {
	return `The runs of all users that wait for GPUs, in the order in which the next GPU is offered to them: whoever holds fewest goes first, or whoever has waited longest where the host says "schedule: fifo". A run whose jobs cannot use a GPU is passed by those behind it. START is what can be told from when running jobs are over at the latest; most do not say it.

Examples:

    gpurun queue
    gpurun queue --json`
}

// Run prints who waits.
func (c *queueCmd) Run(a *app) error {
	ctx, stop := a.untilSignal()
	defer stop()
	answered := a.unlessDriverSoon(c.Sim != "")
	defer answered()
	p, err := a.openProber(ctx, &c.gpuFlags, zerolog.Nop())
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer p.Close()
	rules := hostRulesFor(p)
	a.tellHost(rules)
	pool := gpu.NewPool(p.Devices(), gpu.Rules{Host: rules.HostRules, MinGPUs: -1, MaxGPUs: -1, UID: host.Me(), AtOnce: true})
	snap := a.observed(ctx, p, rules, spectatorOf(p))
	answered()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	pool.Observe(snap)
	rows := []waitRow{}
	for i, place := range pool.Queue(snap.At) {
		rows = append(rows, waitRowOf(i, &place))
	}
	if c.JSON {
		return writeJSON(a.out, rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.out, "no run waits for a GPU")
		return nil
	}
	printQueue(a.out, rows)
	return nil
}

// A waitRow is a run that waits, for queue --json.
type waitRow struct {
	Position   int        `json:"position"`
	User       string     `json:"user"`
	You        bool       `json:"you"`
	Run        string     `json:"run"`
	Since      time.Time  `json:"waits_since"`
	Holds      float64    `json:"holds_gpus"` // the user, by all runs and programs
	Background bool       `json:"background,omitempty"`
	Asks       []gpuAsk   `json:"requests"`
	Start      *time.Time `json:"expected_start"` // null if unknown
	Why        string     `json:"reason"`
}

type gpuAsk struct {
	Jobs   int        `json:"jobs"` // alike, as far as there are GPUs for them
	GPUs   int        `json:"gpus"`
	Memory gpu.Bytes  `json:"memory_bytes"`
	Share  bool       `json:"share,omitempty"`
	UUIDs  []gpu.UUID `json:"uuids"`
}

func waitRowOf(i int, p *gpu.Place) waitRow {
	row := waitRow{
		Position: i + 1, User: userOf(&p.Wish), You: p.UID == host.Me(), Run: p.Run, Since: p.Since, Holds: p.Holds,
		Background: p.Background, Asks: []gpuAsk{}, Why: whyWaiting(i, p),
	}
	for _, a := range p.Asks {
		row.Asks = append(row.Asks, gpuAsk{a.Jobs, a.Min, a.Memory, a.Share, a.UUIDs})
	}
	if !p.Start.IsZero() {
		row.Start = &p.Start
	}
	return row
}

func userOf(w *gpu.Wish) string { return cmp.Or(w.User, "uid "+strconv.Itoa(w.UID)) }

// whyWaiting says what keeps the first request of a run from the GPUs that it could use.
func whyWaiting(i int, p *gpu.Place) string {
	a, free := &p.Asks[0], 0
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
		parts = append(parts, fmt.Sprintf("limits leave it %s", count(a.Room, "GPU")))
	case free >= a.Min && i == 0:
		parts = append(parts, "its turn")
	case free >= a.Min:
		parts = append(parts, "others come first")
	case free > 0:
		parts = append(parts, fmt.Sprintf("%d of %d free", free, a.Min))
	}
	for _, r := range reasons {
		parts = append(parts, "GPU "+strings.Join(gpus[r], ",")+": "+r)
	}
	return strings.Join(parts, "; ")
}

// printQueue writes a line for each run that waits.
func printQueue(w io.Writer, rows []waitRow) {
	cells := [][]string{{"", "USER", "SINCE", "HOLDS", "WAITS FOR", "START", "WHY"}}
	for _, r := range rows {
		who, start := onGPU(r.User), "unknown"
		if r.You {
			who += " (you)"
		}
		if r.Background {
			who += ", background"
		}
		switch {
		case r.Start != nil && time.Until(*r.Start) <= 0:
			start = "now"
		case r.Start != nil:
			start = "by " + clock(*r.Start)
		}
		cells = append(cells, []string{
			strconv.Itoa(r.Position), who, clock(r.Since), gpusHeld(r.Holds), r.wants(), start, terminal.CleanText(r.Why),
		})
	}
	table(w, cells)
}

// wants says what the next job needs: "2 GPUs with 40 GiB each, and other jobs".
func (r *waitRow) wants() string {
	a := r.Asks[0]
	s := count(a.GPUs, "GPU") + " with " + a.Memory.Round()
	if a.GPUs > 1 {
		s += " each"
	}
	if len(r.Asks) > 1 {
		s += ", and other jobs"
	}
	return s
}

// gpusHeld returns a load for people: whole GPUs, or shares of them.
func gpusHeld(load float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(load, 'f', 1, 64), ".0")
}

// clock returns a moment as people say it today.
func clock(t time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format("Jan 2 15:04")
}

// A gpuNext is one who waits for a device, for gpus --json.
type gpuNext struct {
	User  string    `json:"user"`
	You   bool      `json:"you"`
	Run   string    `json:"run"`
	Since time.Time `json:"waits_since"`
	Holds float64   `json:"holds_gpus"`

	uuids []gpu.UUID // that could do
}

// hypothetical is the run of a person who asks where they would stand.
const hypothetical = "gpurun gpus"

// waitingRuns returns the runs that wait, in their order. If none of this user's does, the
// place of one that would is among them, provided that anybody waits.
func waitingRuns(pool *gpu.Pool, snap *gpu.Observation, req gpu.Request) (list []gpuNext) {
	if len(snap.Wishes) == 0 {
		return nil
	}
	me := host.Me()
	if !slices.ContainsFunc(snap.Wishes, func(w gpu.Wish) bool { return w.UID == me }) {
		ask := pool.Ask(snap.At, req, 1, nil)
		pool.Want(gpu.Wish{Run: hypothetical, UID: me, Since: time.Now(), Asks: []gpu.Ask{ask}})
		defer pool.Want(gpu.Wish{})
	}
	for _, p := range pool.Queue(snap.At) {
		n := gpuNext{User: userOf(&p.Wish), You: p.UID == me, Run: p.Run, Since: p.Since, Holds: p.Holds}
		for _, a := range p.Asks {
			n.uuids = append(n.uuids, a.UUIDs...)
		}
		list = append(list, n)
	}
	return list
}

// maxNext is how many of those who wait gpus names.
const maxNext = 5

// printNext prints "next: bob (holds 1, waits since 14:02), then you".
func printNext(w io.Writer, list []gpuNext) {
	var names []string
	for i, n := range list {
		name := terminal.CleanText(n.User)
		switch {
		case n.Run == hypothetical:
			name = "you, if you waited"
		case n.You:
			name = "you"
		}
		if n.Run != hypothetical {
			name += fmt.Sprintf(" (holds %s, waits since %s)", gpusHeld(n.Holds), clock(n.Since))
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
