package jobspec

import (
	"fmt"
	"strings"
)

// cycles looks for jobs that wait for each other. A job waits for its needs and for
// the job before it in its queue. A set of needs shared by many jobs is a node of its
// own, so the search is linear in what is stored, not in the number of pairs.
func (g *grapher) cycles() {
	s := &cycleSearch{grapher: g, sets: map[*int32]int32{}, before: g.queueOrder()}
	n := len(g.batch.Jobs)
	s.state = make([]uint8, n)
	for id := range n {
		if s.state[id] == 0 {
			s.walk(int32(id))
		}
		if s.found >= 10 {
			return
		}
	}
}

// queueOrder returns, for each job, the job before it in its queue, or -1.
func (g *grapher) queueOrder() []int32 {
	if len(g.batch.Queues) == 0 {
		return nil
	}
	last := make([]int32, len(g.batch.Queues))
	for i := range last {
		last[i] = -1
	}
	before := make([]int32, len(g.batch.Jobs))
	for i := range g.batch.Jobs {
		before[i] = -1
		if q := g.batch.Jobs[i].Queue; q >= 0 {
			before[i], last[q] = last[q], int32(i)
		}
	}
	return before
}

type cycleSearch struct {
	*grapher
	before  []int32
	sets    map[*int32]int32 // first element of a shared slice → its node
	members [][]int32        // of each set
	state   []uint8          // of jobs, then of sets: 0 new, 1 on the path, 2 done
	found   int
}

// A cycleStep is a step of the path: a node, and which of its edges to follow next.
type cycleStep struct {
	at   int32
	next int
}

func (s *cycleSearch) walk(start int32) {
	path := []cycleStep{{at: start}}
	s.state[start] = 1
	for len(path) > 0 {
		top := &path[len(path)-1]
		to, more := s.edge(top.at, top.next)
		if !more {
			s.state[top.at] = 2
			path = path[:len(path)-1]
			continue
		}
		top.next++
		switch {
		case to < 0 || s.state[to] == 2:
		case s.state[to] == 0:
			s.state[to] = 1
			path = append(path, cycleStep{at: to})
		default:
			s.tell(path, to)
			if s.found >= 10 {
				return
			}
		}
	}
}

// edge returns the i-th node that a node waits for, or -1 if there is none at i.
func (s *cycleSearch) edge(at int32, i int) (int32, bool) {
	n := int32(len(s.batch.Jobs))
	if at >= n {
		set := s.members[at-n]
		if i < len(set) {
			return set[i], true
		}
		return 0, false
	}
	switch i {
	case 0:
		return s.set(s.batch.Jobs[at].Needs), true
	case 1:
		if s.before == nil {
			return -1, true
		}
		return s.before[at], true
	}
	return 0, false
}

// set returns the node of a slice of needs, or the need itself if there is only one.
func (s *cycleSearch) set(needs []int32) int32 {
	switch len(needs) {
	case 0:
		return -1
	case 1:
		return needs[0]
	}
	id, ok := s.sets[&needs[0]]
	if !ok {
		id = int32(len(s.batch.Jobs) + len(s.members))
		s.sets[&needs[0]] = id
		s.members = append(s.members, needs)
		s.state = append(s.state, 0)
	}
	return id
}

// tell reports the part of the path that begins and ends at one node.
func (s *cycleSearch) tell(path []cycleStep, to int32) {
	from := len(path) - 1
	for from > 0 && path[from].at != to {
		from--
	}
	var jobs []int32
	n := int32(len(s.batch.Jobs))
	for _, step := range path[from:] {
		if step.at < n {
			jobs = append(jobs, step.at)
		}
	}
	s.found++
	j := &s.batch.Jobs[jobs[0]]
	t := j.Spec.text
	line, col, hint := t.Line, t.Col, ""
	if len(t.Needs) > 0 {
		line, col = t.Needs[0].Line, t.Needs[0].Col
	}
	if s.before != nil && s.queued(jobs) {
		hint = "jobs of a queue run one after another, in the file's order"
	}
	s.files[j.File].src.Problem(line, col, hint, "these jobs wait for each other: %s", s.spell(jobs))
}

// queued reports whether some step of a cycle comes from the order of a queue.
func (s *cycleSearch) queued(jobs []int32) bool {
	for i, id := range jobs {
		if s.before[id] == jobs[(i+1)%len(jobs)] {
			return true
		}
	}
	return false
}

func (s *cycleSearch) spell(jobs []int32) string {
	var names []string
	for i, id := range jobs {
		if i == 8 && len(jobs) > 10 {
			names = append(names, fmt.Sprintf("… (%d more)", len(jobs)-8))
			break
		}
		names = append(names, s.batch.Jobs[id].Name)
	}
	return strings.Join(append(names, s.batch.Jobs[jobs[0]].Name), " → ")
}
