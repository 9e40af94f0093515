package jobspec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"gpurun/gpu"
	"gpurun/jobspec/configedit"
	"gpurun/jobspec/expand"
	"gpurun/jobspec/settings"
	"gpurun/jobspec/source"
)

// A Batch is all the jobs of one run, file by file in the order given.
type Batch struct {
	Files    []File
	Jobs     []Job
	Queues   []string // "path\x00queue", because two files may use the same name for separate queues
	Settings Settings
	Params   map[string]string // set with -p on the command line, as typed
	Sweep    string            // text of the job file converted from a W&B sweep
	Warnings []Problem         // problems that do not prevent a run

	clashing map[string]bool // log paths that another job would also use for its previous log

	bases map[string]*configedit.File // base configs that jobs copy, as read when the keys were computed
}

// queueKey identifies a queue of a file in Queues.
func (b *Batch) queueKey(file int, name string) string { return b.Files[file].Path + "\x00" + name }

// QueueOf returns the index of a file's queue, or -1.
func (b *Batch) QueueOf(file int, name string) int32 {
	return int32(slices.Index(b.Queues, b.queueKey(file, name)))
}

// QueueName returns the name of a queue as its file spells it, or "" if q is negative (no queue).
func (b *Batch) QueueName(q int32) string {
	if q < 0 {
		return ""
	}
	_, name, _ := strings.Cut(b.Queues[q], "\x00")
	return name
}

// A File is one job file of a batch.
type File struct {
	Path    string // as given
	Real    string // absolute, links resolved
	Dialect string // "native", "experiment list", "block" or "lines"; for display
	WorkDir string // absolute
	First   int    // ID of its first job
	Count   int    // number of jobs
	UniID   string // absolute path of logs/uni_id.json; block dialect only
	Lines   *Lines // the options it was read with; lines dialect only

	dir string // the work dir as written
}

// Options are the command-line options for reading job files.
type Options struct {
	Command    string            // for hints: the command that reads the files, such as "gpurun check"; "" for a run
	Format     string            // one of Formats; "" to detect it
	Lines      map[string]Lines  // the files to read as lists of commands, by path as given
	Config     string            // --config: the block dialect's settings file; "" for config.yaml next to the job file
	Flags      map[string]string // setting name with hyphens → text as typed; a bare size is in MiB, a time in seconds
	Params     []string          // -p KEY=VALUE: overrides the jobs' own parameters
	UserConfig string            // path of the user's defaults, which may not exist; "" for none
	Lint       bool              // also lint the batch
	Reading    func(path string) // called with the path of each file that affects the jobs, just before it is read; may be nil
}

// These types are part of a Batch: problems in job files, and settings, pools and notification
// targets.
type (
	Problem  = source.Problem
	Settings = settings.Settings
	Pool     = settings.Pool
	Notify   = settings.Notify
)

// Mail is the service that ServiceOf returns for smtp and smtps URLs.
const Mail = settings.Mail

// ServiceOf returns the service that a Notify's URL belongs to, and the URL to call.
func ServiceOf(url string) (service, address string, err error) { return settings.ServiceOf(url) }

// Labels returns a unique name for each target, free of secrets.
func Labels(all []Notify) []string { return settings.Labels(all) }

// Targets returns 'all', which are the run's own targets, followed by the targets that only jobs set.
// The latter get no run events.
func (b *Batch) Targets(all []Notify) []Notify {
	for i := range b.Jobs {
		for _, n := range b.Jobs[i].Spec.Notify {
			if !slices.ContainsFunc(all, func(o Notify) bool { return o.Same(n) && o.MinDuration == 0 }) {
				all = append(slices.Clip(all), Notify{URL: n.URL, Command: n.Command})
			}
		}
	}
	return all
}

// LongestFirst is the order that starts the longest jobs first. It estimates a job's duration from
// similar jobs.
const LongestFirst = settings.LongestFirst

// RealPaths returns the paths of the batch's files with links resolved, as the state records them.
func (b *Batch) RealPaths() []string {
	paths := make([]string, len(b.Files))
	for i, f := range b.Files {
		paths[i] = f.Real
	}
	return paths
}

// NeedNames returns the names of the jobs that a job needs.
func (b *Batch) NeedNames(j *Job) []string {
	names := make([]string, len(j.Needs))
	for i, n := range j.Needs {
		names[i] = b.Jobs[n].Name
	}
	return names
}

// Report returns all problems as one *multierror.Error; nil if there are none.
func Report(problems []Problem) error {
	var all *multierror.Error
	for _, p := range problems {
		all = multierror.Append(all, p)
	}
	return all.ErrorOrNil()
}

// Problems returns the problems in an error from Report; nil for other errors.
func Problems(err error) []Problem {
	var all *multierror.Error
	if !errors.As(err, &all) {
		return nil
	}
	list := make([]Problem, len(all.Errors))
	for i, err := range all.Errors {
		errors.As(err, &list[i])
	}
	return list
}

// A Param is one parameter of a job. A Runtime holds the values known only during an attempt.
type (
	Param   = expand.Param
	Runtime = expand.Runtime
)

// FitDefaults caps the default min_memory of jobs without gpu_memory at 90% of the largest device's
// memory, so that small GPUs work without any settings. devs are all managed devices. Call it once,
// before the jobs are used.
func (b *Batch) FitDefaults(devs []gpu.Device) {
	most := defaultMost(devs)
	for i := range b.Jobs {
		if s := b.Jobs[i].Spec; s.DefaultMemory {
			s.Request.Memory = min(s.Request.Memory, most)
		}
	}
}

// defaultMost returns the cap on the default memory of jobs without gpu_memory.
func defaultMost(devs []gpu.Device) gpu.Bytes {
	if most := gpu.Largest(devs); most > 0 {
		return most / 10 * 9
	}
	return 1 << 60
}

// CheckDevices reports jobs that the devices in pool can never run, and jobs whose timeout is longer
// than the host allows. It checks only the jobs selected by wanted; nil selects all.
func (b *Batch) CheckDevices(pool *gpu.Pool, wanted func(id int) bool) []Problem {
	devs := pool.Devices()
	return b.judge(wanted, func(s *Spec) (why, hint string) {
		if s.Request.Max == 0 {
			return "", ""
		}
		r := s.Request
		if s.DefaultMemory {
			r.Memory = min(r.Memory, defaultMost(devs))
		}
		if why, hint = pool.Never(r); why != "" {
			return why, hint
		}
		host := pool.Host()
		if host.MaxTimeout == 0 || s.Timeout <= host.MaxTimeout {
			return "", ""
		}
		return "timeout: " + source.FormatDuration(s.Timeout) + "; " + host.TimeLimit(), "write timeout: " + source.FormatDuration(host.MaxTimeout)
	})
}

// CheckHost reports jobs that request more cores or host memory than this machine has. cores and
// memory are 0 if unknown. It checks only the jobs selected by wanted; nil selects all.
func (b *Batch) CheckHost(cores int, memory gpu.Bytes, wanted func(id int) bool) []Problem {
	return b.judge(wanted, func(s *Spec) (why, hint string) {
		switch {
		case cores > 0 && s.CPUs > cores:
			return fmt.Sprintf("cpus: %d, but this machine has %d", s.CPUs, cores), ""
		case memory > 0 && s.Memory > memory:
			hint := ""
			if s.Request.Max > 0 {
				hint = "memory is host memory; for GPU memory, write gpu_memory"
			}
			return fmt.Sprintf("memory: %s, but this machine has %s", s.Memory.Asked(), memory.Round()), hint
		}
		return "", ""
	})
}

// judge reports jobs that can never run, but only one job for each Spec. never returns the reason,
// or "" for a job that can run.
func (b *Batch) judge(wanted func(id int) bool, never func(s *Spec) (why, hint string)) []Problem {
	var out source.Report
	judged := map[*Spec]bool{}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		if judged[j.Spec] || wanted != nil && !wanted(i) {
			continue
		}
		judged[j.Spec] = true
		why, hint := never(j.Spec)
		if why == "" {
			continue
		}
		t := j.text()
		out.Add(Problem{File: b.Files[j.File].Path, Line: t.Line, Col: t.Col, Text: fmt.Sprintf("job %q can never run: %s", j.Name, why), Hint: hint})
	}
	var files []string
	for _, f := range b.Files {
		files = append(files, f.Path)
	}
	source.Sort(out.Problems, files)
	return out.Problems
}

// Continue returns b updated with next, a later reading of the same files. A job in next with the
// same file and key as a job in b replaces that job but keeps its ID. at maps each ID to the job's
// index in next, or to -1 for a job that is no longer in next. Such jobs stay unchanged.
func (b *Batch) Continue(next *Batch) (merged *Batch, at []int32) {
	type place struct {
		file int
		key  Key
	}
	known := make(map[place]int32, len(b.Jobs))
	for i := range b.Jobs {
		known[place{b.Jobs[i].File, b.Jobs[i].Key}] = int32(i)
	}
	ids := make([]int32, len(next.Jobs)) // IDs in the merged batch
	at = slices.Repeat([]int32{-1}, len(b.Jobs))
	for i := range next.Jobs {
		id, ok := known[place{next.Jobs[i].File, next.Jobs[i].Key}]
		if !ok {
			id = int32(len(at))
			at = append(at, 0)
		}
		ids[i], at[id] = id, int32(i)
	}
	m := *next
	m.Queues = slices.Clone(b.Queues)
	queues := make([]int32, len(next.Queues))
	for i, q := range next.Queues {
		k := slices.Index(m.Queues, q)
		if k < 0 {
			k = len(m.Queues)
			m.Queues = append(m.Queues, q)
		}
		queues[i] = int32(k)
	}
	m.Jobs = make([]Job, len(at))
	copy(m.Jobs, b.Jobs)
	needs := map[*int32][]int32{} // expansions with the same needs share one slice
	for i := range next.Jobs {
		j := next.Jobs[i]
		j.ID = int(ids[i])
		if j.Queue >= 0 {
			j.Queue = queues[j.Queue]
		}
		if len(j.Needs) > 0 {
			shared := &j.Needs[0]
			if len(needs[shared]) != len(j.Needs) {
				mapped := make([]int32, len(j.Needs))
				for k, n := range j.Needs {
					mapped[k] = ids[n]
				}
				slices.Sort(mapped)
				needs[shared] = mapped
			}
			j.Needs = needs[shared]
		}
		m.Jobs[j.ID] = j
	}
	m.clashing, m.bases = maps.Clone(b.clashing), maps.Clone(b.bases)
	maps.Copy(m.clashing, next.clashing)
	maps.Copy(m.bases, next.bases)
	return &m, at
}
