package capture

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpurun/jobspec"
	"gpurun/jobspec/fold"
	"gpurun/jobspec/lint"
	"gpurun/jobspec/source"
	"gpurun/runner/engine"
	"gpurun/state/redact"
)

// A Mapping converts records to job commands, and notes what it leaves out.
type Mapping struct {
	Base []string // the launcher's environment
	Dir  string   // the job file's folder, symlinks resolved

	Most int // the maximum number of concurrent jobs, from an array's %N or the slots of ts; 0 for any number

	left    []string
	indexed bool // SLURM_ARRAY_TASK_ID is a variable of the jobs
}

var (
	cudaDevice = source.Regexp(`\bcuda:\d+\b`)
	gpuOption  = source.Regexp(`^--?(?:gpu|gpus_id|gpu[_-]?ids?|gpu[_-]index)(?:=(.*))?$`)
	processes  = source.Regexp(`^--(nproc[_-]per[_-]node|num_gpus|num_processes)(?:=(\d+))?$`)
	dockerName = source.Regexp(`^(?:\S*/)?(?:docker|podman|nvidia-docker)$`)
	dockerFlag = source.Regexp(`^(?:-[ditqP]+|-[ditqP]*[^-ditqP].+|--.*=.*)$`) // options that do not take the next word
	gpuList    = source.Regexp(`^\d{1,2}(?:,\d{1,2})*$`)
	// Variables that a shell, make or Slurm sets or drops by itself.
	ownName = source.Regexp(`^(?:_|[^A-Za-z_].*|PWD|OLDPWD|SHLVL|LINES|COLUMNS|PS1|LC_CTYPE|MAKE.*|MFLAGS|PARALLEL_.*|SSHPASS|SLURM_.*|SBATCH_.*|GPURUN_.*|BASH_COMPAT|BASH_FUNC_.*|PYTHONUNBUFFERED|PMI_.*|_?PYENV_.*|__.*|CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|NV_GPU)$`)
)

// renumber returns a list of GPUs, renumbered from 0, and the number of GPUs in it.
func renumber(list string) (s string, n int) {
	for n = range strings.Count(list, ",") + 1 {
		s += "," + strconv.Itoa(n)
	}
	return s[1:], n + 1
}

// deviceNames are the variables that choose GPUs for CUDA, for containers and for nvidia-docker.
var deviceNames = []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NV_GPU"}

// jobDevices passes a job's GPUs to docker's --gpus.
const jobDevices, jobDevicesInShell = `"device=$CUDA_VISIBLE_DEVICES"`, `"\"device=$CUDA_VISIBLE_DEVICES\""`

// container replaces the GPUs that a docker run command chooses with those of the job. It also
// returns how many GPUs the command chooses, or 0 if it chooses all or none.
func container(words, env []string) (out []string, gpus int) {
	i := slices.Index(words, "run") + 1
	if !dockerName().MatchString(words[0]) || i == 0 {
		return words, 0
	}
	out = slices.Clip(words[:i])
	inside, cuda := engine.Variable(env, "NV_GPU"), "" // the container's GPUs, and those that CUDA sees
	if inside != "" {
		out = append(out, "-e", "NVIDIA_VISIBLE_DEVICES")
	}
	for i < len(words) && strings.HasPrefix(words[i], "-") { // words after the image are for the container
		option := words[i:min(i+2, len(words))]
		if dockerFlag().MatchString(words[i]) || slices.Contains(lint.DockerFlags, words[i]) {
			option = option[:1]
		}
		i += len(option)
		name, value, _ := strings.Cut(strings.Join(option, "="), "=")
		variable, list, sets := strings.Cut(value, "=")
		switch sets = sets && (name == "-e" || name == "--env"); {
		case name == "--gpus":
			n, _ := strconv.Atoi(value)
			gpus, inside, option = n, strings.TrimPrefix(strings.Trim(value, `"'`), "device="), []string{name, jobDevices}
		case sets && variable == "NVIDIA_VISIBLE_DEVICES":
			inside, option = list, []string{name, variable}
		case sets && variable == "CUDA_VISIBLE_DEVICES":
			cuda, option = list, nil
		}
		out = append(out, option...)
	}
	if cuda != "" && inside == "" {
		out = append(out, "-e", "CUDA_VISIBLE_DEVICES")
	}
	if list := cmp.Or(cuda, inside); gpus == 0 && list != "" && list != "all" {
		_, gpus = renumber(list)
	}
	return append(out, words[i:]...), gpus
}

// argv returns a command's words with its GPUs renumbered from 0, as a job sees them. It also returns
// how many GPUs the command chooses, or 0 if it chooses all or none.
func argv(words, env []string) (out []string, gpus int) {
	words, gpus = container(words, env)
	started := false // the options of the launched program may have the same names
	for i := 0; i < len(words); i++ {
		started = started || words[i] == "-m" || words[i] == "--module" || strings.HasSuffix(words[i], ".py")
		if name, list, set := strings.Cut(words[i], "="); !started && slices.Contains(lint.DeviceOptions[words[0]], name) && list != "all" && (set || i+1 < len(words) && words[i+1] != "all") {
			if !set {
				i++
				list = words[i]
			}
			_, gpus = renumber(list)
			continue
		}
		w := cudaDevice().ReplaceAllString(words[i], "cuda:0")
		if g := gpuOption().FindStringSubmatch(w); g != nil && gpuList().MatchString(g[1]) {
			list := ""
			list, gpus = renumber(g[1])
			w = strings.TrimSuffix(w, g[1]) + list
		} else if i > 0 && gpuList().MatchString(w) && gpuOption().MatchString(words[i-1]) {
			w, gpus = renumber(w)
		} else if g := processes().FindStringSubmatch(w); g != nil && (g[1][:2] == "np" || words[0] == "deepspeed" || words[0] == "accelerate") {
			gpus, _ = strconv.Atoi(cmp.Or(g[2], words[min(i+1, len(words)-1)]))
		}
		out = append(out, w)
	}
	return out, gpus
}

func note(list *[]string, text string) {
	if !slices.Contains(*list, text) {
		*list = append(*list, text)
	}
}

// env returns the variables that differ from those of the launcher, as in fold.Job.
func (m *Mapping) env(list []string) (out []string) {
	without := func(list string) string {
		return strings.Join(slices.DeleteFunc(filepath.SplitList(list), func(d string) bool { return strings.Contains(d, "gpurun-capture") }), ":")
	}
	for _, kv := range list {
		name, v, _ := strings.Cut(kv, "=")
		old, sets := engine.Variable(m.Base, name), "="
		if name == "PATH" || name == "PYTHONPATH" {
			if v, old = without(v), without(old); old != "" && strings.HasSuffix(v, ":"+old) {
				sets, v = "+=", strings.TrimSuffix(v, old)
			}
		}
		switch {
		case ownName().MatchString(name) && !(m.indexed && name == taskID) || v == old && (v != "" || slices.Contains(m.Base, kv) || name == "PYTHONPATH") || name == "TMPDIR" && v == "/tmp" && old == "":
		case !jobspec.IsEnvName(name):
			note(&m.left, "the launcher sets "+name+", a name that a job file cannot set: skipped")
		case redact.Named(name):
			note(&m.left, "the launcher sets a secret ("+name+"): skipped; set it in the environment of gpurun instead")
		default:
			out = append(out, name+sets+v)
		}
	}
	slices.Sort(out)
	return out
}

const taskID = "SLURM_ARRAY_TASK_ID"

// Index decides whether jobs get SLURM_ARRAY_TASK_ID. They need it if a script mentions it, or if the
// commands of different tasks are otherwise equal. In all other cases, the arguments identify the
// task.
func (m *Mapping) Index(list []Record) {
	ids, read := map[string]string{}, map[string]bool{}
	for i := range list {
		r := &list[i]
		id := engine.Variable(r.Env, taskID)
		if id == engine.Variable(m.Base, taskID) {
			continue
		}
		k := m.Key(r)
		old, again := ids[k]
		m.indexed, ids[k] = m.indexed || again && old != id, id
		for _, w := range r.Argv {
			if path := pathIn(r.Dir, w); strings.HasSuffix(w, ".py") && !read[path] {
				data, _ := os.ReadFile(path)
				read[path], m.indexed = true, m.indexed || strings.Contains(string(data), taskID)
			}
		}
	}
}

// Key returns a string that is equal for records of the same command in two captures.
func (m *Mapping) Key(r *Record) string {
	words, _ := argv(r.Argv, r.Env)
	return fmt.Sprintf("%q in %q with %q", words, r.Dir, m.env(r.Env))
}

// relative returns path relative to dir, or unchanged if that leads up more than two levels.
func relative(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || strings.Count(rel, "../") > 2 {
		return path
	}
	return rel
}

// Commands converts captures of the same commands for folding. It returns warnings about what it
// skipped.
func (m *Mapping) Commands(captures ...[]Record) (out []*fold.Command, warnings []string) {
	var unset []string
	pinned := map[string][]string{} // the launcher's values of deviceNames
	logs, limited := map[string]int{}, 0
	for _, r := range captures[0] {
		if logs[r.Stdout]++; r.Stderr != r.Stdout {
			logs[r.Stderr]++
		}
	}
	for i, r := range captures[0] {
		words, gpus := argv(r.Argv, r.Env)
		run, k := fold.Words(words), slices.Index(words, jobDevices)
		switch {
		case k >= 0 && gpus == 0:
			note(&m.left, "commands give their containers all GPUs: each container now gets the one GPU of its job; set gpus for more")
		case k >= 0:
			note(&m.left, "commands select GPUs for their containers: each container now gets the GPUs of its job")
		case !slices.Equal(words, r.Argv):
			note(&m.left, "commands select a GPU in their arguments: renumbered, because each job sees its own GPUs as 0, 1, …")
		}
		if k >= 0 {
			run[k] = fold.Word{Text: jobDevicesInShell, Raw: true}
		}
		for _, kv := range m.Base {
			if name, _, _ := strings.Cut(kv, "="); !ownName().MatchString(name) && !slices.ContainsFunc(r.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
				note(&unset, name)
			}
		}
		c := &fold.Command{Job: fold.Job{Run: [][]fold.Word{run}, Env: m.env(r.Env), Dir: relative(m.Dir, r.Dir)}}
		for _, list := range captures {
			c.Began, c.Ended = append(c.Began, list[i].Began), append(c.Ended, list[i].Ended)
		}
		if engine.Variable(r.Env, "GPURUN_CAPTURE_AFTER") != "" {
			c.Waits = engine.Variable(r.Env, "SLURM_JOB_ID")
		}
		if asks := engine.Variable(r.Env, "GPURUN_CAPTURE_ASKS"); asks != "" {
			for _, key := range strings.Split(asks, "\n") {
				if model, is := strings.CutPrefix(key, "gpu_model: "); is { // the names of GPU types differ between sites
					note(&m.left, "commands ask Slurm for GPUs of type "+model+": skipped; set gpu_model")
				} else if n, limits := strings.CutPrefix(key, "max_concurrent: "); !limits {
					c.Keys = append(c.Keys, key)
				} else if most, _ := strconv.Atoi(n); most > 0 {
					limited++
					m.Most = min(most, cmp.Or(m.Most, most))
				}
			}
		}
		for _, name := range deviceNames {
			if v := engine.Variable(r.Env, name); v != engine.Variable(m.Base, name) {
				if _, gpus = renumber(v); v == "" || v == "-1" {
					gpus = -1
				}
				if !slices.Contains(pinned[name], v) {
					pinned[name] = append(pinned[name], v)
				}
			}
		}
		if gpus != 0 && gpus != 1 && !slices.ContainsFunc(c.Keys, func(key string) bool { return strings.HasPrefix(key, "gpus:") }) {
			c.Keys = append(c.Keys, fmt.Sprintf("gpus: %d", max(gpus, 0)))
		}
		at := func(path string) string {
			if path == "" || strings.ContainsAny(path, "$~") {
				return ""
			} else if logs[path] > 1 {
				note(&m.left, "several jobs share a log ("+relative(m.Dir, path)+"): skipped; each job gets its own log")
				return ""
			}
			return relative(r.Dir, path)
		}
		if r.Stdout == r.Stderr {
			c.Log = at(r.Stdout)
		} else {
			c.Stdout, c.Stderr = at(r.Stdout), at(r.Stderr)
		}
		if r.Stdin != "" {
			note(&m.left, "jobs have no standard input: skipped the input of "+fold.Script(c.Run[0])+" < "+relative(r.Dir, r.Stdin))
		}
		out = append(out, c)
	}
	if len(unset) > 0 {
		note(&m.left, "the launcher unsets variables, but a job file cannot: "+few(unset))
	}
	if limited > 0 && limited < len(out) {
		note(&m.left, fmt.Sprintf("max_concurrent limits all jobs, but the launcher limits only %d of its commands, to %d at a time", limited, m.Most))
	}
	for _, name := range deviceNames {
		if list := pinned[name]; list != nil {
			note(&m.left, "the launcher sets "+name+" ("+strings.Join(list, ", ")+"): skipped; gpurun chooses the GPUs")
		}
	}
	return out, m.left
}

// Changes returns warnings about what a launcher changed in the sandbox, because its jobs may need
// these changes. It omits caches, and logs and their folders, which gpurun creates itself.
func (m *Mapping) Changes(r *Report) (warnings []string) {
	changed := map[string][]string{}
	for _, c := range r.Changes {
		fi, err := os.Lstat(c.Path)
		isLog := slices.ContainsFunc(r.Commands, func(r Record) bool {
			return r.Stdout == c.Path || r.Stderr == c.Path || c.Dir && (strings.HasPrefix(r.Stdout, c.Path+"/") || strings.HasPrefix(r.Stderr, c.Path+"/"))
		})
		kind := "writes files"
		switch {
		case c.Removed:
			kind = "removes files"
		case isLog || err == nil && (c.Dir || fi.ModTime().Equal(c.Time)) || strings.Contains(c.Path+"/", "/.cache/") || strings.Contains(c.Path+"/", "/.parallel/") || strings.Contains(c.Path+"/", "/__pycache__/"):
			continue
		case c.Dir:
			kind = "makes folders"
		}
		changed[kind] = append(changed[kind], relative(m.Dir, c.Path))
	}
	for _, kind := range slices.Sorted(maps.Keys(changed)) {
		warnings = append(warnings, "the launcher "+kind+" (only in the sandbox; do the same yourself if jobs need it): "+few(changed[kind]))
	}
	return warnings
}

// few joins the first five names, and counts the rest.
func few(names []string) string {
	if n := len(names) - 5; n > 0 {
		names = append(names[:5:5], fmt.Sprintf("%d more", n))
	}
	return strings.Join(names, ", ")
}

// Same sorts the records of the second capture in the order of the first.
func (m *Mapping) Same(one, two []Record) []Record {
	by, sorted, differ := map[string][]Record{}, make([]Record, len(one)), 0
	for i := range two {
		k := m.Key(&two[i])
		by[k] = append(by[k], two[i])
	}
	for i := range one {
		if k := m.Key(&one[i]); len(by[k]) > 0 {
			sorted[i], by[k] = by[k][0], by[k][1:]
		} else {
			sorted[i].Began = -1
			if differ++; differ == 1 {
				note(&m.left, "two captures differ: "+strings.Join(one[i].Argv, " ")+"; keeping the first")
			}
		}
	}
	return sorted
}
