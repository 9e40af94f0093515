package slurm

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine/cluster"
)

// Allocation reads the variables of a cluster job.
func (d Dialect) Allocation(getenv func(string) string) (a cluster.Allocation) {
	number := func(name string) int64 { n, _ := strconv.ParseInt(getenv(name), 10, 64); return n }
	if a.ID = getenv("SLURM_JOB_ID"); a.ID == "" {
		return a
	}
	a.Restarts = cmp.Or(getenv("SLURM_RESTART_COUNT"), "0")
	a.CPUs, a.Nodes = int(number("SLURM_CPUS_ON_NODE")), int(number("SLURM_JOB_NUM_NODES"))
	a.RAM = gpu.MiB * gpu.Bytes(cmp.Or(number("SLURM_MEM_PER_NODE"), number("SLURM_MEM_PER_CPU")*int64(a.CPUs)))
	if end := number("SLURM_JOB_END_TIME"); end > 0 { // 22.05 does not set it
		a.Ends = time.Unix(end, 0)
	}
	if n, err := strconv.Atoi(getenv("SLURM_ARRAY_TASK_ID")); err == nil {
		a.N, a.Task, a.Node, a.GPUs = n, d.Task(getenv("SLURM_ARRAY_JOB_ID"), n), getenv("SLURMD_NODENAME"), getenv("SLURM_JOB_GPUS")
	}
	return a
}

// Show first identifies the cluster, because other clusters use the same job numbers.
func (Dialect) Show(id string) cluster.Query[cluster.Shown] {
	const show = `scontrol show config | sed -n 's/^ClusterName *= *//p'; scontrol show job -o "$1" 2>&1; :`
	return cluster.Query[cluster.Shown]{Command: command("sh", "-c", show, "scontrol", id), Read: readShown}
}

var shown = regexp.MustCompile(` JobState=(\S+) .* Restarts=(\d+) .* EndTime=(\S+) `)

// readShown parses the output. A completing job counts as alive, because it still has processes.
func readShown(stdout string) (s cluster.Shown, err error) {
	name, job, _ := strings.Cut(stdout, "\n")
	s.Cluster = name
	m := shown.FindStringSubmatch(job)
	if m == nil && !strings.Contains(job, "Invalid job id specified") {
		return s, fmt.Errorf("slurm does not report the job's state: %s", strings.TrimSpace(stdout))
	} else if m == nil {
		return s, nil
	}
	state := stateOf(m[1], "")
	s.Restarts = m[2]
	s.Ends, _ = time.ParseInLocation(timeLayout, m[3], time.Local) // "Unknown" if there is none
	s.Alive = state == cluster.Runs || state == cluster.Active
	return s, nil
}
