package cluster

import "slices"

// A Node is a host of the cluster, as its scheduler sees it.
type Node struct {
	Name      string
	State     string   // the cluster's own word
	Open      bool     // jobs start on it
	Parts     []string // partitions or queues that it is in
	GPUs      int
	Used      int // of these, given to jobs
	Occupants []Occupant
}

// An Occupant is a user with jobs on a node.
type Occupant struct {
	User string
	Jobs int
	GPUs int
}

// Take notes a job of a user, with its GPUs.
func (n *Node) Take(user string, gpus int) {
	i := slices.IndexFunc(n.Occupants, func(o Occupant) bool { return o.User == user })
	if i < 0 {
		i = len(n.Occupants)
		n.Occupants = append(n.Occupants, Occupant{User: user})
	}
	n.Occupants[i].Jobs++
	n.Occupants[i].GPUs += gpus
}
