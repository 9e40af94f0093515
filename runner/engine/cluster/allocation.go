package cluster

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
)

// An Allocation is a job of a cluster in which gpurun itself runs, with the engine local.
type Allocation struct {
	dialect Dialect

	ID       string    // "" outside of any
	Restarts string    // how often the cluster has started it again
	CPUs     int       // on this node; 0 if unknown
	RAM      gpu.Bytes // on this node; 0 if unknown
	Nodes    int
	Ends     time.Time // zero if unknown, or never
}

// Shown is what a cluster says of an allocation.
type Shown struct {
	Cluster  string // which of several with the same commands
	Restarts string // as the Allocation has them; "" if it does not say
	Ends     time.Time
	Alive    bool
}

// Here returns the allocation that this process runs in, by its environment.
func Here(of ...Dialect) Allocation {
	for _, d := range of {
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
	s, err := show(a.dialect, a.ID)
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
func (a Allocation) Over(mark string, of ...Dialect) bool {
	f := strings.SplitN(mark, "/", 4)
	i := slices.IndexFunc(of, func(d Dialect) bool { return d.Name() == f[0] })
	if len(f) != 4 || i < 0 {
		return false
	}
	s, err := show(of[i], f[1])
	again := s.Restarts != "" && s.Restarts != f[2] || a.ID == f[1] && a.Restarts != f[2]
	return err == nil && s.Cluster == f[3] && (!s.Alive || again)
}

func show(d Dialect, id string) (Shown, error) {
	out, err := d.Show(id).output()
	if err != nil {
		return Shown{}, err
	}
	s, ok := d.Shown(id, out)
	if !ok {
		return Shown{}, fmt.Errorf("%s does not say what became of job %s: %s", d.Name(), id, strings.TrimSpace(out))
	}
	return s, nil
}
