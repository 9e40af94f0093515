package gridengine

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gpurun/runner/engine/cluster"
)

// Allocation reads the variables of a cluster job.
func (Dialect) Allocation(getenv func(string) string) (a cluster.Allocation) {
	if getenv("NSLOTS") == "" {
		return a
	}
	if a.ID = getenv("JOB_ID"); a.ID != "" && getenv("SGE_TASK_ID") != "undefined" {
		a.ID += "." + cmp.Or(getenv("SGE_TASK_ID"), "1")
	}
	a.Restarts = getenv("RESTARTED")
	a.CPUs, _ = strconv.Atoi(getenv("NSLOTS"))
	a.Nodes, _ = strconv.Atoi(getenv("NHOSTS"))
	if n, err := strconv.Atoi(getenv("SGE_TASK_ID")); err == nil { // the daemon sets HOSTNAME to its own name for the host
		a.N, a.Task, a.Node = n-1, a.ID, getenv("HOSTNAME")
	}
	return a
}

// Show first identifies the cluster, because other clusters use the same job numbers. SGE_ROOT may
// be unset, because Debian's commands find their files without it.
func (Dialect) Show(id string) cluster.Query[cluster.Shown] {
	const show = `cat "${SGE_ROOT:-/var/lib/gridengine}/${SGE_CELL:-default}/common/act_qmaster" && qstat -xml -j "$1"`
	job, number, array := strings.Cut(id, ".")
	return cluster.Query[cluster.Shown]{
		Command: command("sh", "-c", show, "qstat", job),
		Read:    func(stdout string) (cluster.Shown, error) { return readShown(stdout, number, array) },
	}
}

// detail is the output of qstat -xml -j.
type detail struct {
	XMLName xml.Name
	Asks    []struct {
		Name  string  `xml:"CE_name"`
		Value float64 `xml:"CE_doubleval"`
	} `xml:"djob_info>element>JB_hard_resource_list>qstat_l_requests"`
	Tasks []struct {
		Number string `xml:"JAT_task_number"`
		Status int    `xml:"JAT_status"`
		Start  int64  `xml:"JAT_start_time"`
	} `xml:"djob_info>element>JB_ja_tasks>ulong_sublist"`
}

// onHost has the status bits of a task that is running or about to run: JRUNNING and JTRANSFERING.
const onHost = 0x80 | 0x200

// readShown parses the output for one task of an array. Ended tasks are not listed.
func readShown(stdout, number string, array bool) (s cluster.Shown, err error) {
	var d detail
	var text string
	s.Cluster, text, _ = strings.Cut(stdout, "\n")
	if xml.Unmarshal([]byte(text), &d) != nil {
		return s, fmt.Errorf("sge does not report the job's state: %s", strings.TrimSpace(stdout))
	}
	for _, t := range d.Tasks {
		if array && t.Number != number || t.Status&onHost == 0 {
			continue
		}
		s.Alive = true
		for _, a := range d.Asks {
			if start := t.Start; a.Name == "h_rt" && start > 0 {
				if start > 1e11 { // Univa and Altair use milliseconds
					start /= 1000
				}
				s.Ends = time.Unix(start, 0).Add(time.Duration(a.Value) * time.Second)
			}
		}
	}
	return s, nil
}
