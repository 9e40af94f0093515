package cli

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/engine"
	"gpurun/runner/engine/cluster"
	"gpurun/runner/engine/cluster/gridengine"
	"gpurun/runner/engine/cluster/slurm"
	"gpurun/runner/engine/local"
	"gpurun/runner/sched"
	"gpurun/state"
	"gpurun/state/disk"
)

// engines are the kinds of engines, by the value of the setting engine.
var engines = map[string]engine.Kind{"local": local.Kind{}, "slurm": slurm.Kind, "sge": gridengine.Kind}

// engineOf returns the kind of engine that runs the jobs of a batch.
func engineOf(b *jobspec.Batch) engine.Kind { return engines[b.Settings.Engine] }

// kindOf returns the kind of engine that an attempt's folder belongs to. All clusters' are
// alike.
func kindOf(dir string) engine.Kind {
	if cluster.Submitted(dir) {
		return engines["slurm"]
	}
	return engines["local"]
}

// trace reads what an attempt's folder says of its start.
func trace(dir, uniID string) (state.Trace, error) { return kindOf(dir).Trace(dir, uniID) }

// looker returns a function that finds out how the attempt in a folder is doing.
func looker() func(dir, uniID string) engine.Found {
	looks := map[engine.Kind]func(dir, uniID string) engine.Found{}
	return func(dir, uniID string) engine.Found {
		kind := kindOf(dir)
		if looks[kind] == nil {
			looks[kind] = kind.Looker()
		}
		return looks[kind](dir, uniID)
	}
}

// openEngine opens the engine of a batch folder; of none for claims alone.
func (a *app) openEngine(kind engine.Kind, dir string, log zerolog.Logger, claims []string, c engine.Cluster) (engine.Opened, error) {
	return kind.Open(engine.Config{Dir: dir, Log: log, Claims: claims, Run: runID(), Go: a.goSafely, Cluster: c})
}

// clusterOf returns what a batch says of its cluster.
func clusterOf(b *jobspec.Batch) engine.Cluster {
	return engine.Cluster{Options: b.Settings.Cluster, Environ: runner.Environ(), Poll: b.Settings.Poll}
}

// sameEngine refuses to take on attempts that another engine started and that may not be over:
// this one could neither see them nor stop them.
func sameEngine(kind engine.Kind, h *state.History, dir func(ledger int) string) error {
	look, name := looker(), kind.Abilities().Name
	for _, at := range h.Attempts() {
		theirs := nameOf(at)
		if theirs == name || look(disk.AttemptDir(dir(at.Ledger), at.Start.UniID), at.Start.UniID).Ended != nil {
			continue
		}
		return &failure{
			code: exitState, text: fmt.Sprintf("an earlier run has left %s on the engine %s, where it may be queued or running", at.Start.Job, theirs),
			hint: fmt.Sprintf("add --engine %s to go on there, or stop it first (gpurun stop)", theirs),
		}
	}
	return nil
}

// nameOf returns the name of the engine that an attempt was started on.
func nameOf(at *state.Attempt) string {
	if at.Start.Engine == "" {
		return "local"
	}
	return at.Start.Engine
}

// setLimits sets what the core knows of the place where jobs run.
func setLimits(o *sched.Options, b *jobspec.Batch) {
	does := engineOf(b).Abilities()
	if !does.Places {
		o.CPUs, o.Memory, o.Machine = cores(), hostMemory(), machine()
		return
	}
	o.Elsewhere, o.Queues = true, does.Queues
	o.Largest = cluster.Asked{Options: b.Settings.Cluster}.Largest()
	o.MaxOpen, _ = strconv.Atoi(b.Settings.Cluster["max_submitted"])
	o.MaxTotal, _ = strconv.Atoi(b.Settings.Cluster["max_gpus_total"])
}

// checkHost reports jobs that need more than this host has, if they run here.
func checkHost(b *jobspec.Batch, runs func(id int) bool) []jobspec.Problem {
	if engineOf(b).Abilities().Places {
		return nil
	}
	return b.CheckHost(cores(), hostMemory(), runs)
}

// checkEngine returns what jobs and settings ask for that their engine cannot give, and says
// what it has no need of. Nothing is dropped in silence.
func checkEngine(b *jobspec.Batch, runs func(id int) bool, sim, noWait bool) (problems []jobspec.Problem, notes []string) {
	kind := engineOf(b).Abilities()
	if !kind.Places {
		return nil, nil
	}
	refuse := func(what, cure string) {
		problems = append(problems, jobspec.Problem{File: b.Files[0].Path, Text: what + " has no counterpart on " + kind.Name, Hint: cure})
	}
	if sim {
		refuse("--sim", "remove it, or run with --engine local")
	}
	if noWait {
		refuse("--no-wait", "remove it: the cluster has the queue")
	}
	given := map[string]string{}
	for _, s := range b.Settings.Sources {
		if s.Source != "default" {
			given[s.Name] = s.Source
		}
	}
	for _, s := range unmapped {
		if from := given[s.name]; from != "" && s.cure != "" {
			refuse(s.name+" ("+from+")", s.cure)
		} else if from != "" {
			notes = append(notes, s.name)
		}
	}
	perJob := map[string]bool{}
	for id := range b.Jobs {
		if !runs(id) {
			continue
		}
		j := &b.Jobs[id]
		r := j.Spec.Request
		for _, k := range []struct {
			is         bool
			name, cure string
		}{
			{len(r.IDs.List()) > 0, "gpu_ids", "remove it: the cluster chooses the GPUs"},
			{r.Slots > 1 && given["slots"] == "", "slots", "remove it: the cluster gives a job whole GPUs"},
			{r.Share && given["share"] == "", "share", ""},
			{j.Spec.Affinity, "affinity", ""},
			{r.Max > r.Min, "a range of gpus (the least is asked for)", ""},
		} {
			switch {
			case !k.is || perJob[k.name]:
			case k.cure != "":
				perJob[k.name] = true
				refuse(j.Name+": "+k.name, k.cure)
			default:
				perJob[k.name] = true
				notes = append(notes, k.name)
			}
		}
	}
	if len(notes) > 0 {
		slices.Sort(notes)
		notes = []string{"no effect on " + kind.Name + ", which gives each job GPUs of its own: " + strings.Join(slices.Compact(notes), ", ")}
	}
	return problems, notes
}

// unmapped are the settings that a cluster has no counterpart for: with a cure those that would
// be broken, without one those that exclusive GPUs make needless.
var unmapped = []struct{ name, cure string }{
	{"gpu_ids", "remove it: the cluster chooses the GPUs"},
	{"reserve", "remove it: the cluster chooses the GPUs"},
	{"min_gpus", "remove it: the cluster chooses the GPUs"},
	{"background", "remove it; a partition with low priority does the same: cluster: {partition: NAME}"},
	{"hours", "remove it; the cluster has reservations for that"},
	{"slots", "remove it: the cluster gives a job whole GPUs"},
	{"max_util", ""}, {"others", ""}, {"share", ""}, {"pick", ""},
}

// runID returns what this run is called among all on the host.
var runID = sync.OnceValue(func() string { return strings.ToLower(rand.Text()[:16]) })
