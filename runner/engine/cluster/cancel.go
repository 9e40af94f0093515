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

// cancellations holds the tasks whose cancellation the cluster has not confirmed. These tasks were
// stopped or can no longer begin, so a delay only affects when they leave the queue and the node.
type cancellations struct {
	commandSlot
	all map[cancellation]bool
	err error // error from the last try
}

// A cancellation identifies a submission's task to cancel.
type cancellation struct {
	submit *submit
	n      int // anyTask for tasks listed without a number
}

const anyTask = -1

const (
	cancelFor    = 100 * time.Millisecond // how long to wait for more cancellations to share a command
	cancelAtOnce = 500                    // how many tasks or jobs one command names
	longestPause = time.Minute            // between two tries
)

// requestCancel schedules the cancellation of a task that the cluster may have.
func (c *Cluster) requestCancel(s *submit, n int) {
	if s == nil || c.cancels.all[cancellation{s, n}] {
		return
	}
	c.cancels.all[cancellation{s, n}] = true
	if at := time.Now().Add(cancelFor); c.cancels.again.Before(at) {
		c.cancels.again = at
	}
}

// cancel sends the next cancel command, unless one is running.
func (c *Cluster) cancel() {
	d := &c.cancels
	if d.busy || len(d.all) == 0 || time.Now().Before(d.again) {
		return
	}
	targets, told := c.targets(cancelAtOnce)
	if len(targets) == 0 {
		c.unclear = c.unclear || len(d.all) > 0 // the list may show the job of an unanswered submission
		return
	}
	c.send(&d.commandSlot, "cancel", c.dialect.Order(Cancel, targets, 0), func(err error) {
		if d.err, c.unclear = err, true; err != nil {
			return
		}
		for _, t := range told {
			delete(d.all, t)
		}
	})
}

// targets returns up to most names for a cancel command, and the cancellations that they cover. It
// names a whole job if none of its attempts is open in any run, and single tasks otherwise.
func (c *Cluster) targets(most int) (names []string, of []cancellation) {
	for d := range c.cancels.all {
		s := d.submit
		if c.submits[s.id] != s || !s.busy && s.gone >= goneAfter {
			delete(c.cancels.all, d) // s was refused or is no longer listed, so its ID may be another job's
		}
	}
	var last *submit
	idle := false
	for _, d := range slices.SortedFunc(maps.Keys(c.cancels.all), func(a, b cancellation) int {
		return cmp.Or(cmp.Compare(a.submit.id, b.submit.id), cmp.Compare(a.n, b.n))
	}) {
		s := d.submit
		if s.job == "" {
			continue
		}
		first := s != last
		if first {
			last, idle = s, s.open == 0 && !s.hasForeignTask(anyTask)
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

// awaitCancelFor is how long a run that is ending waits for a cluster to accept cancellations.
const awaitCancelFor = 10 * time.Second

// awaitCancels waits a limited time until the cluster has accepted all cancellations. Nothing else
// is started in that time.
func (c *Cluster) awaitCancels() {
	heard := make(chan struct{})
	c.post.Put(func() { c.heard = sync.OnceFunc(func() { close(heard) }) })
	select {
	case <-heard:
	case <-time.After(awaitCancelFor):
	case <-c.Leave:
	}
}

// pendingCancels returns an error that lists the cancellations that have not reached the cluster.
func (c *Cluster) pendingCancels() error {
	names, _ := c.targets(len(c.cancels.all))
	for d := range c.cancels.all {
		if s := d.submit; s.job == "" && !slices.Contains(names, s.name) {
			names = append(names, s.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	why := "no response yet"
	if c.cancels.err != nil {
		why = c.cancels.err.Error()
	}
	return fmt.Errorf("%s has not confirmed the cancellation of %d jobs of this batch (%s): if they start, they exit immediately; to cancel them: %s",
		c.dialect.Name(), len(c.cancels.all), why, c.dialect.ByHand(names))
}

// hasForeignTask reports whether task n, or any task if n is anyTask, belongs to another run's
// attempt that may be open: an earlier run may have had more job files, with their jobs in the same
// array. An attempt that is over has a record of its end, or no folder.
func (s *submit) hasForeignTask(n int) bool {
	if _, ours := s.ours[n]; ours {
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
		if s.hasForeignTask(n) {
			return true
		}
	}
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// isShared reports whether another run may have tasks of s.
func (s *submit) isShared() bool { return len(s.ours) < len(s.marks) && s.hasForeignTask(anyTask) }

// mayBeOpen reports whether an attempt may be running or may still begin.
func mayBeOpen(dir string) bool {
	s, err := readStatus(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	end, _ := s.result(filepath.Base(dir))
	return end == nil && claimedBy(dir) != voidMark
}

// foldersOf returns the folders of a submission's attempts, indexed by task.
func foldersOf(submission string) (dirs []string, err error) {
	all, err := launchesOf(submission)
	if err != nil {
		return nil, err
	}
	for _, line := range all {
		l, err := wire.Unpack(line)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, l.Dir)
	}
	return dirs, nil
}
