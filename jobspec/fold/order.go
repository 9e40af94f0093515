package fold

import (
	"fmt"
	"slices"
	"strings"
)

// A Command is a command that a launcher started, with its times. In a capture, commands ended one
// at a time, each when nothing else was happening. Began is the number of commands that had ended
// before this one began, and Ended is its position in the order in which commands ended.
type Command struct {
	Job
	Began, Ended []int  // one element for each capture; Began is -1 if that capture lacks the command
	Waits        string // the batch job that started it, if that job was told to wait for others

	program string // set by Plan
}

// before reports whether b began after a had ended in every capture that has both. Since captures end
// commands in different orders, b must then have waited for a.
func before(a, b *Command) bool {
	for i := range a.Ended {
		if a.Ended[i] > b.Began[i] && a.Began[i] >= 0 && b.Began[i] >= 0 {
			return false
		}
	}
	return true
}

const longest = 12 // maximum number of commands in a round

// A round is a job of one or more commands.
type round []*Command

func (r round) before(o round) bool { return before(r[len(r)-1], o[0]) }

func (r round) programs() (s string) {
	for _, c := range r {
		s += c.program
	}
	return s
}

// several reports whether a round has more than one program.
func (r round) several() bool {
	return slices.ContainsFunc(r, func(c *Command) bool { return c.program != r[0].program })
}

// job joins the commands of a round. ok is false if they differ in a property that a job has only
// once.
func (r round) job() (j Job, ok bool) {
	if j = r[0].Job; len(r) == 1 {
		return j, true
	}
	j.Run, j.Log, j.Stdout, j.Stderr = nil, "", "", ""
	for _, c := range r {
		if c.Dir != j.Dir || !slices.Equal(c.Env, j.Env) || !slices.Equal(c.Keys, j.Keys) {
			return j, false
		}
		cmd := slices.Clip(c.Run[0])
		for i, file := range []string{c.Log + c.Stdout, c.Stderr} {
			if file != "" {
				cmd = append(cmd, Word{[]string{">", "2>"}[i], true}, Word{Text: file})
			}
		}
		if c.Log != "" {
			cmd = append(cmd, Word{"2>&1", true})
		}
		j.Run = append(j.Run, cmd)
	}
	return j, true
}

// chains divides commands into sequences. In a sequence, each command waited only for the previous
// one and for what the previous one had waited for.
func chains(list []*Command) (out []round) {
	done, later := make([]int, len(list)), make([]int, len(list)) // number of commands before and after each
	for i, a := range list {
		for k, b := range list {
			if i != k && before(a, b) {
				later[i]++
				done[k]++
			}
		}
	}
	next, linked := slices.Repeat([]int{-1}, len(list)), make([]bool, len(list))
	for i, a := range list {
		for k, b := range list {
			if done[k] == done[i]+1 && later[i] == later[k]+1 && before(a, b) {
				next[i], linked[k] = k, true
			}
		}
	}
	for i := range list {
		var chain round
		for at := i; at >= 0 && !linked[i]; at = next[at] {
			chain = append(chain, list[at])
		}
		if chain != nil {
			out = append(out, chain)
		}
	}
	return out
}

// rounds groups commands into rounds. A sequence of programs is a round if it repeats within a chain,
// or if it is the whole of several chains.
func rounds(list []*Command) (out []round) {
	all, count, repeats := chains(list), map[string]int{}, map[string]int{}
	for _, chain := range all {
		if count[chain.programs()]++; count[chain.programs()] > 1 && chain.several() {
			repeats[chain.programs()] = len(chain)
		}
		for i, n := 0, 1; i < len(chain); i, n = i+n, 1 {
			for size := 2; n == 1 && size <= longest && i+2*size <= len(chain); size++ {
				if r := chain[i : i+size]; r.several() && r.programs() == chain[i+size:i+2*size].programs() {
					repeats[r.programs()], n = size, size
				}
			}
		}
	}
	for _, chain := range all {
		for len(chain) > 0 {
			n := 1
			for size := 2; n == 1 && size <= min(longest, len(chain)); size++ {
				if _, ok := chain[:size].job(); ok && repeats[chain[:size].programs()] == size {
					n = size
				}
			}
			out, chain = append(out, chain[:n]), chain[n:]
		}
	}
	slices.SortFunc(out, func(a, b round) int { return slices.Index(list, a[0]) - slices.Index(list, b[0]) })
	return out
}

// A turn is one iteration of a loop: one of several groups of commands that run the same programs, one
// group after another. Commands outside loops have the zero turn.
type turn struct{ loop, n int }

// turns finds loops in which commands wait for others, for example train & train & wait; eval. It
// returns the turn of each round.
func turns(rs []round) []turn {
	phases, least := [][]int{}, len(rs) // rounds between the points where the launcher waited for all earlier ones
	names := []string{}                 // programs of each phase
	for i, r := range slices.Backward(rs) {
		n := 0 // rounds before the first one that r did not wait for
		for n < i && rs[n].before(r) {
			n++
		}
		if len(phases) == 0 || least == i+1 {
			phases, names = append(phases, nil), append(names, "\x00")
		}
		last := len(phases) - 1
		least, phases[last] = min(least, n), append(phases[last], i)
		if p := r.programs(); !strings.Contains(names[last], "\x00"+p) {
			names[last] += p
		}
	}
	out := make([]turn, len(rs))
	for first, n := 0, 1; first < len(phases); first, n = first+n, 1 {
		size := 2
		for ; size <= longest; size++ {
			if all := names[first:min(first+size, len(names))]; first+2*size <= len(names) && slices.Equal(all, names[first+size:first+2*size]) && slices.Max(all) != slices.Min(all) {
				break
			}
		}
		for i := first; size <= longest && i+size <= len(names) && slices.Equal(names[first:first+size], names[i:i+size]); i += size {
			for _, r := range slices.Concat(phases[i : i+size]...) {
				out[r] = turn{first + 1, i}
			}
			n = i + size - first
		}
	}
	return out
}

// Plan folds the commands of a launcher. Their order becomes needs, or a queue where needs cannot
// express it.
func Plan(list []*Command) (entries []Entry, warnings []string) {
	warn := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(warnings, text) {
			warnings = append(warnings, text)
		}
	}
	for _, c := range list {
		c.program = fmt.Sprint(Program(c.Run[0]), "\x00")
	}
	rs := rounds(list)
	jobs := make([]Job, len(rs))
	for i, r := range rs {
		jobs[i], _ = r.job()
		names := ""
		for _, c := range r {
			names += " ; " + Script(c.Run[0])
		}
		if len(r) > 1 {
			warn("%s repeat in this order: each round becomes one job that runs them in turn", names[3:])
		}
	}
	groups := turns(rs)
	waited := func(i, k int) bool {
		told, other := rs[k][0].Waits != "" && rs[k][0].Waits != rs[i][0].Waits, groups[i].loop == groups[k].loop && groups[i] != groups[k]
		return rs[i].before(rs[k]) && (told || !other && rs[i].programs() != rs[k].programs())
	}
	entries = Fold(jobs)
	after, leads, tangled := waits(entries, waited)
	if tangled { // without the parameter flags, there are more entries, whose needs can express more
		entries = fold(jobs, false)
		after, leads, _ = waits(entries, waited)
	}
	queued := 0
	for y, e := range entries {
		for _, i := range e.Jobs {
			if leads[y][y] {
				jobs[i].Queued = true
				queued++
			}
		}
	}
	if queued > 0 {
		entries = Fold(jobs)
		after, leads, _ = waits(entries, waited)
		warn("the order of %d jobs cannot be written as needs, so they run one at a time, in a queue", queued)
	}
	in, last := make([]int, len(rs)), map[string]int{}  // entry of each job; latest job of each program
	count, pauses := map[string]int{}, map[string]int{} // jobs of each program; number of waits between two of them
	for y, e := range entries {
		for _, i := range e.Jobs {
			in[i] = y
		}
	}
	for k, r := range rs {
		p, y := r.programs(), in[k]
		if jobs[k].Queued {
			continue
		}
		if i, again := last[p]; again && rs[i].before(r) && !leads[y][in[i]] {
			pauses[p]++
		}
		last[p] = k
		count[p]++
	}
	all := func(y, x int) bool { return after[y][x] == len(entries[y].Jobs)*len(entries[x].Jobs) }
	through := func(y, k, x int) bool { // y waits for x because y waits for k
		return all(y, k) && all(k, x) || !slices.ContainsFunc(entries[y].Jobs, func(last int) bool {
			return slices.ContainsFunc(entries[x].Jobs, func(first int) bool {
				return waited(first, last) && !slices.ContainsFunc(entries[k].Jobs, func(m int) bool { return waited(first, m) && waited(m, last) })
			})
		})
	}
	for y, e := range entries {
		if p := rs[e.Jobs[0]].programs(); !e.Queued && pauses[p] > 0 {
			how := "in groups, one group after another"
			if pauses[p] == count[p]-1 {
				how = "one after another"
			}
			warn("the launcher runs %s %d times, %s, but these jobs can run in parallel", Script(rs[e.Jobs[0]][0].Run[0]), count[p], how)
		}
		for x, other := range entries {
			direct := after[y][x] > 0
			for k := range entries {
				direct = direct && !(k != x && after[y][k] > 0 && leads[k][x] && through(y, k, x))
			}
			if !direct {
				continue
			}
			glob := other.Glob
			if !all(y, x) {
				if glob = e.matching(&other, waited); glob == "" {
					glob = other.Glob
					warn("some %[1]s jobs waited for only some %[2]s jobs: now each %[1]s job waits for all %[2]s jobs", e.Glob, other.Glob)
				}
			}
			entries[y].Needs = append(entries[y].Needs, glob)
		}
	}
	return entries, warnings
}

// waits finds out which entries wait for which. after[y][x] is the number of pairs in which a job of
// y waited for a job of x; leads[y][x] reports whether y waits for x, directly or indirectly. Entries
// are tangled if one waits for itself, or if only some pairs of jobs of two entries waited. Queued
// entries do not wait for each other, because the queue keeps their order. waited ignores jobs of the
// same programs or of different turns, unless a batch system was told to make them wait.
func waits(entries []Entry, waited func(i, k int) bool) (after [][]int, leads [][]bool, tangled bool) {
	n := len(entries)
	for y, b := range entries {
		after, leads = append(after, make([]int, n)), append(leads, make([]bool, n))
		for x, a := range entries {
			if a.Queued && b.Queued {
				continue
			}
			for _, i := range a.Jobs {
				for _, k := range b.Jobs {
					if waited(i, k) {
						after[y][x]++
						leads[y][x] = true
					}
				}
			}
			tangled = tangled || leads[y][x] && after[y][x] < len(a.Jobs)*len(b.Jobs)
		}
	}
	for k := range n {
		for y := range n {
			for x := range n {
				leads[y][x] = leads[y][x] || leads[y][k] && leads[k][x]
			}
		}
	}
	for y := range n {
		tangled = tangled || leads[y][y]
	}
	return after, leads, tangled
}
