package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gpurun/runner/engine/local/wire"
)

// dooms are the tasks that the cluster is to end, until it has heard of it. They begin nothing
// any more, or were stopped; so all that depends on it is when they leave the queue and the node.
type dooms struct {
	orders
	all map[doom]bool
	err error // of the last time
}

// A doom is a task.
type doom struct {
	submit *submit
	n      int // anyTask for those that are listed without their number
}

const anyTask = -1

const (
	doomFor      = 100 * time.Millisecond // how long others are waited for that can go with one
	cancelAtOnce = 500                    // how many tasks or jobs one command names
	longestPause = time.Minute            // between two tries
)

// doom has the cluster end a task, if it may have it.
func (c *Cluster) doom(s *submit, n int) {
	if s == nil || c.dooms.all[doom{s, n}] {
		return
	}
	c.dooms.all[doom{s, n}] = true
	if at := time.Now().Add(doomFor); c.dooms.again.Before(at) {
		c.dooms.again = at
	}
}

// cancel tells the cluster what it is to end, one command at a time.
func (c *Cluster) cancel() {
	d := &c.dooms
	if d.busy || len(d.all) == 0 || time.Now().Before(d.again) {
		return
	}
	targets, told := c.targets(cancelAtOnce)
	if len(targets) == 0 {
		c.unclear = c.unclear || len(d.all) > 0 // the list may show what was made of a submission
		return
	}
	c.tell(&d.orders, "cancel", c.dialect.Order(Cancel, targets, 0), func(err error) {
		if d.err, c.unclear = err, true; err != nil {
			return
		}
		for _, t := range told {
			delete(d.all, t)
		}
	})
}

// targets names what is doomed for the cluster, at most so much, and returns what that covers:
// a whole job if none of its attempts is open in any run, else each task.
func (c *Cluster) targets(most int) (names []string, of []doom) {
	for d := range c.dooms.all {
		s := d.submit
		if c.submits[s.id] != s || !s.busy && s.gone >= goneAfter {
			delete(c.dooms.all, d) // it was refused, or is no longer listed: its ID may be another's
		}
	}
	var last *submit
	idle := false
	for _, d := range slices.SortedFunc(maps.Keys(c.dooms.all), func(a, b doom) int {
		return cmp.Or(cmp.Compare(a.submit.id, b.submit.id), cmp.Compare(a.n, b.n))
	}) {
		s := d.submit
		if s.job == "" {
			continue
		}
		first := s != last
		if first {
			last, idle = s, s.open == 0 && !s.isElsewhere(anyTask)
		}
		switch {
		case d.n == anyTask && !idle:
			continue
		case idle && !first:
		case len(names) == most:
			return names, of
		case idle:
			names = append(names, s.job)
		default:
			names = append(names, c.dialect.Task(s.job, d.n))
		}
		of = append(of, d)
	}
	return names, of
}

// partFor is how long the end of a run waits for a cluster to hear what it is to end.
const partFor = 10 * time.Second

// part waits until the cluster has heard of all that it is to end, for a while. Nothing else is
// begun any more.
func (c *Cluster) part() {
	heard := make(chan struct{})
	c.post.Put(func() { c.heard = sync.OnceFunc(func() { close(heard) }) })
	select {
	case <-heard:
	case <-time.After(partFor):
	case <-c.Leave:
	}
}

// unheard says what the cluster was to end and has not heard of.
func (c *Cluster) unheard() error {
	names, _ := c.targets(len(c.dooms.all))
	for d := range c.dooms.all {
		if s := d.submit; s.job == "" && !slices.Contains(names, s.name) {
			names = append(names, s.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	why := "no answer yet"
	if c.dooms.err != nil {
		why = c.dooms.err.Error()
	}
	return fmt.Errorf("%s could not be told to cancel %d jobs of this batch (%s): when their turn comes they do nothing; to cancel them: %s",
		c.dialect.Name(), len(c.dooms.all), why, c.dialect.ByHand(names))
}

// isElsewhere reports whether a task, or anyTask, is of an attempt that this run does not have and
// that may be open: an earlier run may have had more job files, whose jobs went into one array
// with those of this run's. What is over has a record of its end, or no folder any more.
func (s *submit) isElsewhere(n int) bool {
	if n != anyTask && s.ours[n] {
		return false
	}
	var err error
	if s.dirs == nil {
		s.dirs, err = foldersOf(s.dir)
	}
	if n != anyTask && n < len(s.dirs) {
		return mayBeOpen(s.dirs[n])
	}
	for n := range s.dirs {
		if s.isElsewhere(n) {
			return true
		}
	}
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// isShared reports whether another run may have tasks of it.
func (s *submit) isShared() bool { return len(s.ours) < len(s.marks) && s.isElsewhere(anyTask) }

// mayBeOpen reports whether an attempt may run, or may yet begin.
func mayBeOpen(dir string) bool {
	s, err := readStatus(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	end, _ := s.said(filepath.Base(dir))
	return end == nil && claimedBy(dir) != voidMark
}

// foldersOf returns the folders of a submission's attempts, by task.
func foldersOf(submission string) (dirs []string, err error) {
	var bad error
	err = eachLaunch(submission, func(_ int, line []byte) bool {
		l, err := wire.Unpack(line)
		if bad = err; bad == nil {
			dirs = append(dirs, l.Dir)
		}
		return bad != nil
	})
	if err = cmp.Or(err, bad); err != nil {
		return nil, err
	}
	return dirs, nil
}
