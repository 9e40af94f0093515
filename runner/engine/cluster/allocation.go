package cluster

import (
	"os"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
)

// An Allocation is a job of a cluster in which gpurun itself runs: with the engine local, or for one
// task of what it has submitted.
type Allocation struct {
	dialect Dialect

	ID       string    // "" outside of any
	Restarts string    // how often the cluster has started it again
	CPUs     int       // on this node; 0 if unknown
	RAM      gpu.Bytes // on this node; 0 if unknown
	Nodes    int
	Ends     time.Time // zero if unknown, or never

	// Of a task of an array:
	N    int    // its number in the submission, from 0
	Task string // as Dialect.Task names it; "" if it is none
	Node string // as the cluster calls it; "" if it does not say
	GPUs string // the node's own numbers of its GPUs, whatever it may see; "" if it does not say
}

// Shown is what a cluster says of an allocation.
type Shown struct {
	Cluster  string // which of several with the same commands
	Restarts string // as the Allocation has them; "" if it does not say
	Ends     time.Time
	Alive    bool
}

// Allocation returns the one that this process runs in, by its environment.
func (all Dialects) Allocation() Allocation {
	for _, d := range all {
		if a := d.Allocation(os.Getenv); a.ID != "" {
			a.dialect = d
			return a
		}
	}
	return Allocation{}
}

func (a Allocation) String() string { return a.dialect.Name() + " job " + a.ID }

// Look asks the cluster when an allocation ends. mark identifies the allocation for Over.
func (a Allocation) Look() (ends time.Time, mark string, err error) {
	s, err := a.dialect.Show(a.ID).Ask()
	if err != nil {
		return a.Ends, "", err
	}
	if a.Ends.IsZero() {
		a.Ends = s.Ends
	}
	return a.Ends, strings.Join([]string{a.dialect.Name(), a.ID, a.Restarts, s.Cluster}, "/"), nil
}

// Over reports whether the allocation with a mark is certainly over, and with it all its processes.
// a is the one that asks.
func (a Allocation) Over(mark string, of Dialects) bool {
	f := strings.SplitN(mark, "/", 4)
	i := slices.IndexFunc(of, func(d Dialect) bool { return d.Name() == f[0] })
	if len(f) != 4 || i < 0 {
		return false
	}
	s, err := of[i].Show(f[1]).Ask()
	again := s.Restarts != "" && s.Restarts != f[2] || a.ID == f[1] && a.Restarts != f[2]
	return err == nil && s.Cluster == f[3] && (!s.Alive || again)
}
