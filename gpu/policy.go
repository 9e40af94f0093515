package gpu

import (
	"cmp"
	"slices"
)

// A candidate is a device that admits a request, with what policies compare.
type candidate struct {
	uuid     UUID
	position int  // in PCI order
	turn     int  // position in round-robin order
	others   bool // another user is there
	free     Bytes
	util     int // highest sample of the last 3 s; -1 if unknown
	mig      bool
}

// policies compare two candidates: negative if the first should be taken first.
var policies = map[Pick]func(a, b candidate) int{
	MostFree:   func(a, b candidate) int { return cmp.Compare(b.free, a.free) },
	LeastUtil:  func(a, b candidate) int { return cmp.Compare(a.knownUtil(), b.knownUtil()) },
	FirstFit:   func(a, b candidate) int { return cmp.Compare(a.position, b.position) },
	BestFit:    func(a, b candidate) int { return cmp.Compare(a.knownFree(), b.knownFree()) },
	RoundRobin: func(a, b candidate) int { return cmp.Compare(a.turn, b.turn) },
}

// knownUtil sorts unknown utilization after everything else.
func (c candidate) knownUtil() int {
	if c.util < 0 {
		return 101
	}
	return c.util
}

func (c candidate) knownFree() Bytes {
	if c.free < 0 {
		return 1 << 62
	}
	return c.free
}

// order sorts cands: devices without other users first, then by policy, then by UUID.
func order(pick Pick, cands []candidate) {
	by := policies[pick]
	if by == nil {
		by = policies[MostFree]
	}
	slices.SortFunc(cands, func(a, b candidate) int {
		if a.others != b.others {
			if a.others {
				return 1
			}
			return -1
		}
		return cmp.Or(by(a, b), cmp.Compare(a.uuid, b.uuid))
	})
}
