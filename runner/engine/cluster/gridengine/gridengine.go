// Package gridengine adapts the cluster engine to Grid Engine: it builds Grid Engine's commands and
// interprets their output. It was written for Son of Grid Engine 8.1.9; the related Open, Univa and
// Altair versions have the same commands.
package gridengine

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurun/runner/engine/cluster"
)

// Dialect is the dialect of Grid Engine.
type Dialect struct{}

// Name returns the engine's name.
func (Dialect) Name() string { return "sge" }

// Traits sets Keeps, because the master stores each change in its database before it reports the
// change. It sets Gapless, because the scheduler ignores -tc for all but the first of several
// ranges of waiting tasks, and starts the others immediately.
func (Dialect) Traits(options map[string]string) cluster.Traits {
	name, _ := gpuResource(options)
	return cluster.Traits{
		Keeps: true, Gapless: true, Daemon: true, Deaf: true,
		Sets:      []string{"SGE_*", "JOB_ID", "JOB_NAME", "NSLOTS", "NHOSTS", "PE_HOSTFILE", "QUEUE", "ENVIRONMENT"},
		Arguments: []string{"SGE_O_*", "SGE_TASK_*", "JOB_ID", "JOB_NAME"},
		Granted:   "SGE_HGR_" + name, // on Univa and Altair Grid Engine, if the site counts GPUs with a resource map (RSMAP)
		Immediate: "remove it, or use qrsh -now: --cluster 'extra=-now y'",
	}
}

// command returns a command with the variables that locate the master.
func command(args ...string) cluster.Command {
	return cluster.Command{Args: args, Env: cluster.Passed("SGE_ROOT", "SGE_CELL", "SGE_CLUSTER_NAME", "SGE_QMASTER_PORT", "SGE_EXECD_PORT")}
}

// Submit submits an array. Grid Engine must not restart tasks by itself, must announce kills, and
// must immediately refuse jobs that no host could run. Tasks write their own output.
func (Dialect) Submit(a cluster.Array, args []string) cluster.Command {
	fixed := []string{
		"qsub", "-terse", "-N", a.Name, "-t", fmt.Sprintf("1-%d", a.Tasks), "-o", "/dev/null", "-j", "y",
		"-r", "n", "-notify", "-w", "e", "-wd", "/", "-S", "/bin/sh",
	}
	if a.Throttle > 0 {
		fixed = append(fixed, "-tc", strconv.Itoa(a.Throttle))
	}
	if a.Held {
		fixed = append(fixed, "-h")
	}
	return command(append(fixed, args...)...)
}

var terse = regexp.MustCompile(`(?m)^(\d+)(\.\d+-\d+:\d+)?$`) // 17.1-4:1

// refusals classify errors from qsub; the first match counts. A master that does not respond may
// still have received the request.
var refusals = []struct {
	text string
	is   cluster.Refusal
}{
	{"Connection refused", cluster.Unreachable},
	{"Unable to initialize environment", cluster.Unreachable},
	{"Error reading answer list", cluster.Unclear},
	{"gdi request", cluster.Unclear},
	{"unable to contact qmaster", cluster.Unclear},
	{"unable to send message", cluster.Unclear},
	{"jobs are allowed", cluster.Full},
	{"you tried to submit a job with more than", cluster.Fewer},
	{"Unable to run job:", cluster.Never},
	{"qsub: ", cluster.Never},
}

// unnumbered matches the prefix of a reason, which may contain the number of a job that never
// existed.
var unnumbered = regexp.MustCompile(`^(Unable to run job: )?(error: |Job \d+ )?`)

// Answer parses the output of qsub: a job ID or an error. The first line has the reason, except
// with -w v.
func (Dialect) Answer(stdout, stderr string) (job string, is cluster.Refusal, why string) {
	if m := terse.FindStringSubmatch(stdout); m != nil {
		job = m[1]
	}
	first, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	if why = unnumbered.ReplaceAllString(first, ""); strings.HasPrefix(why, "no suitable queues") {
		why = ""
	}
	for _, r := range refusals {
		if strings.Contains(stderr, r.text) {
			return job, r.is, why
		}
	}
	return job, cluster.Unclear, why
}

// Limits is empty, because -w e refuses jobs that no queue could run.
func (Dialect) Limits([]string) (q cluster.Query[string]) { return q }

// List lists all jobs of a user, with full names. The waiting tasks of an array share a row; each
// running task has its own.
func (Dialect) List(user string) cluster.Query[[]cluster.Row] {
	return cluster.Query[[]cluster.Row]{Command: command("qstat", "-xml", "-r", "-u", user), Read: readRows}
}

// listed is a row of qstat: a task, or several waiting tasks.
type listed struct {
	Job   string   `xml:"JB_job_number"`
	Name  string   `xml:"full_job_name"`
	Owner string   `xml:"JB_owner"`
	State string   `xml:"state"`
	Queue string   `xml:"queue_name"` // gpu.q@node1
	IDs   string   `xml:"tasks"`      // "" for a job that is not an array
	Asks  []amount `xml:"hard_request"`
}

// An amount is an available or requested amount of a resource.
type amount struct {
	Name  string `xml:"name,attr"`
	Value string `xml:",chardata"`
}

// gpus returns the number of GPUs in some resources. Sites count them under names like gpu, gpus
// and ngpus. The GPUs' type and memory may be listed under similar names, but not as plain numbers.
func gpus(of []amount) (n int) {
	for _, a := range of {
		if v, err := strconv.ParseFloat(a.Value, 64); err == nil && v >= 0 && v < 1e6 && strings.Contains(strings.ToLower(a.Name), "gpu") {
			n += int(v)
		}
	}
	return n
}

func readList(stdout string) (tasks []listed, err error) {
	var list struct {
		Parts []struct {
			Tasks []listed `xml:"job_list"`
		} `xml:",any"` // queue_info has the running tasks, job_info the others
	}
	if err = xml.Unmarshal([]byte(stdout), &list); err != nil {
		return nil, fmt.Errorf("cannot parse the output of qstat: %w", err)
	}
	for _, part := range list.Parts {
		tasks = append(tasks, part.Tasks...)
	}
	return tasks, nil
}

func readRows(stdout string) ([]cluster.Row, error) {
	list, err := readList(stdout)
	if err != nil {
		return nil, err
	}
	var rows []cluster.Row
	for _, t := range list {
		r := cluster.Row{Name: t.Name, Job: t.Job, Word: t.State, GPUs: gpus(t.Asks)}
		r.State, r.Reason, r.Never = stateOf(t.State)
		r.Suspended = r.State == cluster.Active && strings.ContainsAny(t.State, "sST") // manually, with its queue, or at the queue's threshold
		_, r.Node, _ = strings.Cut(t.Queue, "@")
		ranges := [][2]int{{1, 1}}
		if t.IDs != "" {
			if ranges, err = cluster.Tasks(t.IDs); err != nil {
				return nil, fmt.Errorf("cannot parse task IDs %q in the output of qstat: %w", t.IDs, err)
			}
		}
		for _, at := range ranges {
			r.First, r.Last = at[0]-1, at[1]-1
			if r.First >= 0 {
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// stateOf parses the letters of a state: q for waiting, with h if held and E if it cannot start; r
// for running, unless it is suspended (s, S, T) or being deleted (d). In any other state, the task
// is on a host or about to be (t).
func stateOf(letters string) (_ cluster.State, reason string, never bool) {
	has := func(letter string) bool { return strings.Contains(letters, letter) }
	switch {
	case has("E"):
		return cluster.Stuck, "", true // qstat -j has the reason
	case has("q") && has("h"):
		return cluster.Stuck, "held", false
	case has("q"):
		return cluster.Pending, "", false
	case has("r") && !strings.ContainsAny(letters, "sSTdt"):
		return cluster.Runs, "", false
	}
	return cluster.Active, "", false
}

// tell queries each job: qacct for how it ended, then qstat for why it cannot start. qstat comes
// last to override qacct, which also lists failed starts. tell ignores jobs that either command
// does not list.
const tell = `for job; do qacct -j "$job"; qstat -j "$job"; done 2>/dev/null; :`

// Past queries jobs one by one, as qacct requires.
func (Dialect) Past(jobs []string) cluster.Query[[]cluster.Row] {
	return cluster.Query[[]cluster.Row]{Command: command(append([]string{"sh", "-c", tell, "qacct"}, jobs...)...), Read: readEnds}
}

// stuck matches a line of qstat -j: error reason 2: 11/22/2026 14:44:42 [105:32184]: can't chdir to
// /x
var stuck = regexp.MustCompile(`^error reason\s+(\d+):\s+(?:\S+ \S+ \[\d+:\d+\]: )?(.+)$`)

// readEnds parses the output of qacct and qstat.
func readEnds(stdout string) (rows []cluster.Row, _ error) {
	job, account := "", map[string]string{}
	moved := map[string]bool{} // rescheduled tasks; if one had begun, its rerun does nothing, so Completed does not count
	flush := func() {
		r, ok := ended(account)
		task := account["jobnumber"] + " " + account["taskid"]
		if clear(account); !ok || moved[task] && r.State == cluster.Completed {
			return
		}
		moved[task] = moved[task] || r.State == cluster.Preempted
		rows = append(rows, r)
	}
	for line := range strings.Lines(stdout) {
		line = strings.TrimSpace(line)
		name, value, _ := strings.Cut(line, " ")
		value = strings.TrimSpace(value)
		m := stuck.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "===="):
			flush()
		case name == "job_number:":
			job = value
		case m != nil:
			if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
				rows = append(rows, cluster.Row{Job: job, First: n - 1, Last: n - 1, State: cluster.Stuck, Never: true, Reason: m[2]})
			}
		default:
			account[name] = value
		}
	}
	flush()
	return rows, nil
}

// ended parses a record of qacct.
func ended(account map[string]string) (r cluster.Row, ok bool) {
	failed, text, known := number(account["failed"])
	n, _, array := number(account["taskid"])
	if !known || !array || n < 1 || account["jobnumber"] == "" {
		return r, false
	}
	status, _, _ := number(account["exit_status"])
	r = cluster.Row{Job: account["jobnumber"], First: n - 1, Last: n - 1, Node: account["hostname"], Raw: status << 8, Word: account["failed"]}
	switch {
	case failed == 0 && status == 0:
		r.State = cluster.Completed
	case failed == 0:
		r.State = cluster.Failed
	case failed == ofLimit && overMemory(account):
		r.State = cluster.OutOfMemory
	case failed == ofLimit:
		r.State = cluster.TimedOut
	case failed == rescheduled, failed == migrated:
		r.State = cluster.Preempted
	case failed == killed: // by qdel, or by something indistinguishable from it
		r.State = cluster.Cancelled
	default: // its host could not start it, or is gone
		r.State = cluster.NodeFailed
	}
	if text != "" {
		r.Word = text
	}
	return r, true
}

// Failure codes in the accounting.
const (
	migrated    = 24
	rescheduled = 25
	ofLimit     = 37
	killed      = 100
)

// overMemory reports whether a job exceeded its memory limit rather than its time limit.
func overMemory(account map[string]string) bool {
	_, limit, _ := strings.Cut(account["category"], "h_rt=")
	asked, _, timed := number(limit)
	ran, _, _ := number(account["ru_wallclock"])
	return strings.Contains(account["category"], "h_vmem=") && (!timed || ran < asked)
}

// number returns the number at the beginning of a value, and the text after it: "37  : too long".
func number(value string) (n int, text string, ok bool) {
	end := strings.IndexFunc(value, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(value)
	}
	n, err := strconv.Atoi(value[:end])
	return n, strings.TrimLeft(value[end:], " :"), err == nil
}

// said runs a command for tasks and jobs, and ignores those that have ended.
const said = `said=$("$0" "$@" 2>&1) || case $said in *"does not exist"*) ;; *) printf '%s\n' "$said" >&2; exit 1 ;; esac`

// Order may also mark running tasks as held, which has no effect on them.
func (Dialect) Order(do cluster.Order, what []string, n int) cluster.Command {
	args := map[cluster.Order][]string{cluster.Cancel: {"qdel"}, cluster.Hold: {"qhold"}, cluster.Release: {"qrls"}, cluster.Throttle: {"qalter", "-tc", strconv.Itoa(n)}}[do]
	return command(slices.Concat([]string{"sh", "-c", said}, args, what)...)
}

// ByHand passes names too, because qdel accepts them.
func (Dialect) ByHand(what []string) string { return "qdel " + strings.Join(what, " ") }

// Try makes Grid Engine verify that some queue could run the job. There is no estimate.
func (Dialect) Try(args []string) cluster.Query[string] {
	return cluster.Query[string]{
		Command: command(slices.Concat([]string{"qsub", "-w", "v", "-N", "gr-try", "-b", "y"}, args, []string{"/bin/true"})...),
		Read:    func(string) (string, error) { return "", nil },
	}
}

// Exec runs a command unchanged in the foreground, without the shell that qrsh normally uses, which
// would split its arguments. Without a terminal, Exec passes -pty n: otherwise, qrsh would start
// the site's prolog in a terminal. Unless the daemons run as root, that fails and disables the
// queue.
func (Dialect) Exec(name string, args, argv []string, terminal bool) cluster.Command {
	pty := "n"
	if terminal {
		pty = "y"
	}
	return command(slices.Concat([]string{"qrsh", "-now", "n", "-N", name, "-cwd", "-V", "-noshell", "-pty", pty}, args, argv)...)
}

// Task numbers tasks from 1, as Grid Engine does.
func (Dialect) Task(job string, n int) string { return fmt.Sprintf("%s.%d", job, n+1) }
