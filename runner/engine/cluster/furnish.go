package cluster

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
	"gpurun/runner/engine"
)

// heed sets CUDA's own variable, "0,2", by that in which a node names GPUs by number, "0 2". Only the
// site knows what anything else there means.
func heed(variable string) {
	ids := strings.Fields(os.Getenv(variable))
	named := slices.ContainsFunc(ids, func(id string) bool { return strings.Trim(id, "0123456789") != "" })
	if len(ids) > 0 && !named && os.Getenv("CUDA_VISIBLE_DEVICES") == "" {
		_ = os.Setenv("CUDA_VISIBLE_DEVICES", strings.Join(ids, ","))
		_ = os.Setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
	}
}

// guard does the same before a command that no task runs, which must not see other people's GPUs
// either.
const guard = `if [ -z "$CUDA_VISIBLE_DEVICES" ]; then ids=$(printenv %s); ` +
	`case $ids in '' | *[!0-9\ ]*) echo "gpurun: $(uname -n)" %s >&2; exit 1 ;; esac; ` +
	`export CUDA_VISIBLE_DEVICES="$(echo $ids | tr ' ' ,)" CUDA_DEVICE_ORDER=PCI_BUS_ID; fi; exec "$@"`

// Guarded returns a command that runs another one, unless the node does not say which GPUs it may
// use. variable is that of Dialect.Granted.
func Guarded(variable string, argv []string) []string {
	return append([]string{"sh", "-c", fmt.Sprintf(guard, quoted(variable), quoted(untold(variable))), "sh"}, argv...)
}

// unsaid returns why an attempt must not begin: nobody said which GPUs of the node are its own,
// so it would see all, also those that others use.
func unsaid(l *engine.Launch, env []string, node, variable string) string {
	if l.Ask == nil || l.Ask.GPUs == 0 || engine.Variable(env, "CUDA_VISIBLE_DEVICES") != "" {
		return ""
	}
	return node + " " + untold(variable)
}

func untold(variable string) string {
	if variable == "" {
		return "does not say which GPUs the job may use: CUDA_VISIBLE_DEVICES is not set; have the site set it by File= in gres.conf"
	}
	return "does not say which GPUs the job may use: CUDA_VISIBLE_DEVICES is not set, and " + variable + " has no numbers of GPUs; have the site set one of them, the first in a prolog"
}

// furnish completes a launch with what only the node knows.
func furnish(l *engine.Launch, submission string, t *task) {
	login := sharedEnv(submission)
	theirs := changed(os.Environ(), login)
	shared := slices.DeleteFunc(login, nodes)
	fixed := []string(nil)
	if l.Ask != nil && l.Ask.GPUs > 0 {
		l.Grant = gpu.Grant{Indices: t.GPUs, UUIDs: t.UUIDs}
		for i := len(t.UUIDs); i < l.Ask.GPUs; i++ { // the keeper only asks whether there are any
			l.Grant.UUIDs = append(l.Grant.UUIDs, gpu.UUID(fmt.Sprintf("%s %d", t.Host, i)))
		}
	} else {
		fixed = []string{"CUDA_VISIBLE_DEVICES=-1", "NVIDIA_VISIBLE_DEVICES=void"}
	}
	visible := engine.Variable(theirs, "CUDA_VISIBLE_DEVICES")
	first, _, _ := strings.Cut(visible, ",")
	replace := strings.NewReplacer(
		engine.Token("gpu_list"), visible, engine.Token("gpu"), first, engine.Token("ngpus"), strconv.Itoa(len(t.GPUs)), engine.Token("port"), freePort(),
	)
	own := slices.Clone(l.Env)
	for i := range own {
		own[i] = replace.Replace(own[i])
	}
	for i := range l.Commands {
		l.Commands[i] = replace.Replace(l.Commands[i])
	}
	l.Header = replace.Replace(l.Header)
	l.Env = engine.Layered(shared, theirs, own, fixed)
}

// personal are variables that a login or a shell sets. A job has them as gpurun was started with them.
var personal = []string{"HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_"}

// changed returns the variables that a node has set or changed. Slurm passes those of the login node
// on as they are. Grid Engine's daemon passes on its own, so there only what the login node lacks counts.
func changed(env, login []string) (theirs []string) {
	was := map[string]string{}
	for _, kv := range login {
		name, value, _ := strings.Cut(kv, "=")
		was[name] = value
	}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		before, had := was[name]
		if nodes(kv) || !slices.Contains(personal, name) && (!had || before != value && os.Getenv("SGE_TASK_ID") == "") {
			theirs = append(theirs, kv)
		}
	}
	return theirs
}

// nodes reports whether a variable is the cluster's, for the node.
func nodes(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	return strings.HasPrefix(name, "SLURM") || strings.HasPrefix(name, "SBATCH_") || strings.HasPrefix(name, "SGE_") || strings.HasSuffix(name, "VISIBLE_DEVICES") ||
		slices.Contains([]string{"JOB_ID", "JOB_NAME", "TMPDIR", "TMP", "NSLOTS", "NHOSTS", "PE_HOSTFILE", "QUEUE", "HOSTNAME", "GPU_DEVICE_ORDINAL", "CUDA_DEVICE_ORDER", "ENVIRONMENT"}, name)
}

// devices returns the GPUs that the cluster gave a task, by its environment.
func devices(env []string) (ids []int, _ []gpu.UUID) {
	list := engine.Variable(env, "SLURM_JOB_GPUS") // the node's numbers, whatever the task may see
	if list == "" {
		list = engine.Variable(env, "CUDA_VISIBLE_DEVICES")
	}
	for part := range strings.SplitSeq(list, ",") {
		if n, err := strconv.Atoi(part); err == nil && n >= 0 {
			ids = append(ids, n)
		}
	}
	var uuids []gpu.UUID
	for part := range strings.SplitSeq(engine.Variable(env, "CUDA_VISIBLE_DEVICES"), ",") {
		if strings.HasPrefix(part, "GPU-") || strings.HasPrefix(part, "MIG-") {
			uuids = append(uuids, gpu.UUID(part))
		}
	}
	return ids, uuids
}

// freePort returns a port that nobody listens on here now.
func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "29500"
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
