package slurm

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine/cluster"
)

// Args maps a job's requests to arguments. A site may call its GPUs anything, so the job file
// defines the models (settings.cluster.models).
func (Dialect) Args(a cluster.JobRequest) ([]string, error) {
	var args []string
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag+value)
		}
	}
	for _, key := range []string{"partition", "account", "qos"} {
		add("--"+key+"=", a.Options[key])
	}
	constraints := []string{}
	if c := a.Options["constraint"]; c != "" {
		constraints = append(constraints, c)
	}
	if a.GPUs > 0 {
		gres, features, err := models(a)
		if err != nil {
			return nil, err
		}
		if len(features) > 0 {
			constraints = append(constraints, strings.Join(features, "|"))
		}
		add("--gres=", cmp.Or(gres, "gpu")+":"+strconv.Itoa(a.GPUs))
	}
	switch len(constraints) {
	case 1:
		add("--constraint=", constraints[0])
	case 2:
		add("--constraint=", "("+constraints[0]+")&("+constraints[1]+")")
	}
	add("--exclude=", strings.Join(a.Excluded(), ","))
	if a.CPUs > 0 {
		add("--cpus-per-task=", strconv.Itoa(a.CPUs))
	}
	if a.Memory > 0 {
		add("--mem=", strconv.FormatInt(int64((a.Memory+gpu.MiB-1)/gpu.MiB), 10)+"M")
	}
	if a.Limit > 0 {
		add("--time=", strconv.Itoa(int((a.Limit+time.Minute-1)/time.Minute)))
	}
	if a.Priority < 0 {
		add("--nice=", strconv.Itoa(min(-a.Priority, 2147483645)))
	}
	for word := range strings.Lines(a.Options["extra"]) {
		add("", strings.TrimSpace(word))
	}
	return args, nil
}

// models returns the GPUs to request: the type of a gres, "gpu:a100", or features of nodes, any one
// of which is enough.
func models(a cluster.JobRequest) (gres string, features []string, err error) {
	suitable, err := a.Suitable()
	for _, m := range suitable {
		switch {
		case m.Feature != "":
			features = append(features, m.Feature)
		case gres == "":
			gres = m.Means
		case len(a.Request.Models) > 0:
			return "", nil, fmt.Errorf("gpu_model: Slurm accepts several models only as node features: set cluster: {models: {%s: \"constraint=FEATURE\"}} (sinfo -o '%%G %%f' lists GPUs and features)", m.Name)
		}
	}
	if len(features) > 0 && gres != "" && len(a.Request.Models) == 0 {
		gres = "" // the features are enough
	}
	return gres, features, err
}
