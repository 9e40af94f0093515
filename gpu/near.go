package gpu

import (
	"slices"
	"strings"
)

// Closeness says what connects two devices, or the farthest two of a set; "" if unknown,
// which counts as far. The words are in ledgers: never change them.
type Closeness string

// From far to near.
const (
	Far    Closeness = "far"    // different NUMA nodes
	Node   Closeness = "node"   // one NUMA node
	Switch Closeness = "switch" // one PCIe switch, without a way through the CPU
	NVLink Closeness = "nvlink"
)

var nearer = []Closeness{Far, Node, Switch, NVLink}

// rank returns a number that is higher the closer two devices are.
func (c Closeness) rank() int { return max(0, slices.Index(nearer, c)) }

// Words returns a closeness for people.
func (c Closeness) Words() string {
	switch c {
	case NVLink:
		return "NVLink"
	case Switch:
		return "one PCIe switch"
	case Node:
		return "one NUMA node"
	case Far:
		return "different NUMA nodes"
	}
	return ""
}

// near returns what connects two devices: what the driver says, else their NUMA nodes.
func near(a, b *device) Closeness {
	if c := a.Links[b.UUID]; c != "" {
		return c
	}
	if c := b.Links[a.UUID]; c != "" {
		return c
	}
	switch {
	case a.NUMA == "" || b.NUMA == "":
		return ""
	case a.NUMA == b.NUMA:
		return Node
	}
	return Far
}

// farthest returns how close the farthest two devices of a set are; "" if that is not
// known of some, or if there are no two.
func farthest(set []*device) Closeness {
	worst := NVLink
	for i, a := range set {
		for _, b := range set[:i] {
			c := near(a, b)
			if c == "" {
				return ""
			}
			worst = nearer[min(worst.rank(), c.rank())]
		}
	}
	if len(set) < 2 {
		return ""
	}
	return worst
}

// Cores returns the CPU cores of the NUMA nodes that a grant's devices are on, "0-7,16-23";
// "" if some node is unknown.
func (p *Pool) Cores(g Grant) string {
	var lists []string
	for _, d := range p.byUUID(g.UUIDs) {
		if d.Cores == "" {
			return ""
		}
		if !slices.Contains(lists, d.Cores) {
			lists = append(lists, d.Cores)
		}
	}
	return strings.Join(lists, ",")
}

// A search looks for the closest set of a given size: the one whose farthest two are
// closest, then the one with most close pairs, then the first in the order of the devices.
type search struct {
	devs  []*device // in order of preference
	must  int       // the first must are in the set
	ranks [][]int   // of any two
	top   int       // highest of ranks
	size  int
	fits  func(set []*device) bool

	level  int   // no two may be farther apart
	chosen []int // so far
	best   []*device
	sum    int // of the ranks in best; -1 before there is one
	steps  int
}

// maxSteps bounds a search. No machine has enough GPUs to need as many.
const maxSteps = 100_000

// closest returns the closest size devices of devs that fit, with the first must among
// them; nil if no set is known to be closer than another.
func closest(devs []*device, must, size int, fits func(set []*device) bool) []*device {
	s := search{devs: devs, must: must, size: size, fits: fits, ranks: make([][]int, len(devs))}
	for i, a := range devs {
		s.ranks[i] = make([]int, len(devs))
		for k, b := range devs[:i] {
			r := near(a, b).rank()
			s.ranks[i][k], s.ranks[k][i] = r, r
			s.top = max(s.top, r)
		}
	}
	if s.top == 0 {
		return nil
	}
	for s.level = s.top; s.level >= 0 && s.best == nil; s.level-- {
		s.sum, s.steps = -1, 0
		s.grow(0, 0)
	}
	return s.best
}

// grow tries the ways to complete the chosen devices, whose ranks add up to sum, with
// devices from one on.
func (s *search) grow(from, sum int) {
	n := len(s.chosen)
	if n == s.size {
		var set []*device
		for _, i := range s.chosen {
			set = append(set, s.devs[i])
		}
		if sum > s.sum && s.fits(set) {
			s.best, s.sum = set, sum
		}
		return
	}
	open := s.size*(s.size-1)/2 - (n+1)*n/2 // pairs that the next device leaves open
	for i := from; i <= len(s.devs)-(s.size-n) && (i == n || n >= s.must); i++ {
		if s.steps++; s.steps > maxSteps {
			return
		}
		more, ok := s.beside(i)
		if !ok || sum+more+open*s.top <= s.sum {
			continue
		}
		s.chosen = append(s.chosen, i)
		s.grow(i+1, sum+more)
		s.chosen = s.chosen[:n]
	}
}

// beside adds up the ranks of device i to the chosen ones, and reports whether it is close
// enough to all.
func (s *search) beside(i int) (sum int, ok bool) {
	for _, k := range s.chosen {
		if s.ranks[i][k] < s.level {
			return 0, false
		}
		sum += s.ranks[i][k]
	}
	return sum, true
}
