package jobspec

import (
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// A JobKey describes one key of a job: how its value is stored in the job's Spec, and how it maps
// to a cluster. Keys in a mapping are prefixed with the mapping's name: retry.max.
type JobKey struct {
	Name    string
	list    bool                                    // its value may be a list
	mapping bool                                    // its value is, or may be, a mapping
	only    bool                                    // only for experiment lists
	read    func(s *Spec, values []string) error    // nil if readResources does not read it
	Used    func(j *Job, s *settings.Settings) bool // whether a job uses the key; for keys with Note or Fix
	Note    string                                  // names what has no effect on a cluster; "" for no note
	Fix     string                                  // what to do instead if clusters do not support the key
}

// single returns a key with one value.
func single[T any](key string, parse func(string) (T, error), at func(*Spec) *T) JobKey {
	return JobKey{Name: key, read: func(s *Spec, v []string) (err error) { *at(s), err = parse(v[0]); return err }}
}

// several returns a key whose value may be a list.
func several[T any](key string, parse func([]string) (T, error), at func(*Spec) *T) JobKey {
	return JobKey{Name: key, list: true, read: func(s *Spec, v []string) (err error) { *at(s), err = parse(v); return err }}
}

// forCluster returns a key of a job's own cluster mapping. If the value is a list, its elements are
// joined with the separator 'between'; if that is empty, a list is not allowed.
func forCluster(key, between string) JobKey {
	return JobKey{Name: "cluster." + key, list: between != "", read: func(s *Spec, v []string) error {
		if s.Cluster == nil {
			s.Cluster = map[string]string{}
		}
		s.Cluster[key] = strings.Join(v, between)
		return settings.CheckClusterKey(key, s.Cluster[key])
	}}
}

// in returns a key whose value is a mapping that is read as a whole.
func in(key string) JobKey { return JobKey{Name: key, mapping: true} }

// or also allows a mapping as the key's value.
func (k JobKey) or() JobKey { k.mapping = true; return k }

// lost sets the note or the alternative for a key that has no effect on a cluster.
func (k JobKey) lost(note, fix string, used func(*Job, *settings.Settings) bool) JobKey {
	k.Note, k.Fix, k.Used = note, fix, used
	return k
}

// JobKeys are all keys of a job, in the order of the reference, which is also the order of
// evaluation.
var JobKeys = []JobKey{
	{Name: "name"}, {Name: "run"}, in("matrix"), in("zip"), in("sample"), in("params"), in("args"), {Name: "needs"},
	single("when", source.OneOf(OnSuccess, OnFailure, Always), func(s *Spec) *When { return &s.When }),
	{Name: "queue"},
	single("priority", parsePriority, func(s *Spec) *int { return &s.Priority }),
	{Name: "gpus", read: func(s *Spec, v []string) error {
		least, most, err := source.ParseGPUs(v[0])
		if err == nil {
			s.Request.Min, s.Request.Max = least, most
		}
		return err
	}},
	single("gpu_memory", source.ParseSize, func(s *Spec) *gpu.Bytes { return &s.Request.Memory }),
	several("gpu_model", parseModels, func(s *Spec) *gpu.Names { return &s.Request.Models }),
	several("gpu_ids", parseIDs, func(s *Spec) *gpu.Names { return &s.Request.IDs }).
		lost("", settings.TheyChoose, func(j *Job, _ *settings.Settings) bool { return len(j.Spec.Request.IDs.List()) > 0 }),
	single("max_util", source.ParsePercent, func(s *Spec) *int { return &s.Request.MaxUtil }).
		lost("max_util", "", func(j *Job, s *settings.Settings) bool {
			return j.Spec.Request.Max > 0 && !j.Spec.Request.Share && j.Spec.Request.MaxUtil != s.MaxUtil
		}),
	single("cpus", parseCount, func(s *Spec) *int { return &s.CPUs }),
	single("affinity", source.ParseBool, func(s *Spec) *bool { return &s.Affinity }).
		lost("affinity", "", func(j *Job, _ *settings.Settings) bool { return j.Spec.Affinity }),
	single("memory", source.ParseSize, func(s *Spec) *gpu.Bytes { return &s.Memory }),
	single("pool", parsePool, func(s *Spec) *PoolUse { return &s.Pool }),
	single("share", source.ParseBool, func(s *Spec) *bool { return &s.Request.Share }).
		lost("share", "", func(j *Job, s *settings.Settings) bool { return j.Spec.Request.Share && !s.Share }),
	single("slots", parseCount, func(s *Spec) *int { return &s.Request.Slots }).
		lost("", settings.WholeGPUs, func(j *Job, s *settings.Settings) bool {
			return j.Spec.Request.Slots > 1 && j.Spec.Request.Slots != s.Slots
		}),
	JobKey{Name: "cluster", read: func(*Spec, []string) error { return source.Faultf("write {partition: gpu}", "must be a mapping") }}.or(),
	forCluster("partition", ""), forCluster("account", ""), forCluster("qos", ""), forCluster("constraint", ""), forCluster("queue", ""),
	forCluster("project", ""), forCluster("exclude", ","), forCluster("time", ""), forCluster("extra", "\n"),
	in("env"), {Name: "work_dir"}, {Name: "shell"}, {Name: "setup"}, {Name: "log"}, {Name: "stdout"}, {Name: "stderr"},
	single("timeout", source.ParseDuration, func(s *Spec) *time.Duration { return &s.Timeout }).or(),
	single("timeout.after", source.ParseDuration, func(s *Spec) *time.Duration { return &s.Timeout }),
	single("timeout.signal", parseSignal, func(s *Spec) *string { return &s.AtTimeout.Signal }),
	single("timeout.grace", source.ParseDuration, func(s *Spec) *time.Duration { return &s.AtTimeout.Grace }),
	single("stall", source.ParseDuration, func(s *Spec) *time.Duration { return &s.Stall.After }).or().
		lost("", "on a cluster, gpurun sees only the job's output: write stall: {output: 30m}, or set a timeout",
			func(j *Job, _ *settings.Settings) bool { return j.Spec.Stall.After > 0 }),
	single("stall.after", source.ParseDuration, func(s *Spec) *time.Duration { return &s.Stall.After }),
	single("stall.output", source.ParseDuration, func(s *Spec) *time.Duration { return &s.Stall.Output }),
	single("on_stall", parseOnStall, func(s *Spec) *bool { return &s.Stall.Kill }),
	JobKey{Name: "prune", read: func(*Spec, []string) error {
		return source.Faultf("write {metric: val_acc, among: [lr, wd], after: 10}", "must be a mapping")
	}}.or(),
	{Name: "prune.metric", read: func(s *Spec, v []string) error { s.Prune.Metric = v[0]; return nil }},
	{Name: "prune.among", list: true, read: func(s *Spec, v []string) error { s.Prune.Among = v; return nil }},
	single("prune.after", between(0, 1e15, "set the first step at which to compare jobs, such as 10", "step"), func(s *Spec) *float64 { return &s.Prune.After }),
	single("prune.keep", between(1e-9, 1, "use a fraction between 0 and 1, such as 0.7", "fraction"), func(s *Spec) *float64 { return &s.Prune.Keep }),
	single("prune.min", func(s string) (int, error) { return source.ParseCount(s, 1) }, func(s *Spec) *int { return &s.Prune.Min }),
	single("leftovers", source.OneOf("auto", "wait", "kill", "fail"), func(s *Spec) *string { return &s.Leftovers }),
	single("retry", parseRetries, func(s *Spec) *int { return &s.Retry.Max }).or(),
	single("retry.max", parseRetries, func(s *Spec) *int { return &s.Retry.Max }),
	single("retry.delay", source.ParseDuration, func(s *Spec) *time.Duration { return &s.Retry.Delay }),
	single("retry.backoff_after", parseCount, func(s *Spec) *int { return &s.Retry.BackoffAfter }),
	single("retry.backoff", source.ParseDuration, func(s *Spec) *time.Duration { return &s.Retry.Backoff }),
	several("retry.on", parseKinds, func(s *Spec) *[]string { return &s.Retry.On }),
	single("retry.memory_growth", parseFactor, func(s *Spec) *float64 { return &s.Retry.MemoryGrowth }),
	single("resize", parseResize, func(s *Spec) *Resize { return &s.Resize }).or().
		lost("resize and a range of gpus (the minimum is requested)", "", func(j *Job, _ *settings.Settings) bool {
			return j.Spec.Request.Max > j.Spec.Request.Min
		}),
	resized("up", parseShare, func(r *Resize) *int { return &r.Up }),
	resized("down", parseShare, func(r *Resize) *int { return &r.Down }),
	resized("signal", parseSignal, func(r *Resize) *string { return &r.Signal }),
	resized("grace", source.ParseDuration, func(r *Resize) *time.Duration { return &r.Grace }),
	resized("every", source.ParseDuration, func(r *Resize) *time.Duration { return &r.Every }),
	{Name: "outputs"}, {Name: "inputs"}, in("metrics"), in("config"),
	several("allow", lint.ParseAllow, func(s *Spec) *[]string { return &s.Allow }),
	{Name: "notify"},
	{Name: "desc", read: func(s *Spec, v []string) error { s.Desc = v[0]; return nil }},
	{Name: "tags", list: true, read: func(s *Spec, v []string) error { s.Tags = v; return nil }},
	{Name: "algorithm", only: true}, {Name: "log_path", only: true}, {Name: "extra_args", only: true, mapping: true},
}

// jobKeys are the keys that every job may have. listKeys are the keys that only experiment lists
// have.
var jobKeys, listKeys = names(false), names(true)

func names(only bool) (all []string) {
	for _, k := range JobKeys {
		if k.only == only && !strings.Contains(k.Name, ".") {
			all = append(all, k.Name)
		}
	}
	return all
}

// keyNamed returns the key with this name, or nil.
func keyNamed(name string) *JobKey {
	for i := range JobKeys {
		if JobKeys[i].Name == name {
			return &JobKeys[i]
		}
	}
	return nil
}
