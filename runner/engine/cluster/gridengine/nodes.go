package gridengine

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"gpurun/runner/engine/cluster"
)

// Nodes queries the hosts with their free GPUs, followed by the running jobs.
func (Dialect) Nodes() cluster.Query[[]cluster.Node] {
	return cluster.Query[[]cluster.Node]{Command: command("sh", "-c", "qhost -xml -F -q && echo '"+between+"' && qstat -xml -r -s r -u '*'", "qhost"), Read: readNodes}
}

// between separates the two outputs.
const between = "----"

// hosts is the output of qhost.
type hosts struct {
	Hosts []struct {
		Name      string   `xml:"name,attr"`
		Resources []amount `xml:"resourcevalue"`
		Queues    []struct {
			Name   string `xml:"name,attr"`
			Values []struct {
				Name string `xml:"name,attr"`
				Text string `xml:",chardata"`
			} `xml:"queuevalue"`
		} `xml:"queue"`
	} `xml:"host"`
}

// conditions explains the letters of a queue's state that keep jobs from starting on a host.
var conditions = map[rune]string{
	'u': "unreachable", 'a': "overloaded", 'A': "overloaded", 'd': "disabled", 'D': "disabled", 's': "suspended", 'S': "suspended", 'C': "suspended",
	'E': "in error", 'c': "misconfigured", 'o': "orphaned",
}

// readNodes parses the output of qhost and qstat.
func readNodes(stdout string) ([]cluster.Node, error) {
	list, running, _ := strings.Cut(stdout, between+"\n")
	var h hosts
	if err := xml.Unmarshal([]byte(list), &h); err != nil {
		return nil, fmt.Errorf("cannot parse the output of qhost: %w", err)
	}
	jobs, err := readList(running)
	if err != nil {
		return nil, err
	}
	var nodes []cluster.Node
	at := map[string]int{}
	for _, host := range h.Hosts {
		if host.Name == "global" {
			continue
		}
		n := cluster.Node{Name: host.Name, GPUs: gpus(host.Resources)}
		var states []string
		for _, q := range host.Queues {
			n.Parts = append(n.Parts, q.Name)
			for _, v := range q.Values {
				if v.Name != "state_string" {
					continue
				}
				n.Open = n.Open || v.Text == ""
				for _, letter := range v.Text {
					if word := cmp.Or(conditions[letter], string(letter)); !slices.Contains(states, word) {
						states = append(states, word)
					}
				}
			}
		}
		n.State = cmp.Or(strings.Join(states, ", "), "up")
		at[n.Name] = len(nodes)
		nodes = append(nodes, n)
	}
	for _, t := range jobs {
		_, host, _ := strings.Cut(t.Queue, "@")
		i, known := at[host]
		if !known {
			continue
		}
		used := gpus(t.Asks)
		nodes[i].GPUs += used // qhost lists only the free GPUs
		nodes[i].Used += used
		nodes[i].AddJob(t.Owner, used)
	}
	return nodes, nil
}
