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

// useGranted sets CUDA_VISIBLE_DEVICES to "0,2" if the node's variable lists GPUs as "0 2". It
// ignores any other content, whose meaning depends on the site.
func useGranted(variable string) {
	ids := strings.Fields(os.Getenv(variable))
	named := slices.ContainsFunc(ids, func(id string) bool { return strings.Trim(id, "0123456789") != "" })
	if len(ids) > 0 && !named && os.Getenv("CUDA_VISIBLE_DEVICES") == "" {
		_ = os.Setenv("CUDA_VISIBLE_DEVICES", strings.Join(ids, ","))
		_ = os.Setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
	}
}

// guard is like useGranted, but for a command without a task; it exits if the GPUs are unknown.
const guard = `if [ -z "$CUDA_VISIBLE_DEVICES" ]; then ids=$(printenv %s); ` +
	`case $ids in '' | *[!0-9\ ]*) echo "gpurun: $(uname -n)" %s >&2; exit 1 ;; esac; ` +
	`export CUDA_VISIBLE_DEVICES="$(echo $ids | tr ' ' ,)" CUDA_DEVICE_ORDER=PCI_BUS_ID; fi; exec "$@"`

// Guarded returns a command that runs argv, but fails if the node does not say which GPUs the
// command can use. variable is Traits.Granted.
func Guarded(variable string, argv []string) []string {
	return append([]string{"sh", "-c", fmt.Sprintf(guard, quoted(variable), quoted(unknownGPUs(variable))), "sh"}, argv...)
}

// refuseUnknownGPUs returns why an attempt must not begin, or "" if it may. If the node does not
// say which GPUs the attempt can use, the attempt would see all of them, including those of other
// users.
func refuseUnknownGPUs(l *engine.Launch, env []string, node, variable string) string {
	if l.Request == nil || l.Request.GPUs == 0 || engine.Variable(env, "CUDA_VISIBLE_DEVICES") != "" {
		return ""
	}
	return node + " " + unknownGPUs(variable)
}

func unknownGPUs(variable string) string {
	if variable == "" {
		return "does not say which GPUs the job can use: CUDA_VISIBLE_DEVICES is not set; ask the admins to set it (on Slurm, with File= in gres.conf)"
	}
	return "does not say which GPUs the job can use: CUDA_VISIBLE_DEVICES is not set, and " + variable + " contains no GPU numbers; ask the admins to set either variable (CUDA_VISIBLE_DEVICES in a prolog)"
}

// completeLaunch adds to a launch the values that are known only on the node.
func (n *node) completeLaunch(l *engine.Launch, submission string, t *task) {
	login := sharedEnv(submission)
	theirs := n.changed(os.Environ(), login)
	shared := slices.DeleteFunc(login, n.sets)
	fixed := []string(nil)
	if l.Request != nil && l.Request.GPUs > 0 {
		l.Grant = gpu.Grant{Indices: t.GPUs, UUIDs: t.UUIDs}
		for i := len(t.UUIDs); i < l.Request.GPUs; i++ { // the keeper only checks whether there are any
			l.Grant.UUIDs = append(l.Grant.UUIDs, gpu.UUID(fmt.Sprintf("%s %d", t.Host, i)))
		}
	} else {
		fixed = []string{"CUDA_VISIBLE_DEVICES=-1", "NVIDIA_VISIBLE_DEVICES=void"}
	}
	list := engine.Variable(theirs, "CUDA_VISIBLE_DEVICES")
	first, _, _ := strings.Cut(list, ",")
	replace := strings.NewReplacer(
		engine.Token("gpu_list"), list, engine.Token("gpu"), first, engine.Token("ngpus"), strconv.Itoa(max(len(t.GPUs), len(t.UUIDs))), engine.Token("port"), freePort(),
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

// personal lists variables that a login or a shell sets. A job inherits them from gpurun.
var personal = []string{"HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_"}

// changed returns the variables that a node has set or changed. Slurm copies the login node's
// variables. Grid Engine's daemon passes its own, so there, only variables that the login node
// lacks count.
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

// node identifies the node that this process runs on, from the environment.
func (all Dialects) node() (*node, error) {
	n := &node{Allocation: all.Allocation(), all: []string{visible, "TMPDIR", "TMP", "HOSTNAME", "GPU_DEVICE_ORDINAL", "CUDA_DEVICE_ORDER"}}
	if n.Task == "" {
		return nil, errors.New("gpurun __task runs only on a cluster: no variable identifies the task")
	}
	n.Node, n.daemon = cmp.Or(n.Node, host.Name()), n.dialect.Traits(nil).Daemon
	for _, d := range all {
		n.all = append(n.all, d.Traits(nil).Sets...)
	}
	return n, nil
}

// sets reports whether the cluster sets a variable on the node.
func (n *node) sets(kv string) bool { return matchesAny(n.all, kv) }

// devices returns the GPUs that env assigns to the task.
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

// freePort returns a port that is free on this host.
func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "29500"
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
