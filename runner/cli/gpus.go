package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state/schema"
)

type gpusCmd struct {
	gpuFlags  `embed:""`
	needFlags `embed:""`
	Watch     bool     `short:"w" help:"Redraw until Ctrl-C."`
	JSON      bool     `name:"json" help:"Print the GPUs as JSON."`
	Engine    string   `placeholder:"NAME" help:"Show the nodes of a cluster instead: slurm or sge."`
	Clear     []string `placeholder:"GPU" help:"End your quarantine of a GPU, by index or UUID."`
}

// needFlags describe the needs of one job, for commands without a job file.
type needFlags struct {
	GPUMemory memoryFlag  `name:"gpu-memory" short:"m" default:"8000MiB" placeholder:"SIZE" help:"Free memory required on each GPU; a bare number is MiB (default: ${default})."`
	MaxUtil   percentFlag `default:"30" placeholder:"PERCENT" help:"Use only GPUs whose utilization is at most PERCENT (default: ${default})."`
	GPUIDs    string      `name:"gpu-ids" placeholder:"IDS" help:"Use only these GPUs: 0,2-3 or UUIDs (default: your config's)."`
	Model     []string    `placeholder:"NAME" help:"Use only GPUs whose name contains NAME."`
	Others    string      `enum:",allow,avoid" default:"" placeholder:"allow|avoid" help:"Whether to use GPUs with other users' processes (default: your config's)."`
	Share     bool        `help:"Share a GPU with other jobs if its memory allows."`
	Pick      string      `enum:"most-free,least-util,first-fit,best-fit,round-robin" default:"most-free" placeholder:"POLICY" help:"Choose among the GPUs that fit: ${enum} (default: ${default})."`
}

// defaultNeeds are the defaults of needFlags.
var defaultNeeds = needFlags{GPUMemory: memoryFlag(8000 * gpu.MiB), MaxUtil: 30, Pick: string(gpu.MostFree)}

func (gpusCmd) Help() string {
	return helpText("Reads each GPU once and checks it against your limits.",
		"gpurun gpus -w",
		"gpurun gpus --gpu-memory 40GiB --max-util 10",
		"gpurun gpus --clear 3                          # use GPU 3 before its quarantine ends")
}

// request returns the request given by the flags, for c GPUs.
func (n *needFlags) request(c countFlag) gpu.Request {
	r := gpu.Request{Min: c.min, Max: c.max, Memory: gpu.Bytes(n.GPUMemory), MaxUtil: int(n.MaxUtil), Models: gpu.NamesOf(n.Model), Share: n.Share}
	if n.Share {
		r.MaxUtil = 100
	}
	return r
}

// inherit takes the values of missing flags from the user's own settings.
func (n *needFlags) inherit(s *jobspec.Settings) {
	n.GPUIDs, n.Others = cmp.Or(n.GPUIDs, strings.Join(s.GPUIDs, ",")), cmp.Or(n.Others, string(s.Others))
}

// rules returns the GPU rules given by the flags. poll is the time between readings of the GPUs; 0
// means a single reading. For atOnce, see gpu.Rules.
func (n *needFlags) rules(poll time.Duration, atOnce bool) gpu.Rules {
	r := gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Others: gpu.Others(n.Others), Pick: gpu.Pick(n.Pick), Poll: poll, AtOnce: atOnce}
	if n.GPUIDs != "" {
		r.IDs = strings.Split(n.GPUIDs, ",")
	}
	return r
}

// A hostView reads the GPUs of this host, and what the runs of all users have published about them.
type hostView struct {
	probe.Prober
	rules  session.HostRules
	claims session.ReadOnlyClaims
	pool   *gpu.Pool   // read-only
	req    gpu.Request // judged by evaluate
}

// view returns a view with a pool of the devices that the flags, the user's settings and the
// environment allow.
func (n needFlags) view(a *app, p probe.Prober, sim bool) (*hostView, error) {
	s, _ := a.execSettings() // runs report mistakes in them
	n.inherit(&s)
	v := &hostView{Prober: p, rules: session.HostRulesOf(p), claims: session.ReadOnlyClaimsOf(p), req: n.request(countFlag{1, 1})}
	rules, err := v.rules.Rules(n.rules(0, true), p.Devices(), sim)
	v.pool = gpu.NewPool(p.Devices(), rules)
	return v, err
}

func (c *gpusCmd) Run(a *app) error {
	if c.Engine != "" && c.Engine != "local" {
		return c.nodes(a)
	}
	return a.withGPUs(&c.gpuFlags, c.show)
}

func (c *gpusCmd) show(ctx context.Context, a *app, p probe.Prober, answered func()) error {
	v, err := c.view(a, p, c.Sim != "")
	if err != nil {
		return err
	}
	a.printHostNotes(v.rules)
	if len(c.Clear) > 0 {
		return c.clear(ctx, a, v)
	}
	look := func() (schema.GPUs, []*schema.Job, error) {
		snap := v.observe(ctx, a)
		answered()
		jobs := a.runningJobs()
		t, err := v.evaluate(snap, jobs)
		return t, jobs, err
	}
	if c.Watch {
		return c.watch(ctx, a, v, look)
	}
	t, jobs, err := look()
	if err := cmp.Or(context.Cause(ctx), err); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(a.out, t)
	}
	var b strings.Builder
	fmt.Fprintln(&b, p.Version())
	c.print(&b, terminal.Size{Width: a.width(), Height: math.MaxInt}, &t, jobs)
	return a.print(b.String())
}

// observe reads the GPUs, the claims of all runs, and the host rules.
func (v *hostView) observe(ctx context.Context, a *app) gpu.Observation {
	snap := session.Observe(ctx, v.Prober, v.rules, v.claims, a.Warn)
	for _, u := range v.claims.Usages() {
		v.pool.Recall(nil, u.Idle)
	}
	return snap
}

// evaluate describes the GPUs in a reading, with this user's jobs on them, and judges whether
// v.req fits. It includes devices that this user may not use.
func (v *hostView) evaluate(snap gpu.Observation, jobs []*schema.Job) (t schema.GPUs, err error) {
	if snap.Err != "" {
		t.Rules = rulesFor(v.pool)
		return t, &batches.Failure{Code: batches.ExitUsage, Text: "cannot read the GPUs: " + snap.Err}
	}
	v.pool.Observe(snap)
	verdicts := v.pool.Admit(snap.At, v.req)
	t = schema.GPUs{Head: schema.At(time.Now()), GPUs: []schema.GPU{}, Waiting: waitingRuns(v.pool, &snap, v.req), Rules: rulesFor(v.pool)}
	for i, s := range v.pool.Views(snap.At) {
		row := schema.GPUOf(&s)
		for _, j := range jobs {
			if !j.Attempt.On(&row) {
				continue
			}
			if row.Jobs = append(row.Jobs, j.Name); j.Attempt.Stalled != nil {
				row.Stalled = append(row.Stalled, j.Name)
			}
		}
		for _, r := range snap.Readings {
			if r.UUID == s.UUID && r.Health != nil {
				row.RowRemap = &r.Health.Remap
			}
		}
		if since, ok := v.pool.IdleSince(s.UUID); ok {
			for i, pr := range s.Processes { // a process cannot have been idle before it started
				from := since
				if !s.UUID.Simulated() {
					from = max(from, pr.Start)
				}
				idle := max(0, snap.At-from).Seconds()
				row.Processes[i].Idle = &idle
			}
		}
		fit := &verdicts[i]
		if fit.Code == gpu.NotManaged {
			fit.Reason = "not selected by --gpu-ids or CUDA_VISIBLE_DEVICES"
		}
		for _, n := range t.Waiting {
			if fit.OK && fit.Note == "" && n.Run != nil && slices.ContainsFunc(n.Requests, func(a schema.GPURequest) bool { return slices.Contains(a.UUIDs, s.UUID) }) {
				fit.Note = "after users who are waiting"
			}
		}
		row.Judge(fit)
		t.GPUs = append(t.GPUs, row)
	}
	return t, nil
}

// print prints the GPUs with their jobs and processes, the queue, and the host rules.
func (c *gpusCmd) print(w io.Writer, size terminal.Size, t *schema.GPUs, jobs []*schema.Job) {
	rows := []terminal.Row{{Cells: [8]string{"GPU", "MEMORY", "GiB", "UTIL", "USED BY", "", "FITS", gpu.Bytes(c.GPUMemory).String() + " JOB"}}}
	models := map[string][]int{}
	for i := range t.GPUs {
		r := &t.GPUs[i]
		on := terminal.Frame{Now: t.Now}.OnGPU(r, jobs)
		models[r.Name] = append(models[r.Name], r.Index)
		first := &on[0].Cells
		if first[terminal.ColFits] = "no"; *r.Fits {
			first[terminal.ColFits] = "yes"
		}
		rows = append(rows, on...)
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		fmt.Fprintln(w, terminal.Fit(gpu.List(models[name])+": "+terminal.CleanText(name), size.Width))
	}
	var below strings.Builder
	printNext(&below, t.Waiting)
	printRules(&below, t.Rules)
	room := size.Height - len(models) - strings.Count(below.String(), "\n")
	printLines(w, terminal.Layout(rows, size.Width, min(max(room, 2), len(rows))))
	io.WriteString(w, below.String())
}

// onGPU shortens a name, because other users choose it and it must not widen the table.
func onGPU(name string) string { return terminal.FitMiddle(terminal.CleanText(name), 36) }

// watch redraws the table until Ctrl-C.
func (c *gpusCmd) watch(ctx context.Context, a *app, v *hostView, look func() (schema.GPUs, []*schema.Job, error)) error {
	screen := a.screen()
	return a.poll(2*time.Second, func() (over bool, err error) {
		t, jobs, err := look()
		if ctx.Err() != nil {
			return true, nil
		}
		size := terminal.Size{Width: a.width(), Height: math.MaxInt}
		if screen.Live { // the last line and column stay empty, as in every live view
			size = terminal.CurrentSize()
			size.Width, size.Height = size.Width-1, size.Height-2
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s  %s\n", time.Now().Format("15:04:05"), v.Version())
		if err != nil {
			fmt.Fprintln(&b, err)
		}
		c.print(&b, size, &t, jobs)
		err = screen.Draw(strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"))
		return err != nil, nil // an error means that the reader has closed the output
	})
}

// withGPUs opens the GPUs for a command that starts no jobs. look must call answered once it has
// read the GPUs.
func (a *app) withGPUs(f *gpuFlags, look func(ctx context.Context, a *app, p probe.Prober, answered func()) error) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	answered := a.announceDriverWait(f.Sim != "")
	defer answered()
	p, err := f.source(false).Open(ctx, zerolog.Nop())
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer p.Close()
	return look(ctx, a, p, answered)
}
