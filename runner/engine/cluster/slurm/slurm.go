// Package slurm adapts the cluster engine to Slurm: it builds Slurm's commands and interprets their
// output.
package slurm

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/runner/engine/cluster"
)

// Dialect is the dialect of Slurm.
type Dialect struct{}

// Name returns the engine's name.
func (Dialect) Name() string { return "slurm" }

// Traits leaves Keeps unset, because a controller that crashes forgets the jobs that it accepted in
// its last seconds. Granted is empty, because Slurm sets CUDA's own variable.
func (Dialect) Traits(map[string]string) cluster.Traits {
	return cluster.Traits{
		Sets: []string{"SLURM*", "SBATCH_*"}, Arguments: []string{"SLURM_*", "!SLURM_CONF"},
		Immediate: "remove it, or use srun --immediate: --cluster 'extra=--immediate=60'",
	}
}

// command returns a command with the variables that locate Slurm's configuration.
func command(args ...string) cluster.Command {
	return cluster.Command{Args: args, Env: cluster.Passed("SLURM_CONF")}
}

// Submit submits an array. Slurm must not restart tasks by itself, and tasks write their own
// output.
func (Dialect) Submit(a cluster.Array, args []string) cluster.Command {
	array := fmt.Sprintf("--array=0-%d", a.Tasks-1)
	if a.Throttle > 0 {
		array += fmt.Sprintf("%%%d", a.Throttle)
	}
	fixed := []string{
		"sbatch", "--parsable", "-J", a.Name, array, "-o", "/dev/null", "-e", "/dev/null",
		"--no-requeue", "--export=ALL", "-D", "/", "--comment=" + a.State,
	}
	if a.Held {
		fixed = append(fixed, "--hold")
	}
	return cluster.Command{Args: append(fixed, args...), Env: passed()}
}

// passed returns the variables to add to sbatch's environment: SLURM_CONF, lists of folders, which
// a TaskProlog may extend, and sbatch's own variables, except those that make it wait for the job
// or submit it to another cluster.
func passed() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == "SBATCH_WAIT" || name == "SBATCH_CLUSTERS" || !strings.HasPrefix(name, "SBATCH_") && !strings.HasSuffix(name, "PATH") && name != "SLURM_CONF"
	})
}

var parsable = regexp.MustCompile(`(?m)^(\d+)(;\S+)?$`) // ID, or ID;CLUSTER

// unheard matches messages from sbatch after which it is unknown whether the controller has
// accepted the job.
var unheard = regexp.MustCompile(`(?i)contact|connect|communicat|timed out|time-out|transmit|send|receive|shutdown|standby|protocol|authenticat|message|broken pipe|no route|unreachable`)

// exceeded matches the name of a limit on an account or QOS in a message from sbatch.
var exceeded = regexp.MustCompile(`\b(Assoc|QOS)[A-Z]\w+`)

// refusals classify other errors from sbatch; the first match counts. An error without a match is
// permanent, and reported with sbatch's own text.
var refusals = []struct {
	text string
	is   cluster.Refusal
	fix  string
}{
	{"SubmitJob", cluster.Full, ""},
	{"temporarily", cluster.Later, ""},
	{"presently disabled", cluster.Later, ""},
	{"inactive or drain", cluster.Later, ""},
	{"drained or reserved", cluster.Later, ""},
	{"configuration source", cluster.Unreachable, ""}, // slurm.conf comes from the controller, which does not respond
	{"nvalid job array specification", cluster.Fewer, "MaxArraySize on this cluster allows no arrays"},
	{"nvalid partition", cluster.Never, "set cluster: {partition: NAME}; sinfo -s lists the partitions"},
	{"nvalid account", cluster.Never, "set cluster: {account: NAME}; sacctmgr show assoc user=$USER lists yours"},
	{"nvalid qos", cluster.Never, "set cluster: {qos: NAME}; sacctmgr show assoc user=$USER format=account,qos lists yours"},
	{"ccounting/QOS policy", cluster.Never, "request less, or set another cluster.qos, account or partition"},
	{"nvalid node name", cluster.Never, "fix cluster.exclude; sinfo -N lists the nodes"},
	{"nvalid feature", cluster.Never, "fix cluster.constraint; sinfo -o '%P %f' lists the features"},
	{"nvalid generic resource", cluster.Never, "sinfo -o '%P %G' lists the GPUs"},
	{"nvalid license", cluster.Never, "scontrol show licenses lists them"},
	{"eservation", cluster.Never, "scontrol show reservation lists them"},
	{"node configuration is not available", cluster.Never, "request less; sinfo -o '%P %G %c %m' lists the GPUs, CPUs and memory (MiB) of the nodes"},
	{"time limit", cluster.Never, "set a shorter timeout, or another partition; sinfo -o '%P %l' lists the limits"},
	{"artition configuration not available", cluster.Never, "set a shorter timeout, or another partition; sinfo -o '%P %l %s' lists the limits"},
	{"roup not permitted", cluster.Never, "set cluster: {partition: NAME} to a partition that you can use; sinfo -s lists them"},
}

// failed matches the controller's own message. prefixed matches what a command prints before the
// reason.
var (
	failed   = regexp.MustCompile(`(Batch job submission failed|allocation failure): (.*)`)
	prefixed = regexp.MustCompile(`^(sbatch: )?((fatal|error): )?((Batch job submission failed|allocation failure): )?`)
)

// Answer parses the output of sbatch: a job ID or an error. A site's plugin may print the reason
// before the last line.
func (Dialect) Answer(stdout, stderr string) (job string, is cluster.Refusal, why string) {
	if m := parsable.FindStringSubmatch(stdout); m != nil {
		job = m[1]
	}
	is, why = refused(stderr)
	return job, is, why
}

func refused(stderr string) (is cluster.Refusal, why string) {
	var said []string
	for line := range strings.Lines(stderr) {
		line = prefixed.ReplaceAllString(strings.TrimSpace(line), "")
		if line != "" && line != "Unspecified error" && !strings.HasPrefix(line, "Try ") {
			said = append(said, line)
		}
	}
	why = strings.Join(said[max(0, len(said)-3):], "; ")
	if stderr == "" || unheard.MatchString(failed.FindString(stderr)) {
		return cluster.Unclear, why
	}
	if strings.Contains(why, "ccounting/QOS policy") && !exceeded.MatchString(why) {
		return cluster.Full, why // the limit may be on the number of jobs
	}
	for _, r := range refusals {
		if strings.Contains(why, r.text) {
			if r.fix != "" {
				why += " (" + r.fix + ")"
			}
			return r.is, why
		}
	}
	return cluster.Never, why
}

const (
	separator  = "|"
	timeLayout = "2006-01-02T15:04:05"
)

// List lists all jobs of a user, including those that ended recently. Names come last, because they
// may contain anything.
func (Dialect) List(user string) (q cluster.Query[[]cluster.Row]) {
	fields := []string{"ArrayJobID", "ArrayTaskID", "State", "Reason", "NodeList", "StartTime", "exit_code", "tres-per-node", "NumNodes", "tres-per-task", "NumTasks", "tres-per-job", "Partition", "Name"}
	q.Command, q.Read = command("squeue", "-h", "-a", "-u", user, "-t", "all", "-O", strings.Join(fields, ":"+separator+",")+":"+separator), readRows
	q.Env = append(q.Env, "SLURM_BITSTR_LEN=0") // do not truncate lists of tasks
	return q
}

func readRows(stdout string) ([]cluster.Row, error) {
	var rows []cluster.Row
	for line := range strings.SplitSeq(stdout, separator+"\n") { // a name may contain a line break
		f := strings.SplitN(line, separator, 14)
		if len(f) != 14 || strings.Contains(f[0], "\n") {
			if strings.TrimSpace(line) == "" {
				continue
			}
			return nil, fmt.Errorf("cannot parse the line %q in the output of squeue", line)
		}
		r := cluster.Row{Job: f[0], State: stateOf(f[2], f[3]), Reason: f[3], Node: f[4], Word: f[2], Name: f[13]}
		r.Never = hopeless[f[3]] && (r.State != cluster.Pending || !strings.Contains(f[12], ",")) // a reason may apply to only one of the partitions
		r.Suspended = f[2] == "SUSPENDED"
		r.Mixed = strings.Contains(r.Reason, ",")
		_, throttle, _ := strings.Cut(f[1], "%")
		r.Throttle, _ = strconv.Atoi(throttle)
		r.Raw, _ = strconv.Atoi(f[6])
		r.GPUs = each(f[7], f[8]) + each(f[9], f[10]) + gpusIn(f[11])
		if r.State == cluster.Pending {
			r.Expected, _ = time.ParseInLocation(timeLayout, f[5], time.Local) // N/A if unknown
		}
		if r.Mixed {
			unheld := slices.DeleteFunc(strings.Split(r.Reason, ","), func(reason string) bool { return strings.HasPrefix(reason, "JobHeld") })
			r.Unheld = foreign(strings.Join(unheld, ","))
		}
		r.Reason = foreign(r.Reason)
		if f[1] == "N/A" {
			r.Rest = true
			rows = append(rows, r)
			continue
		}
		tasks, err := cluster.Tasks(f[1])
		if err != nil {
			return nil, fmt.Errorf("cannot parse task IDs %q in the output of squeue: %w", f[1], err)
		}
		for _, t := range tasks {
			r.First, r.Last = t[0], t[1]
			rows = append(rows, r)
			r.Expected = time.Time{}
		}
	}
	return rows, nil
}

// foreign returns Slurm's reason, or "" if there is none or gpurun itself is the cause.
func foreign(reason string) string {
	if reason == "None" || reason == "JobArrayTaskLimit" {
		return ""
	}
	return reason
}

// each returns the number of GPUs of a job that requests GPUs per node or per task.
func each(list, times string) int {
	n, _ := strconv.Atoi(times)
	return n * gpusIn(list)
}

// states maps the first word of Slurm's states. Any other state, such as CONFIGURING, is Active:
// the node may have to boot first.
var states = map[string]cluster.State{
	"PENDING": cluster.Pending, "RUNNING": cluster.Runs, "REQUEUED": cluster.Pending, "REQUEUE_HOLD": cluster.Stuck,
	"REQUEUE_FED": cluster.Pending, "SPECIAL_EXIT": cluster.Stuck, "RESV_DEL_HOLD": cluster.Stuck,
	"COMPLETED": cluster.Completed, "FAILED": cluster.Failed, "TIMEOUT": cluster.TimedOut, "DEADLINE": cluster.TimedOut,
	"OUT_OF_MEMORY": cluster.OutOfMemory, "CANCELLED": cluster.Cancelled, "PREEMPTED": cluster.Preempted,
	"NODE_FAIL": cluster.NodeFailed, "BOOT_FAIL": cluster.NodeFailed, "REVOKED": cluster.Cancelled,
}

// hopeless lists the reasons that mean a waiting or refused job can never start.
var hopeless = map[string]bool{"BadConstraints": true, "PartitionConfig": true, "DependencyNeverSatisfied": true}

// stateOf returns the state of a task. For a waiting task, the reason shows whether it is held.
func stateOf(word, reason string) cluster.State {
	first, _, _ := strings.Cut(word, " ") // "CANCELLED by 0"
	s, known := states[strings.TrimSuffix(first, "+")]
	if !known {
		return cluster.Active
	}
	if s == cluster.Pending && (strings.HasPrefix(reason, "JobHeld") || strings.Contains(reason, "held")) {
		return cluster.Stuck
	}
	return s
}

// Past queries the accounting, if the site has any.
func (Dialect) Past(jobs []string) cluster.Query[[]cluster.Row] {
	return cluster.Query[[]cluster.Row]{Command: command("sacct", "-X", "-n", "-P", "-j", strings.Join(jobs, ","), "-o", "jobid,state,exitcode,end,nodelist"), Read: readEnds}
}

// readEnds parses the output of sacct. A state is final only with an end time.
func readEnds(stdout string) (rows []cluster.Row, _ error) {
	for line := range strings.Lines(stdout) {
		f := strings.Split(strings.TrimSpace(line), separator)
		if len(f) != 5 || f[3] == "Unknown" || f[3] == "" {
			continue
		}
		job, task, ok := strings.Cut(f[0], "_")
		n, err := strconv.Atoi(task)
		if !ok || err != nil {
			continue
		}
		r := cluster.Row{Job: job, First: n, Last: n, State: stateOf(f[1], ""), Node: f[4], Word: f[1]}
		if code, signal, ok := strings.Cut(f[2], ":"); ok {
			c, _ := strconv.Atoi(code)
			s, _ := strconv.Atoi(signal)
			r.Raw = c<<8 | s&0x7f
		}
		if r.Node == "None assigned" {
			r.Node = ""
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// tell runs scontrol, which fails if some tasks of an array have ended, although it then reports
// "No error" for the others.
const tell = `said=$(scontrol "$@" 2>&1) || ! printf '%s\n' "$said" | grep -v -e ': No error' -e 'already finished' -e 'already completing' -e 'Invalid job id' >&2`

// Order passes no filter to scancel, because given both a filter and tasks, scancel would end whole
// arrays. A hold also applies to a running task if it is requeued, which never happens.
func (Dialect) Order(do cluster.Order, what []string, n int) cluster.Command {
	args := append([]string{"hold"}, what...)
	switch do {
	case cluster.Cancel:
		return command(append([]string{"scancel", "-Q"}, what...)...)
	case cluster.Release:
		args[0] = "release"
	case cluster.Throttle:
		args = []string{"update", "JobId=" + what[0], fmt.Sprintf("ArrayTaskThrottle=%d", n)}
	}
	return command(append([]string{"sh", "-c", tell, "scontrol"}, args...)...)
}

// ByHand repeats the command for each job name, because scancel takes only one name.
func (Dialect) ByHand(what []string) string {
	text := "scancel"
	for _, w := range what { // sorted with IDs first
		if strings.Contains(w, "-") {
			text += "; scancel -n " + w
		} else {
			text += " " + w
		}
	}
	return strings.TrimPrefix(text, "scancel; ")
}

// Try asks Slurm when and where the job would start.
func (Dialect) Try(args []string) (q cluster.Query[string]) {
	q.Args = slices.Concat([]string{"sbatch", "--test-only", "-J", "gr-try", "-o", "/dev/null"}, args, []string{"--wrap", "true"})
	q.Env, q.Read = passed(), readBegin
	return q
}

// readBegin parses "sbatch: Job 9 to start at 2026-11-22T15:11:54 using 1 processors on nodes node1
// …".
func readBegin(text string) (string, error) {
	_, rest, _ := strings.Cut(text, " to start at ")
	word, _, _ := strings.Cut(rest, " ")
	at, err := time.ParseInLocation(timeLayout, word, time.Local)
	switch {
	case err != nil || time.Until(at) > cluster.Furthest:
		return "", nil
	case time.Until(at) < time.Minute:
		return "now", nil
	}
	return "at " + at.Format("15:04 on 2 January"), nil
}

// Exec runs a command in the foreground. srun itself reports that it is waiting.
func (Dialect) Exec(name string, args, argv []string, terminal bool) cluster.Command {
	all := []string{"srun", "-J", name}
	if terminal {
		all = append(all, "--pty")
	} else {
		all = append(all, "--quit-on-interrupt") // otherwise, the first SIGINT only makes srun print a status
	}
	return command(slices.Concat(all, args, []string{"--"}, argv)...)
}

// Task returns a task's ID in Slurm's format.
func (Dialect) Task(job string, n int) string { return fmt.Sprintf("%s_%d", job, n) }
