package cli

import (
	"fmt"
	"os/exec"
	"os/user"
	"strings"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/cluster"
	"gpurun/state"
)

// commands finds the cluster's commands.
func (d *diagnosis) commands() string {
	var names []string
	for _, c := range []cluster.Command{d.there.Submit(cluster.Array{}, nil), d.there.List("").Command, d.there.Order(cluster.Cancel, nil, 0), d.there.Exec("", nil, nil, false)} {
		names = append(names, c.Name())
		if _, err := exec.LookPath(c.Name()); err != nil {
			d.addProblem(c.Name()+" not found", "log in to a node of the cluster, or load the site's module")
		}
	}
	return strings.Join(names, ", ")
}

// controller asks the cluster for this user's jobs.
func (d *diagnosis) controller() string {
	u, err := user.Current()
	if err != nil {
		d.addError(err)
		return ""
	}
	began := time.Now()
	gpus, err := cluster.RequestedGPUs(d.there, u.Username)
	if err != nil {
		d.addProblem(err.Error(), "ask the admins whether the controller is down")
	}
	return fmt.Sprintf("responds in %s; your jobs request %s", time.Since(began).Round(time.Millisecond), state.Count(gpus, "GPU"))
}

// partition asks the cluster whether it would accept a job with a GPU.
func (d *diagnosis) partition() string {
	t, err := cluster.Demands(d.there, &engine.Launch{Request: &engine.Request{GPUs: 1, Options: d.settings.Cluster}})
	begins := ""
	if err == nil {
		begins, _, err = t.Try(d.there)
	}
	if err != nil {
		d.addProblem(fmt.Sprintf("a job with %s: %v", strings.Join(t.Args, " "), err), "pass the site's names, e.g. --cluster partition=NAME on Slurm, queue=NAME,gpu_resource=NAME on Grid Engine")
	} else if begins != "" {
		begins = " (estimated start: " + begins + ")"
	}
	return "accepts a job with " + strings.Join(t.Args, " ") + begins
}
