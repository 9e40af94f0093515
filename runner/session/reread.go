package session

import (
	"errors"
	"maps"
	"reflect"
	"strings"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/batches"
)

// ruler applies settings to the GPUs of this run. It may use the core's data, because the runner
// calls it between two events.
func (r *Run) ruler(fresh, b *jobspec.Batch, wanted func(id int) bool) (gpu.Rules, error) {
	if fresh != nil {
		refused, _ := CheckEngine(b, wanted, false, false)
		if err := r.mistake(jobspec.Report(append(refused, batches.CheckHost(b, wanted)...))); err != nil {
			return gpu.Rules{}, err
		}
	}
	if r.Prober == nil {
		if !r.opts.Elsewhere && WantsGPU(b, wanted) {
			return gpu.Rules{}, &runner.Mistake{Text: "a job needs a GPU, but this run started without GPUs because none of its jobs needed one: stop the run and start it again"}
		}
		return gpu.Rules{}, nil
	}
	host := r.Rules
	host.HostRules = gpu.NoHostRules() // a job that the host rules currently exclude has to wait, whatever the settings
	if now := r.core.Host(); fresh != nil && now != nil {
		host.HostRules = now // they may have changed since the run started
	}
	rules, err := RulesOf(b.Settings, r.Prober.Devices(), host, r.sim())
	if err != nil {
		return rules, err
	}
	rules.AtOnce = r.NoWait
	pool := gpu.NewPool(r.Prober.Devices(), rules)
	if fresh != nil {
		fresh.FitDefaults(pool.Devices())
	}
	return rules, r.mistake(jobspec.Report(b.CheckDevices(pool, wanted)))
}

// reread reads the job files again. It runs outside the runner's loop.
func (r *Run) reread(set map[string]string) (runner.Reading, error) {
	paths, o, err := r.Files()
	if err != nil {
		return runner.Reading{}, err
	}
	o.Flags = maps.Clone(o.Flags)
	for name, value := range set {
		o.Flags[strings.ReplaceAll(name, "_", "-")] = value
	}
	b, err := r.changes.load(paths, o, r.Load)
	if m := (*runner.Mistake)(nil); errors.As(err, &m) {
		return runner.Reading{}, err
	}
	if err != nil {
		return runner.Reading{}, r.mistake(err)
	}
	if err := r.keepLines(b); err != nil {
		return runner.Reading{}, err
	}
	b.Settings.DrawShuffleSeed(func() int64 { return r.Batch.Settings.ShuffleSeed }) // keep the order
	late, err := r.fixedSettings(&b.Settings)
	if err != nil {
		return runner.Reading{}, err
	}
	opts, err := r.options(b)
	if err != nil {
		return runner.Reading{}, err
	}
	code, said, err := r.copyCode(b)
	if f := (*batches.Failure)(nil); errors.As(err, &f) {
		err = &runner.Mistake{Text: f.Text, Lines: []string{f.Hint}}
	}
	return runner.Reading{Batch: b, Code: code, Messages: append(late, said...), Selected: opts.Selected, Forced: opts.Forced}, err
}

// fixedSettings describes changed settings that the run cannot apply. It returns an error if engine
// or cluster changed, since the jobs of another engine must not run here.
func (r *Run) fixedSettings(now *jobspec.Settings) (said []string, err error) {
	was := &r.Batch.Settings
	if now.Engine != was.Engine || !maps.Equal(now.Cluster, was.Cluster) {
		return nil, &runner.Mistake{Text: "cannot change engine or cluster during a run; nothing changed", Lines: []string{"stop the run and start it again"}}
	}
	if !reflect.DeepEqual(now.Notify, was.Notify) {
		said = append(said, "the change to notify takes effect in the next run")
	}
	return said, nil
}

// mistake formats an error in reloaded job files.
func (r *Run) mistake(err error) error {
	if err == nil {
		return nil
	}
	head, lines := err.Error(), []string(nil)
	if r.Summed != nil {
		head, lines = r.Summed(err)
	}
	return &runner.Mistake{Text: head + ", nothing changed", Lines: lines}
}
