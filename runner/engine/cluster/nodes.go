package cluster

import "slices"

// A Node is a host in the cluster's list of nodes.
type Node struct {
	Name      string
	State     string   // in the cluster's own words
	Open      bool     // jobs can start on it
	Parts     []string // partitions or queues that contain it
	GPUs      int
	Used      int // number of GPUs that jobs use
	Occupants []Occupant
}

// An Occupant is a user with jobs on a node.
type Occupant struct {
	User string
	Jobs int
	GPUs int
}

// AddJob adds a user's job with its GPUs.
func (n *Node) AddJob(user string, gpus int) {
	i := slices.IndexFunc(n.Occupants, func(o Occupant) bool { return o.User == user })
	if i < 0 {
		i = len(n.Occupants)
		n.Occupants = append(n.Occupants, Occupant{User: user})
	}
	n.Occupants[i].Jobs++
	n.Occupants[i].GPUs += gpus
}
