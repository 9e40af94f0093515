package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"gpurun/gpu"
	"gpurun/gpu/claim"
	"gpurun/gpu/probe"
	"gpurun/jobspec"
	"gpurun/runner/batches"
	"gpurun/runner/engine/cluster"
	"gpurun/runner/session"
	"gpurun/runner/terminal"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/schema"
)

type doctorCmd struct {
	gpuFlags `embed:""`
	Engine   string `group:"settings" placeholder:"NAME" help:"Where jobs would run: local (this host), slurm or sge (default: local)."`
	Cluster  string `group:"settings" placeholder:"KEY=VALUE" help:"Cluster settings, e.g. partition=gpu,account=vision."`
	JSON     bool   `name:"json" help:"Print the findings as JSON."`
}

func (doctorCmd) Help() string {
	return helpText("Starts no job; exits 0 if all is well, else 1.",
		"gpurun doctor",
		"gpurun doctor --engine slurm --cluster partition=gpu",
		"gpurun doctor --json | jq '.checks[] | select(.ok | not)'")
}

// A diagnosis collects the results of doctor's checks.
type diagnosis struct {
	*app
	*doctorCmd
	ctx    context.Context
	prober probe.Prober // set once the driver has answered
	found  []schema.Check
	code   schema.CheckCode // of the check in progress

	settings jobspec.Settings
	there    cluster.Dialect // the cluster where jobs are to run; nil for this host
}

// A check tests one thing that runs depend on.
type check struct {
	code schema.CheckCode
	find func(d *diagnosis) string // describes what works; "" omits the check
}

// The checks that doctor makes: first localChecks or clusterChecks, depending on where jobs would
// run, and then hostChecks.
var (
	localChecks = []check{
		{schema.CheckDriver, (*diagnosis).driver},
		{schema.CheckGPUs, (*diagnosis).gpus},
		{schema.CheckClaims, (*diagnosis).claims},
		{schema.CheckHostRules, (*diagnosis).hostRules},
		{schema.CheckLimits, (*diagnosis).limits},
	}
	clusterChecks = []check{
		{schema.CheckCommands, (*diagnosis).commands},
		{schema.CheckController, (*diagnosis).controller},
		{schema.CheckPartition, (*diagnosis).partition},
	}
	hostChecks = []check{
		{schema.CheckLogout, (*diagnosis).logout},
		{schema.CheckState, (*diagnosis).state},
		{schema.CheckTerminal, (*diagnosis).terminal},
	}
)

func (c *doctorCmd) Run(a *app) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	d := &diagnosis{app: a, doctorCmd: c, ctx: ctx}
	var err error
	if d.settings, err = a.execSettings(); err != nil {
		return err
	}
	checks := localChecks
	if kind := batches.Engines[d.settings.Engine]; kind.Abilities().Queues && c.Sim == "" {
		checks, d.there = clusterChecks, kind.(cluster.Kind).Dialect
	}
	defer func() {
		if d.prober != nil {
			d.prober.Close()
		}
	}()
	for _, k := range slices.Concat(checks, hostChecks) {
		before := len(d.found)
		d.code = k.code
		well := k.find(d)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if len(d.found) == before && well != "" {
			d.found = append(d.found, schema.Check{Code: k.code, OK: true, Text: well})
		}
	}
	well := !slices.ContainsFunc(d.found, func(f schema.Check) bool { return !f.OK })
	code := batches.Exit(map[bool]int{true: batches.ExitDone, false: batches.ExitFailed}[well])
	if c.JSON {
		return cmp.Or(writeJSON(a.out, schema.Doctor{Head: schema.At(time.Now()), OK: well, Checks: d.found}), code)
	}
	d.print()
	return code
}

func (d *diagnosis) print() {
	var rows [][]string
	for _, f := range d.found {
		state := "ok"
		if !f.OK {
			state = "WRONG"
		}
		rows = append(rows, []string{string(f.Code), state, terminal.CleanText(f.Text)})
		if f.Hint != nil {
			rows = append(rows, []string{"", "", "-> " + terminal.CleanText(*f.Hint)})
		}
	}
	table(d.out, rows)
}

// addProblem records a problem and its fix.
func (d *diagnosis) addProblem(text, hint string) {
	d.found = append(d.found, schema.Check{Code: d.code, Text: text, Hint: schema.Known(hint)})
}

// addError records an error and its hint.
func (d *diagnosis) addError(err error) {
	f := failureOf(err)
	d.addProblem(f.Text, f.Hint)
}

// driver opens the GPUs. The library must exist, match the kernel module, be accessible, and
// answer.
func (d *diagnosis) driver() string {
	ctx, cancel := context.WithTimeout(d.ctx, session.OpenLimit)
	defer cancel()
	answered := d.announceDriverWait(d.Sim != "")
	defer answered()
	p, err := d.source(false).Open(ctx, zerolog.Nop())
	if err != nil {
		d.addError(err)
		return ""
	}
	d.prober = p
	return p.Version()
}

// gpus reads each GPU.
func (d *diagnosis) gpus() string {
	if d.prober == nil {
		return ""
	}
	devs := d.prober.Devices()
	if _, err := session.InheritedGPUs(d.Sim != "").Managed(devs, nil); err != nil {
		d.addError(err)
	}
	began := time.Now()
	snap := d.prober.Read(d.ctx, probe.Query{Processes: true})
	if snap.Err != "" {
		d.addProblem("cannot read the GPUs: "+snap.Err, "check that nvidia-smi works")
		return ""
	}
	for _, r := range snap.Readings {
		if r.Err != "" {
			i := slices.IndexFunc(devs, func(dev gpu.Device) bool { return dev.UUID == r.UUID })
			d.addProblem(fmt.Sprintf("GPU %d: %s", devs[i].Index, r.Err), "runs skip this GPU until it answers; check nvidia-smi and dmesg")
		}
	}
	return state.Count(len(devs), "GPU") + ", read in " + time.Since(began).Round(time.Millisecond).String()
}

// claims makes a test claim in the folder that a run would use, and reads the claims of other runs.
func (d *diagnosis) claims() string {
	roots := claim.Roots("")
	h := claim.Open(roots)
	id := "doctor-" + session.RunID()
	fix := "let every user create folders in " + roots[0] + ", as in /tmp, or set " + claim.RootVariable + " to another folder for all users"
	warnings, err := h.Again(claim.Subject{UniID: id, Job: "doctor", Grant: gpu.Grant{UUIDs: []gpu.UUID{gpu.SimulatedUUID(0, 0)}}})
	for _, w := range warnings {
		d.addProblem(w, fix)
	}
	if err != nil {
		d.addProblem("runs cannot publish which GPUs they hold: "+err.Error(), fix)
	} else {
		defer h.Release(id)
	}
	if d.prober != nil {
		h.Of(d.prober.Devices())
	}
	_, strange := h.Others(d.ctx)
	for _, w := range strange {
		d.addProblem(w, "tell the owner of that file or folder, or the owner of this host")
	}
	return "in " + roots[0] + ", where all users' runs see each other"
}

// hostRules reads the host rules.
func (d *diagnosis) hostRules() string {
	h := session.HostRulesOf(d.prober)
	for _, w := range h.Warnings {
		d.addProblem(w, "tell the owner of this host")
	}
	if h.File == "" {
		return "none (" + session.HostRulesAt.Path + ")"
	}
	return h.File
}

// logout reports whether jobs survive a logout.
func (d *diagnosis) logout() string {
	if warning, fix := session.LogoutKills(); warning != "" {
		d.addProblem(warning, fix)
	}
	return "runs and their jobs continue after you log out"
}

// A disk with less free space (bytes) or fewer free files (inodes) is nearly full.
const (
	leastFree  = 200 * gpu.MiB
	leastFiles = 1000
)

// state writes to the state folder of this folder's job files, and compares the file system's clock
// with this host's.
func (d *diagnosis) state() string {
	p, err := disk.CheckPlace(".", d.StateDir)
	if err != nil {
		d.addProblem(err.Error(), "")
		return ""
	}
	if p.Free >= 0 && p.Free < leastFree {
		d.addProblem(fmt.Sprintf("%s is nearly full (%s free): runs start no more jobs when it is full", p.Dir, p.Free.Round()), "free some space, or choose another folder with --state-dir")
	}
	if p.Files >= 0 && p.Files < leastFiles {
		d.addProblem(fmt.Sprintf("%s has room for only %d more files (inodes)", p.Dir, p.Files), "remove some files, or choose another folder with --state-dir")
	}
	const clocks = "synchronize both clocks (timedatectl set-ntp true): gpurun compares file times with this host's clock"
	if p.Ahead.Abs() > 2*time.Second {
		way := "ahead of"
		if p.Ahead < 0 {
			way = "behind"
		}
		d.addProblem(fmt.Sprintf("the file system clock of %s is %s %s this host's", p.Dir, terminal.Duration(p.Ahead.Abs()), way), clocks)
	}
	used := disk.Batches(".", d.StateDir)
	for _, b := range used {
		if early := time.Until(b.Used); early > time.Minute {
			d.addProblem(fmt.Sprintf("this host's clock is behind: the ledger of %s is dated %s in the future", batches.Shown(b.File), terminal.Duration(early)), clocks)
			break
		}
	}
	for _, b := range used {
		if _, _, err := disk.Load([]string{b.File}, disk.Options{StateDir: d.StateDir}); err != nil {
			d.addError(err)
		}
	}
	free := ""
	if p.Free >= 0 {
		free = ", " + p.Free.Round() + " free"
	}
	if free += ", clocks agree"; d.there != nil {
		free += "; the nodes need access to this folder too"
	}
	return p.Dir + free
}

// terminal reports whether a live view is possible.
func (d *diagnosis) terminal() string {
	if !d.OutTTY {
		return "no terminal: runs print a line for each start and end"
	}
	if !d.screen().Live {
		d.addProblem("no live view: TERM is "+os.Getenv("TERM"), "export TERM=xterm-256color, if your terminal supports it")
	}
	size := terminal.CurrentSize()
	if size.Width < 40 || size.Height < 5 {
		d.addProblem(fmt.Sprintf("the terminal is too small for the live view: %d columns, %d lines", size.Width, size.Height), "enlarge it, or run: stty cols 80 rows 24")
	}
	return fmt.Sprintf("%d columns, %d lines", size.Width, size.Height)
}
