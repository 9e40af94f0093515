package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/state/host"
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
// use. variable is that of Traits.Granted.
func Guarded(variable string, argv []string) []string {
	return append([]string{"sh", "-c", fmt.Sprintf(guard, quoted(variable), quoted(untold(variable))), "sh"}, argv...)
}

// unsaid returns why an attempt must not begin: nobody said which GPUs of the node are its own,
// so it would see all, also those that others use.
func unsaid(l *engine.Launch, env []string, node, variable string) string {
	if l.Request == nil || l.Request.GPUs == 0 || engine.Variable(env, "CUDA_VISIBLE_DEVICES") != "" {
		return ""
	}
	return node + " " + untold(variable)
}

func untold(variable string) string {
	if variable == "" {
		return "does not say which GPUs the job may use: CUDA_VISIBLE_DEVICES is not set; have the site set it (on Slurm by File= in gres.conf)"
	}
	return "does not say which GPUs the job may use: CUDA_VISIBLE_DEVICES is not set, and " + variable + " has no numbers of GPUs; have the site set one of them, the first in a prolog"
}

// furnish completes a launch with what only the node knows.
func (n *node) furnish(l *engine.Launch, submission string, t *task) {
	login := sharedEnv(submission)
	theirs := n.changed(os.Environ(), login)
	shared := slices.DeleteFunc(login, n.sets)
	fixed := []string(nil)
	if l.Request != nil && l.Request.GPUs > 0 {
		l.Grant = gpu.Grant{Indices: t.GPUs, UUIDs: t.UUIDs}
		for i := len(t.UUIDs); i < l.Request.GPUs; i++ { // the keeper only asks whether there are any
			l.Grant.UUIDs = append(l.Grant.UUIDs, gpu.UUID(fmt.Sprintf("%s %d", t.Host, i)))
		}
	} else {
		fixed = []string{"CUDA_VISIBLE_DEVICES=-1", "NVIDIA_VISIBLE_DEVICES=void"}
	}
	list := engine.Variable(theirs, "CUDA_VISIBLE_DEVICES")
	first, _, _ := strings.Cut(list, ",")
	replace := strings.NewReplacer(
		engine.Token("gpu_list"), list, engine.Token("gpu"), first, engine.Token("ngpus"), strconv.Itoa(len(t.GPUs)), engine.Token("port"), freePort(),
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
func (n *node) changed(env, login []string) (theirs []string) {
	was := map[string]string{}
	for _, kv := range login {
		name, value, _ := strings.Cut(kv, "=")
		was[name] = value
	}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		before, had := was[name]
		if n.sets(kv) || !slices.Contains(personal, name) && (!had || before != value && !n.daemon) {
			theirs = append(theirs, kv)
		}
	}
	return theirs
}

// A node is where a task runs.
type node struct {
	Allocation
	daemon bool     // see Traits
	all    []string // patterns of variables that any cluster sets
}

// node returns the one that this process runs on, by its environment.
func (all Dialects) node() (*node, error) {
	n := &node{Allocation: all.Allocation(), all: []string{visible, "TMPDIR", "TMP", "HOSTNAME", "GPU_DEVICE_ORDINAL", "CUDA_DEVICE_ORDER"}}
	if n.Task == "" {
		return nil, errors.New("gpurun __task is for a cluster: no variable says which task this is")
	}
	n.Node, n.daemon = cmp.Or(n.Node, host.Name()), n.dialect.Traits(nil).Daemon
	for _, d := range all {
		n.all = append(n.all, d.Traits(nil).Sets...)
	}
	return n, nil
}

// sets reports whether a variable is the cluster's, for the node.
func (n *node) sets(kv string) bool { return among(n.all, kv) }

// devices returns the GPUs that the cluster gave the task, by an environment.
func (n *node) devices(env []string) (ids []int, uuids []gpu.UUID) {
	list := engine.Variable(env, "CUDA_VISIBLE_DEVICES")
	for part := range strings.SplitSeq(cmp.Or(n.GPUs, list), ",") {
		if id, err := strconv.Atoi(part); err == nil && id >= 0 {
			ids = append(ids, id)
		}
	}
	for part := range strings.SplitSeq(list, ",") {
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
