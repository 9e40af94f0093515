package jobspec

// findCycles searches jobs for cycles. A slice of needs shared by many jobs is a node of its own, so
// the time is linear in the total length of the slices, not in the number of pairs of jobs. before
// holds the previous job in each job's queue, or -1. findCycles calls tell for each cycle until tell
// returns false.
func findCycles(jobs []Job, before []int32, tell func(cycle []int32) bool) {
	s := &cycleSearch{jobs: jobs, before: before, sets: map[*int32]int32{}, state: make([]visitState, len(jobs))}
	for id := range jobs {
		if s.state[id] == unseen && !s.walk(int32(id), tell) {
			return
		}
	}
}

type visitState uint8

const (
	unseen visitState = iota
	onPath
	done
)

type cycleSearch struct {
	jobs    []Job
	before  []int32
	sets    map[*int32]int32 // the node of each slice with several elements, by the address of its first element
	members [][]int32        // the elements of each set
	state   []visitState     // the states of all jobs, followed by those of the sets
}

// A pathStep is a node on the current path, with the edges that have not been followed yet.
type pathStep struct {
	at    int32
	edges []int32
}

// walk searches from one node. It is iterative, because a chain may have a million jobs.
func (s *cycleSearch) walk(start int32, tell func([]int32) bool) bool {
	s.state[start] = onPath
	path := []pathStep{{start, s.edges(start)}}
	for len(path) > 0 {
		top := &path[len(path)-1]
		if len(top.edges) == 0 {
			s.state[top.at] = done
			path = path[:len(path)-1]
			continue
		}
		to := top.edges[0]
		top.edges = top.edges[1:]
		switch s.state[to] {
		case unseen:
			s.state[to] = onPath
			path = append(path, pathStep{to, s.edges(to)})
		case onPath:
			if !tell(s.cycle(path, to)) {
				return false
			}
		}
	}
	return true
}

// cycle returns the jobs that wait for each other: those on path, beginning with the node 'to'.
func (s *cycleSearch) cycle(path []pathStep, to int32) (ids []int32) {
	from := len(path) - 1
	for path[from].at != to {
		from--
	}
	for _, step := range path[from:] {
		if int(step.at) < len(s.jobs) {
			ids = append(ids, step.at)
		}
	}
	return ids
}

// edges returns the nodes that a node waits for.
func (s *cycleSearch) edges(at int32) []int32 {
	if set := int(at) - len(s.jobs); set >= 0 {
		return s.members[set]
	}
	list := s.jobs[at].Needs
	if len(list) > 1 {
		node, known := s.sets[&list[0]]
		if !known {
			node = int32(len(s.state))
			s.sets[&list[0]] = node
			s.members, s.state = append(s.members, list), append(s.state, unseen)
		}
		list = []int32{node}
	}
	if before := s.before[at]; before >= 0 {
		list = append(list[:len(list):len(list)], before)
	}
	return list
}
