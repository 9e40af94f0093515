package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurun/state/host"
)

// limits bound how much of this batch runs concurrently.
type limits struct{ jobs, gpus int } // no limit on jobs if 0, on gpus if -1

func (l limits) String() string {
	var all []string
	if l.jobs > 0 {
		all = append(all, fmt.Sprintf("max_concurrent is %d", l.jobs))
	}
	if l.gpus >= 0 {
		all = append(all, fmt.Sprintf("max_gpus is %d", l.gpus))
	}
	return strings.Join(all, ", ")
}

// An arrayShare is an array that competes for the limits.
type arrayShare struct {
	gpus    int // per task
	running int
	waiting int // excluding those that are paused
	told    int // its throttle; 0 if unknown, or if all its waiting tasks are held
}

// split returns the throttle of each array, so that no task starts beyond the limits. Earlier arrays
// go first. An array with throttle 0 must be held. A throttle larger than needed stays until another
// array needs part of it.
func (l limits) split(all []arrayShare) []int {
	jobs, gpus := l.jobs, l.gpus
	if jobs == 0 {
		jobs = math.MaxInt32
	}
	if gpus < 0 {
		gpus = math.MaxInt32
	}
	throttles := make([]int, len(all))
	add := func(i, n int) {
		throttles[i], jobs, gpus = throttles[i]+n, jobs-n, gpus-n*all[i].gpus
	}
	most := func(i, n int) int {
		if n = min(n, jobs); all[i].gpus > 0 {
			n = min(n, gpus/all[i].gpus)
		}
		return max(n, 0)
	}
	for i, p := range all {
		add(i, p.running)
	}
	moreJobs, moreGPUs := max(-jobs, 0), max(-gpus, 0) // running beyond the limits
	for i, p := range all {                            // otherwise the cluster would replace each such task when it ends
		n := moreJobs
		if p.gpus > 0 {
			n = max(n, (moreGPUs+p.gpus-1)/p.gpus)
		}
		throttles[i] = max(throttles[i]-n, 0)
	}
	for i, p := range all {
		add(i, most(i, p.waiting))
	}
	for i, p := range all {
		if throttles[i] > 0 && throttles[i] < p.told {
			add(i, most(i, p.told-throttles[i]))
		}
	}
	return throttles
}

// An array is a submission that has not ended.
type array struct {
	*submit
	arrayShare
	waits    []*entry // attempts that have not begun, ordered by task
	throttle int      // target; 0 to hold the whole array
	may      int      // how many of waits may start; the others are held, regardless of the throttle
}

// first returns the length of the first range of waiting attempts that are not paused.
func (a *array) first() (n int) {
	last := -1
	for _, e := range a.waits {
		if e.paused {
			continue
		}
		if last >= 0 && e.n != last+1 {
			break
		}
		n, last = n+1, e.n
	}
	return n
}

// waits reports whether the attempt still appears to be waiting.
func (e *entry) waits() bool {
	return e.task == nil && e.record == nil && (e.row.State == Gone || e.row.State.queued())
}

// arrays returns the open arrays in the order of submission, and the throttle of an additional
// array with the tasks in more.
func (c *Cluster) arrays(more arrayShare) (all []*array, throttle int) {
	of := map[*submit]*array{}
	for _, e := range c.live {
		if e.submit == nil {
			continue
		}
		a := of[e.submit]
		if a == nil {
			a = &array{submit: e.submit}
			of[e.submit] = a
			all = append(all, a)
		}
		switch a.gpus = max(a.gpus, e.gpus); {
		case !e.waits():
			a.running++
		case !e.paused:
			a.waiting++
			fallthrough
		default:
			a.waits = append(a.waits, e)
		}
	}
	number := func(a *array) int {
		n, err := strconv.Atoi(a.job)
		if err != nil {
			return math.MaxInt // it is being submitted
		}
		return n
	}
	slices.SortFunc(all, func(a, b *array) int { return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a.id, b.id)) })
	parts := make([]arrayShare, len(all), len(all)+1)
	for i, a := range all {
		slices.SortFunc(a.waits, func(x, y *entry) int { return cmp.Compare(x.n, y.n) })
		if !a.shared && (a.running > 0 || slices.ContainsFunc(a.waits, func(e *entry) bool { return !e.held })) {
			a.told = a.submit.throttle
		}
		a.may, parts[i] = len(a.waits), a.arrayShare
	}
	parts = append(parts, more)
	throttles := c.limits.split(parts)
	for i, a := range all {
		if throttles[i] < a.running+a.waiting && c.dialect.Traits(nil).Gapless && a.first() < a.waiting && !a.shared {
			a.may = a.first() // otherwise the cluster would ignore the throttle
			parts[i].waiting = a.may
		}
	}
	throttles = c.limits.split(parts) // another array can use what this one cannot
	for i, a := range all {
		switch a.throttle = throttles[i]; {
		case c.limits == (limits{0, -1}):
			a.throttle = len(a.marks) // other runs may have tasks in it, too
		case a.shared:
			a.may, a.throttle = a.throttle-a.running, len(a.marks)
		}
	}
	return all, throttles[len(all)]
}

// steering tracks the holds and throttles that this run has requested.
type steering struct {
	commandSlot
	limits       limits
	limited      bool      // Limit was called; until then, tasks that an earlier run held stay held
	unresponsive bool      // the cluster may have crashed and forgotten the last order
	restricted   time.Time // when the cluster accepted a hold or a lower throttle; zero once a list is newer
}

// Hold holds an attempt in the queue, or releases it. An attempt may begin before it is held.
func (c *Cluster) Hold(uniID string, held bool) {
	c.post.Put(func() {
		if e := c.live[uniID]; e != nil {
			e.paused = held
		}
	})
}

// Limit bounds the number of concurrent attempts.
func (c *Cluster) Limit(jobs, gpus int) {
	c.post.Put(func() { c.limits, c.limited = limits{jobs, gpus}, true })
}

// settled reports whether all submissions of earlier runs, and their states, are known.
func (c *Cluster) settled() bool {
	for _, e := range c.live {
		if e.adopted && (!c.learned || e.submit == nil && !e.never) {
			return false
		}
	}
	return true
}

// steer holds and releases waiting tasks, and throttles arrays, one command at a time. Holds and
// lower throttles come first, so that the limits are never exceeded. It returns true while the
// cluster has yet to accept a command, unless the latest one failed. Cancellations wait until then.
func (c *Cluster) steer() (holding bool) {
	st := &c.steering
	if !st.limited || !c.settled() {
		return false
	}
	command, marked, then := c.order()
	if then == nil || st.busy || time.Now().Before(st.again) {
		return then != nil && st.pause == 0
	}
	if err := mark(marked, heldMark); err != nil {
		c.answered(&st.commandSlot, "hold", err)
		return true
	}
	c.send(&st.commandSlot, "hold", command, func(err error) {
		if err == nil {
			then()
		}
	})
	return true
}

// order returns the next command, the entries to mark as held before it, and a function to run when
// the cluster has accepted it. If then is nil, there is no command.
func (c *Cluster) order() (command Command, marked []*entry, then func()) {
	all, _ := c.arrays(arrayShare{})
	var hold, release []*entry
	var lower, raise *array
	unknown := false // an array not yet accepted has a higher throttle than it should
	for _, a := range all {
		may := a.may
		for _, e := range a.waits {
			if !e.paused {
				may--
			}
			switch held := e.paused || a.throttle == 0 || may < 0; {
			case a.job == "":
			case held && !e.held:
				hold = append(hold, e)
			case !held && e.held:
				release = append(release, e)
			}
		}
		switch told := a.submit.throttle; {
		case a.throttle == 0 || len(a.waits) == 0 && told == 0 || a.throttle == told:
		case told != 0 && told < a.throttle:
			raise = cmp.Or(raise, a)
		case a.job == "":
			unknown = true
		default:
			lower = cmp.Or(lower, a)
		}
	}
	switch {
	case len(hold) > 0:
		slices.Reverse(hold) // the last first, so that there is never a gap
		return c.toHold(all, hold, true)
	case lower != nil:
		return c.toThrottle(lower)
	case unknown || !c.restricted.IsZero(): // a task may have begun before it was held
	case raise != nil && raise.job != "":
		return c.toThrottle(raise)
	case len(release) > 0:
		return c.toHold(all, release, false)
	}
	return Command{}, nil, nil
}

func (c *Cluster) toThrottle(a *array) (Command, []*entry, func()) {
	return c.dialect.Order(Throttle, []string{a.job}, a.throttle), nil, func() {
		if told := cmp.Or(a.submit.throttle, len(a.marks)); a.throttle < min(told, a.running+len(a.waits)) {
			c.restrict()
		}
		a.submit.throttle = a.throttle
	}
}

// restrict keeps all other tasks from starting until a list shows which tasks had begun.
func (c *Cluster) restrict() {
	if c.limits != (limits{0, -1}) {
		c.restricted, c.unclear = time.Now(), true
	}
}

// toHold returns the command that holds or releases some entries. It names a whole array if the
// entries are all its waiting tasks.
func (c *Cluster) toHold(all []*array, some []*entry, held bool) (Command, []*entry, func()) {
	var names []string
	var named []*entry
	for len(some) > 0 && len(names) < cancelAtOnce {
		s := some[0].submit
		n := slices.IndexFunc(some, func(e *entry) bool { return e.submit != s })
		if n < 0 {
			n = len(some)
		}
		own := some[:n]
		some = some[n:]
		a := all[slices.IndexFunc(all, func(a *array) bool { return a.submit == s })]
		if n > 1 && len(a.waits) == n && !s.isShared() {
			names = append(names, s.job)
		} else {
			own = own[:min(n, cancelAtOnce-len(names))]
			for _, e := range own {
				names = append(names, c.dialect.Task(s.job, e.n))
			}
		}
		named = append(named, own...)
	}
	if held {
		return c.dialect.Order(Hold, names, 0), named, func() {
			for _, e := range named {
				e.held = true
			}
			c.restrict()
		}
	}
	return c.dialect.Order(Release, names, 0), nil, func() {
		for _, e := range named {
			e.held, e.freed = false, time.Now()
		}
		_ = mark(named, ' ') // if this fails, a later run merely releases the tasks again
	}
}

// mark changes the marks of some entries in the files of their submissions.
func mark(some []*entry, to byte) error {
	dirty := map[*submit]bool{}
	for _, e := range some {
		s := e.submit
		if _, read := dirty[s]; !read {
			dirty[s] = false
			if now := marksOf(s.dir); len(now) == len(s.marks) {
				s.marks = now // another run may have changed its own marks, and our last write may have failed
			}
		}
		if e.n < len(s.marks) && s.marks[e.n] != to {
			s.marks[e.n], dirty[s] = to, true
		}
	}
	for s, changed := range dirty {
		if !changed {
			continue
		}
		if err := overwrite(filepath.Join(s.dir, holdsFile), 0, s.marks); err != nil {
			return err
		}
	}
	return nil
}

// freedFor is how long after a release a cluster may still list the task as held, or may forget the
// release.
const freedFor = 10 * time.Second

// check corrects e.held if a row contradicts it: a cluster that has crashed may forget a hold or a
// release.
func (e *entry) check(r Row) {
	switch {
	case r.Mixed:
	case r.State == Pending:
		e.held = false
		if time.Since(e.freed) > freedFor {
			e.freed = time.Time{}
		}
	case r.State == Stuck && !e.freed.IsZero():
		e.held = true
	}
}

// recordAnswer records that the cluster answers. It forgets each throttle that the list contradicts
// or that a crash may have lost, and a restriction that is older than the list.
func (st *steering) recordAnswer(c *Cluster) {
	for _, s := range c.submits {
		for _, r := range s.rows {
			if st.unresponsive && !c.dialect.Traits(nil).Keeps || r.Throttle > 0 && r.Throttle != s.throttle {
				s.throttle = 0
			}
		}
	}
	st.unresponsive = false
	if st.restricted.Before(c.listed) {
		st.restricted = time.Time{}
	}
}

// heldMark in holdsFile marks a task that the runner may have held and must release. Only the
// runner reads that file.
const heldMark = 'h'

// marksOf reads the marks. A submission by an earlier version of gpurun has no file and no held
// tasks.
func marksOf(dir string) []byte {
	b, err := host.ReadOwn(filepath.Join(dir, holdsFile), 1<<20)
	if fi, _ := os.Stat(filepath.Join(dir, stopsFile)); errors.Is(err, fs.ErrNotExist) && fi != nil {
		b = bytes.Repeat([]byte{' '}, int(fi.Size()/stopSize))
		_ = write(filepath.Join(dir, holdsFile), b, 0o600) // without the file, none of its tasks can be held
	}
	return b
}
