package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/runner/terminal"
	"gpurun/state/host"
)

type gpusCmd struct {
	gpuFlags  `embed:""`
	needFlags `embed:""`
	Watch     bool     `short:"w" help:"Redraw until Ctrl-C."`
	JSON      bool     `name:"json" help:"Print the GPUs as JSON."`
	Clear     []string `placeholder:"GPU" help:"Lift your own quarantine of a GPU: its index or UUID."`
}

// needFlags describe what one job needs, for commands without a job file.
type needFlags struct {
	GPUMemory memoryFlag  `name:"gpu-memory" short:"m" default:"8000MiB" placeholder:"SIZE" help:"Free memory each GPU needs; a bare number is MiB (${default})."`
	MaxUtil   percentFlag `default:"30" placeholder:"PERCENT" help:"Highest utilization a GPU may have (${default})."`
	GPUIDs    string      `name:"gpu-ids" placeholder:"IDS" help:"Use only these GPUs: 0,2-3 or UUIDs."`
	Model     []string    `placeholder:"NAME" help:"Use only GPUs whose name contains NAME."`
	Others    string      `enum:"allow,avoid" default:"allow" placeholder:"allow|avoid" help:"Whether to use GPUs that run other users' processes."`
	Share     bool        `help:"Share a GPU with other jobs as long as its memory suffices."`
	Pick      string      `enum:"most-free,least-util,first-fit,best-fit,round-robin" default:"most-free" placeholder:"POLICY" help:"How to choose among the GPUs that fit: ${enum}."`
}

// Help returns the command's description and examples.
func (gpusCmd) Help() string {
	return `Takes one reading, and checks each GPU against the limits you give. If runs wait for GPUs, their order follows: "next: bob (holds 1, waits since 14:02), then you". If the owner of this host has set rules, those in force for you come last.

Examples:

    gpurun gpus
    gpurun gpus -w
    gpurun gpus --gpu-memory 40GiB --max-util 10
    gpurun gpus --clear 3                          use GPU 3 again before its quarantine ends
    gpurun gpus --sim 4x24GiB --json`
}

// request returns what the flags ask for, on c GPUs.
func (n *needFlags) request(c countFlag) gpu.Request {
	r := gpu.Request{Min: c.min, Max: c.max, Memory: gpu.Bytes(n.GPUMemory), MaxUtil: int(n.MaxUtil), Models: gpu.NamesOf(n.Model), Share: n.Share}
	if n.Share {
		r.MaxUtil = 100
	}
	return r
}

// pool returns a pool of the devices that the flags and the environment leave. They
// are read every poll, or once if that is 0; atOnce is as in gpu.Rules.
func (n *needFlags) pool(p probe.Prober, h hostRules, sim bool, poll time.Duration, atOnce bool) (*gpu.Pool, error) {
	var ids []string
	if n.GPUIDs != "" {
		ids = strings.Split(n.GPUIDs, ",")
	}
	in := inheritedGPUs(sim)
	ids, err := in.managed(p.Devices(), ids)
	if err != nil {
		return nil, err
	}
	return gpu.NewPool(p.Devices(), gpu.Rules{
		Host: h.HostRules, IDs: ids, MinGPUs: -1, MaxGPUs: -1, Others: h.others(gpu.Others(n.Others)), Pick: gpu.Pick(n.Pick), UID: host.Me(), Run: runID(),
		Poll: poll, AtOnce: atOnce,
	}), nil
}

// Run shows the GPUs, once or until Ctrl-C.
func (c *gpusCmd) Run(a *app) error {
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
	pool, err := c.pool(p, rules, c.Sim != "", 0, true)
	if err != nil {
		return err
	}
	a.tellHost(rules)
	claims := spectatorOf(p)
	if len(c.Clear) > 0 {
		return c.clear(ctx, a, p, claims)
	}
	look := func() (gpuTable, error) {
		snap := a.observed(ctx, p, rules, claims)
		for _, u := range claims.Usages() {
			pool.Recall(nil, u.Idle)
		}
		answered()
		return c.look(p, pool, snap)
	}
	if c.Watch {
		return c.watch(ctx, a, p, pool, look)
	}
	t, err := look()
	if err := cmp.Or(context.Cause(ctx), err); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(a.out, t.rows)
	}
	fmt.Fprintln(a.out, p.Version())
	c.print(a.out, t.rows)
	printNext(a.out, t.next)
	printRules(a.out, pool)
	return nil
}

// A gpuTable is what gpus shows.
type gpuTable struct {
	rows []gpuRow
	next []gpuNext // who waits, in which order
}

// A gpuRow is one device of gpus --json. Unknown numbers are -1.
type gpuRow struct {
	Index   int        `json:"index"`
	UUID    gpu.UUID   `json:"uuid"`
	Name    string     `json:"name"`
	PCI     string     `json:"pci,omitempty"`
	MIG     bool       `json:"mig,omitempty"`
	Total   gpu.Bytes  `json:"memory_total_bytes"`
	Used    gpu.Bytes  `json:"memory_used_bytes"`
	Free    gpu.Bytes  `json:"memory_free_bytes"`
	Util    int        `json:"utilization_percent"`
	Error   string     `json:"error,omitempty"`
	Managed bool       `json:"managed"`
	Lets    bool       `json:"lets_on"`
	Reason  string     `json:"reason,omitempty"`
	Note    string     `json:"note,omitempty"` // what the verdict could not take into account
	Users   []gpuUser  `json:"processes"`
	Claims  []gpuClaim `json:"claims,omitempty"`
	Sick    []gpuSick  `json:"quarantines,omitempty"`
	Remap   bool       `json:"row_remap_pending,omitempty"`
	Next    []gpuNext  `json:"waiting,omitempty"`    // for this device, in their order
	Rules   *gpuRules  `json:"host_rules,omitempty"` // in force for this user; in every row the same
}

type gpuUser struct {
	PID     int       `json:"pid"`
	User    string    `json:"user"`
	Command string    `json:"command"`
	Memory  gpu.Bytes `json:"memory_bytes"`
	Idle    float64   `json:"idle_seconds"` // for how long its GPU is known to have done nothing since it began; -1 if it is busy or unknown
}

type gpuClaim struct {
	User   string    `json:"user"`
	Job    string    `json:"job"`
	PID    int       `json:"pid"`
	Memory gpu.Bytes `json:"memory_bytes"`
	Since  time.Time `json:"since"`
	Over   bool      `json:"over,omitempty"` // the job has ended, and its GPU passes to its run's next job

	Gathering bool `json:"gathering,omitempty"` // kept for this job, which needs more
}

type gpuSick struct {
	User     string    `json:"user"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Why      string    `json:"why"`
	Evidence []string  `json:"evidence,omitempty"`
}

// look judges a reading. It includes devices that are not managed: they are part of
// the machine, too.
func (c *gpusCmd) look(p probe.Prober, pool *gpu.Pool, snap gpu.Observation) (t gpuTable, err error) {
	if snap.Err != "" {
		return t, &failure{code: exitUsage, text: "the GPUs cannot be read: " + snap.Err}
	}
	pool.Observe(snap)
	verdicts := map[gpu.UUID]gpu.Verdict{} // of those that are managed
	for _, v := range pool.Admit(snap.At, c.request(countFlag{1, 1})) {
		verdicts[v.UUID] = v
	}
	t.rows, t.next = []gpuRow{}, waitingRuns(pool, &snap, c.request(countFlag{1, 1}))
	rules := rulesFor(pool)
	for _, d := range p.Devices() {
		var r gpu.Reading
		if i := slices.IndexFunc(snap.Readings, func(r gpu.Reading) bool { return r.UUID == d.UUID }); i >= 0 {
			r = snap.Readings[i]
		}
		row := rowOf(d, r, &snap)
		if since, ok := pool.IdleSince(d.UUID); ok {
			row.idle(snap.At, since)
		}
		v, managed := verdicts[d.UUID]
		if !managed {
			v.Reason = "not selected by --gpu-ids or CUDA_VISIBLE_DEVICES"
		}
		row.Managed, row.Lets, row.Reason, row.Note = managed, v.OK, v.Reason, v.Note
		for _, n := range t.next {
			if n.Run != hypothetical && slices.Contains(n.uuids, d.UUID) {
				row.Next = append(row.Next, n)
			}
		}
		if row.Lets && len(row.Next) > 0 && row.Note == "" {
			row.Note = "after those who wait"
		}
		row.Rules = rules
		t.rows = append(t.rows, row)
	}
	return t, nil
}

func rowOf(d gpu.Device, r gpu.Reading, snap *gpu.Observation) gpuRow {
	row := gpuRow{
		Index: d.Index, UUID: d.UUID, Name: d.Name, PCI: d.PCI, MIG: d.MIG,
		Total: d.Total, Used: r.Used, Free: r.Free, Util: -1, Error: r.Err, Users: []gpuUser{},
	}
	if r.Used < 0 && r.Free >= 0 && r.Total > 0 {
		row.Used = r.Total - r.Free
	}
	if n := len(r.Samples); n > 0 {
		row.Util = r.Samples[n-1].Percent
	}
	for _, p := range r.Processes {
		uid := "?"
		if p.UID >= 0 {
			uid = fmt.Sprint(p.UID)
		}
		row.Users = append(row.Users, gpuUser{p.PID, cmp.Or(p.User, uid), p.Command, p.Memory, -1})
	}
	for _, c := range snap.Claims {
		if c.UUID == d.UUID {
			row.Claims = append(row.Claims, gpuClaim{c.User, c.Job, c.PID, c.Memory, c.Since, c.To != "", c.Gathering})
		}
	}
	for _, q := range snap.Sick {
		if q.UUID == d.UUID && q.Ends > snap.At {
			row.Sick = append(row.Sick, gpuSick{q.User, q.Since, q.Until, q.Why, q.Evidence})
		}
	}
	row.Remap = r.Health != nil && r.Health.Remap
	return row
}

// idle records that the device has done nothing since some time. A process that began later
// has been idle for as long as it runs.
func (r *gpuRow) idle(now, since time.Duration) {
	for i := range r.Users {
		u, from := &r.Users[i], since
		if st, ok := host.StatOf(u.PID); ok && !r.UUID.Simulated() {
			from = max(from, time.Duration(st.Start)*time.Second/clockTicks)
		}
		u.Idle = max(0, now-from).Seconds()
	}
}

// clockTicks is how many the kernel counts to a second in /proc; on Linux, for all programs.
const clockTicks = 100

// idleWords returns "0% for 9h12m", "0% now", or "".
func (u *gpuUser) idleWords() string {
	switch {
	case u.Idle < 0:
		return ""
	case u.Idle < 60:
		return "0% now"
	}
	return "0% for " + terminal.Seconds(u.Idle)
}

// print writes the table. Below each GPU come its processes and claims, a line each.
func (c *gpusCmd) print(w io.Writer, rows []gpuRow) {
	cells := [][]string{{"GPU", "NAME", "MEMORY", "UTIL", "FITS " + gpu.Bytes(c.GPUMemory).String() + " JOB"}}
	for _, r := range rows {
		memory, util, verdict := "?", "?", "no: "+terminal.CleanText(r.Reason)
		if r.Error == "" {
			memory = memoryWords(r.Used) + " / " + memoryWords(r.Total)
		}
		if r.Util >= 0 {
			util = fmt.Sprintf("%d%%", r.Util)
		}
		if r.Lets {
			verdict = strings.TrimSuffix("yes, "+r.Note, ", ")
		}
		cells = append(cells, []string{fmt.Sprint(r.Index), onGPU(r.Name), memory, util, verdict})
		for _, u := range r.Users {
			cells = append(cells, []string{"", "  " + onGPU(u.User+" "+u.Command), memoryWords(u.Memory), u.idleWords(), fmt.Sprintf("pid %d", u.PID)})
		}
		for _, cl := range r.Claims {
			who := cl.User + ", " + cl.Job
			if cl.Over {
				who = cl.User + ", for the job after " + cl.Job
			}
			word := "held by "
			if cl.Gathering {
				word = "gathered by "
			}
			cells = append(cells, []string{"", "  " + onGPU(word+who), memoryWords(cl.Memory), "", "since " + cl.Since.Local().Format("15:04")})
		}
		for _, q := range r.Sick {
			cells = append(cells, []string{"", "  " + onGPU("quarantined by "+q.User), "", "", "until " + q.Until.Local().Format("15:04") + ": " + terminal.CleanText(q.Why)})
		}
		if r.Remap {
			cells = append(cells, []string{"", "  memory row remap pending", "", "", "until the GPU is reset"})
		}
	}
	table(w, cells)
}

// onGPU shortens a name in the table: others choose it, and must not widen the table.
func onGPU(name string) string { return terminal.FitMiddle(terminal.CleanText(name), 36) }

func memoryWords(b gpu.Bytes) string {
	if b < 0 {
		return "?"
	}
	return b.Round()
}

// watch redraws the table until Ctrl-C.
func (c *gpusCmd) watch(ctx context.Context, a *app, p probe.Prober, pool *gpu.Pool, look func() (gpuTable, error)) error {
	screen := a.screen()
	for {
		t, err := look()
		if ctx.Err() != nil {
			return nil
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s  %s\n", time.Now().Format("15:04:05"), p.Version())
		if err != nil {
			fmt.Fprintln(&b, err)
		}
		c.print(&b, t.rows)
		printNext(&b, t.next)
		printRules(&b, pool)
		if err := screen.Draw(strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")); err != nil {
			return nil // nobody is reading
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
	}
}
