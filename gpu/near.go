package gpu

import (
	"cmp"
	"slices"
	"strings"
)

// Closeness is the connection between two devices, or between the farthest two of a set; "" if
// unknown, which counts as far. Ledgers contain these values: never change them.
type Closeness string

// These are ordered from far to near.
const (
	Far    Closeness = "far"    // different NUMA nodes
	Node   Closeness = "node"   // the same NUMA node
	Switch Closeness = "switch" // the same PCIe switch, so traffic does not cross the CPU
	NVLink Closeness = "nvlink"
)

var nearer = []Closeness{Far, Node, Switch, NVLink}

// rank returns a higher number for closer devices.
func (c Closeness) rank() int { return max(0, slices.Index(nearer, c)) }

var closenessWords = map[Closeness]string{
	Far: "different NUMA nodes", Node: "one NUMA node", Switch: "one PCIe switch", NVLink: "NVLink",
}

// Words returns the closeness in words; "" if unknown.
func (c Closeness) Words() string { return closenessWords[c] }

// near returns the connection between two devices: as reported by the driver, else from their NUMA
// nodes.
func near(a, b *device) Closeness {
	switch c := cmp.Or(a.Links[b.UUID], b.Links[a.UUID]); {
	case c != "":
		return c
	case a.NUMA == "" || b.NUMA == "":
		return ""
	case a.NUMA == b.NUMA:
		return Node
	}
	return Far
}

// farthest returns the closeness of the farthest two devices in a set; "" if it is unknown for any
// two, or if there are fewer than two devices.
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

// Cores returns the CPU cores of the NUMA nodes of a grant's devices, "0-7,16-23"; "" if any node
// is unknown.
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

// A search finds the closest set of a given size: the set whose farthest two devices are closest,
// then the one with the highest sum of ranks, then the first in the order of devices.
type search struct {
	devs  []*device // in order of preference
	must  int       // how many of the first devices are always in the set
	ranks [][]int   // rank of each pair
	top   int       // highest of ranks
	size  int
	fits  func(set []*device) bool

	level  int   // minimum rank of a pair
	chosen []int // devices chosen so far
	best   []*device
	sum    int // sum of the ranks in best; -1 before there is one
	steps  int
}

// maxSteps bounds a search. No machine has enough GPUs to reach it.
const maxSteps = 100_000

// closest returns the closest set that has the given size, includes the first must devices and is
// accepted by fits. It returns nil if no set is known to be closer than another.
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

// grow tries all ways to complete the set of chosen devices with devices at index from or later. The
// ranks of the chosen devices add up to sum.
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
	open := s.size*(s.size-1)/2 - (n+1)*n/2 // pairs that remain after the next device
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

// beside adds up the ranks of the pairs that device i forms with the chosen devices, and reports
// whether it is close enough to all of them.
func (s *search) beside(i int) (sum int, ok bool) {
	for _, k := range s.chosen {
		if s.ranks[i][k] < s.level {
			return 0, false
		}
		sum += s.ranks[i][k]
	}
	return sum, true
}
