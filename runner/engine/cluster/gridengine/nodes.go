package gridengine

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"gpurun/runner/engine/cluster"
)

// Nodes are the commands that list the hosts, with the GPUs that are free on them, and the jobs
// that run.
func (dialect) Nodes() []cluster.Command {
	return []cluster.Command{
		{Args: []string{"qhost", "-xml", "-F", "-q"}},
		{Args: []string{"qstat", "-xml", "-r", "-s", "r", "-u", "*"}},
	}
}

// hosts is what qhost prints.
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

// conditions are the letters of a queue's state on a host. With any of them no job starts there.
var conditions = map[rune]string{
	'u': "unreachable", 'a': "overloaded", 'A': "overloaded", 'd': "disabled", 'D': "disabled", 's': "suspended", 'S': "suspended", 'C': "suspended",
	'E': "in error", 'c': "misconfigured", 'o': "orphaned",
}

// ReadNodes reads the output of both.
func (dialect) ReadNodes(out []string) ([]cluster.Node, error) {
	var h hosts
	if err := xml.Unmarshal([]byte(out[0]), &h); err != nil {
		return nil, fmt.Errorf("cannot read the list of qhost: %w", err)
	}
	jobs, err := readList(out[1])
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
		nodes[i].GPUs += used // what qhost lists is what is left
		nodes[i].Used += used
		nodes[i].Take(t.Owner, used)
	}
	return nodes, nil
}
