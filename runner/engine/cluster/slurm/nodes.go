package slurm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpurun/runner/engine/cluster"
)

// Nodes queries the nodes, followed by the running jobs with the GPUs of each.
func (Dialect) Nodes() cluster.Query[[]cluster.Node] {
	const list = "sinfo -h -N -O 'NodeList:|,Partition:|,StateLong:|,Gres:|,GresUsed:|' && echo && squeue -h -a -t R -o '%N|%u|%b'"
	return cluster.Query[[]cluster.Node]{Command: command("sh", "-c", list, "sinfo"), Read: readNodes}
}

// open are the states of nodes on which jobs can start. Most suffixes, such as ~ for a sleeping
// node, are no obstacle. But * means that the node does not respond, and $ that it is reserved for
// maintenance.
var open = []string{"idle", "mixed", "allocated", "completing"}

// readNodes parses the output of sinfo and squeue. A node has a line for each of its partitions.
func readNodes(stdout string) ([]cluster.Node, error) {
	list, jobs, _ := strings.Cut(stdout, "\n\n")
	var nodes []cluster.Node
	at := map[string]int{}
	for line := range strings.Lines(list) {
		f := strings.Split(strings.TrimSpace(line), separator)
		if len(f) < 5 {
			return nil, fmt.Errorf("cannot parse the line %q in the output of sinfo", strings.TrimSpace(line))
		}
		i, known := at[f[0]]
		if !known {
			i = len(nodes)
			at[f[0]] = i
			n := cluster.Node{Name: f[0], State: f[2], GPUs: gpusIn(f[3]), Used: gpusIn(f[4])}
			n.Open = slices.Contains(open, strings.TrimRight(n.State, "~#@+-"))
			nodes = append(nodes, n)
		}
		nodes[i].Parts = append(nodes[i].Parts, strings.TrimSuffix(f[1], "*"))
	}
	for line := range strings.Lines(jobs) {
		f := strings.Split(strings.TrimSpace(line), separator)
		i, known := at[f[0]]
		if len(f) != 3 || !known {
			continue // a job on several nodes: sinfo has its GPUs
		}
		nodes[i].AddJob(f[1], gpusIn(f[2]))
	}
	return nodes, nil
}

var gres = regexp.MustCompile(`(?:^|[,:/])gpu(?::[^:,()]*[^0-9:,()][^:,()]*)?:(\d+)`) // gpu:4, gpu:a100:4(S:0-1), gres:gpu:2

// gpusIn returns the number of GPUs in a list of generic resources.
func gpusIn(list string) (n int) {
	for _, m := range gres.FindAllStringSubmatch(list, -1) {
		k, _ := strconv.Atoi(m[1])
		n += k
	}
	return n
}
