package slurm

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine/cluster"
)

// Allocation reads the variables of a job.
func (dialect) Allocation(getenv func(string) string) (a cluster.Allocation) {
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
	return a
}

// Show says first which cluster this is, since the numbers of jobs are the same on others.
func (dialect) Show(id string) cluster.Command {
	return cluster.Command{Args: []string{"sh", "-c", `scontrol show config | sed -n 's/^ClusterName *= *//p'; scontrol show job -o "$1" 2>&1; :`, "scontrol", id}}
}

var shown = regexp.MustCompile(` JobState=(\S+) .* Restarts=(\d+) .* EndTime=(\S+) `)

// Shown reads that. A job that is completing still has processes.
func (dialect) Shown(_, stdout string) (s cluster.Shown, ok bool) {
	name, job, _ := strings.Cut(stdout, "\n")
	s.Cluster = name
	m := shown.FindStringSubmatch(job)
	if m == nil {
		return s, strings.Contains(job, "Invalid job id specified")
	}
	state := stateOf(m[1], "")
	s.Restarts = m[2]
	s.Ends, _ = time.ParseInLocation(timeLayout, m[3], time.Local) // Unknown without one
	s.Alive = state == cluster.Runs || state == cluster.Active
	return s, true
}
