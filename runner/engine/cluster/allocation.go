package cluster

import (
	"os"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
)

// An Allocation is a cluster job that gpurun runs in: with the local engine, or as one task of a
// submission.
type Allocation struct {
	dialect Dialect

	ID       string    // "" if gpurun is not in one
	Restarts string    // the job's restart count, or its restart flag
	CPUs     int       // on this node; 0 if unknown
	RAM      gpu.Bytes // on this node; 0 if unknown
	Nodes    int
	Ends     time.Time // zero if unknown, or if it never ends

	// For a task of an array:
	N    int    // its number in the submission, from 0
	Task string // as Dialect.Task names it; "" if not a task
	Node string // the cluster's name for the node; "" if unknown
	GPUs string // the numbers of its GPUs among all GPUs of the node; "" if unknown
}

// Shown is a cluster's description of an allocation.
type Shown struct {
	Cluster  string // distinguishes clusters that have the same commands
	Restarts string // as in Allocation; "" if unknown
	Ends     time.Time
	Alive    bool
}

// Allocation returns the cluster job that this process runs in, read from its environment.
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
	s, err := a.dialect.Show(a.ID).Run()
	if err != nil {
		return a.Ends, "", err
	}
	if a.Ends.IsZero() {
		a.Ends = s.Ends
	}
	return a.Ends, strings.Join([]string{a.dialect.Name(), a.ID, a.Restarts, s.Cluster}, "/"), nil
}

// Over reports whether the allocation that mark identifies is certainly over, with all its
// processes. a is the caller's own allocation.
func (a Allocation) Over(mark string, of Dialects) bool {
	f := strings.SplitN(mark, "/", 4)
	i := slices.IndexFunc(of, func(d Dialect) bool { return d.Name() == f[0] })
	if len(f) != 4 || i < 0 {
		return false
	}
	s, err := of[i].Show(f[1]).Run()
	again := s.Restarts != "" && s.Restarts != f[2] || a.ID == f[1] && a.Restarts != f[2]
	return err == nil && s.Cluster == f[3] && (!s.Alive || again)
}
