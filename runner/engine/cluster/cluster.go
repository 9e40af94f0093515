// Package cluster runs attempts as jobs of a cluster's scheduler: what all of these have in
// common. An attempt is a task of an array job. On its node runs gpurun's __task, with the
// keeper of the local engine for this one attempt (task.go). Runner and nodes meet in files
// only (files.go), so a run may be killed, and continued on another login node.
//
// An attempt runs at most once: a node must create a marker first, and whoever wants to be sure
// that it never runs creates it instead (claim). What becomes of an attempt is one table
// (verdict.go).
package cluster

import (
	"cmp"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// Cluster is an engine.
type Cluster struct {
	engine.Config
	dialect Dialect
	binary  string // that the nodes run
	file    string // in the names of its jobs
	user    string
	every   time.Duration // between two lists of the cluster's jobs, at most
	events  chan engine.Event
	quit    chan struct{}
	work    sync.WaitGroup
	post    *engine.Mailbox[func()]       // for the one goroutine that owns the rest
	out     *engine.Mailbox[engine.Event] // for those who read Events

	live      map[string]*entry // by uni_id
	queue     []*engine.Launch  // to be submitted
	submits   map[string]*submit
	launched  time.Time // when something was last added to the queue
	calling   bool      // a submission is under way
	quota     quota
	largest   int                // tasks of an array; shrinks when the cluster refuses that many
	most      int                // of the next one
	again     time.Time          // not to submit before
	refused   map[string]respite // by the arguments of a submission
	listing   bool
	listed    time.Time            // when the last list was asked for
	unclear   bool                 // something waits for the next list
	asking    bool                 // the cluster is asked about what it no longer lists
	strangers map[string]time.Time // tasks without an attempt, and since when they are listed
	stops     []ending             // asked for and not yet begun
	dooms     dooms
	heard     func()               // at the end: once the cluster has heard of all dooms
	slowest   time.Duration        // start of all seen; 0 for none seen
	learned   bool                 // there was a list
	granted   bool                 // an attempt of this run has had GPUs
	small     map[string]gpu.Bytes // nodes, by the memory of a GPU that was too small for a job
	late      late
	steering
}

// An entry is an attempt that has not ended.
type entry struct {
	engine.Identity
	submit    *submit // nil until it is submitted
	n         int     // its task
	gpus      int     // that it asks for
	never     bool    // it was never submitted
	adopted   bool
	shown     engine.Queued
	told      bool // of its start
	paused    bool
	held      bool      // as the cluster was told
	freed     time.Time // when it was told the opposite, for a while
	taken     bool      // an earlier run has withdrawn it, or stopped it before it began
	suspended bool      // by the cluster
	task      *task
	record    *wire.Record // that waits for the cluster's word
	row       Row
	over      time.Time     // when the row was first final
	runs      time.Time     // when it was first listed as running, and since then always; zero if it is not
	running   time.Duration // from then to the latest list
	missed    int
	missing   time.Time // since when
	asked     int
	ended     time.Time // when its record was read
	beat      int
	beaten    time.Time // when that changed, or could not yet; or when it was first seen
	stop      *request
	since     time.Time // of the stop
	chased    bool      // the cluster was asked to end it
}

// A submit is an array job, or one that may become one.
type submit struct {
	id    string
	dir   string
	name  string
	job   string       // its ID, "" while unknown
	busy  bool         // this run is about to submit it, or doing so
	open  int          // of its attempts
	ours  map[int]bool // tasks that are, or were, this run's
	marks []byte       // by task: heldMark if the cluster may have been told to hold it

	throttle int      // that it was told; 0 for unknown
	shared   bool     // with another run, by the last list
	dirs     []string // the folders of all attempts; nil until they are asked for
	rows     []Row
	there    bool // some task was in the last list
	gone     int  // complete lists in a row without any
}

const (
	defaultList  = 30 * time.Second
	listAtOnce   = time.Second // between two lists while something is unclear
	defaultFiles = 5 * time.Second
	arrayMost    = 1000 // the usual limit of an array's tasks
)

func open(dialect Dialect, c engine.Config) (*Cluster, error) {
	if c.Go == nil {
		c.Go = func(f func()) { go f() }
	}
	if c.Poll <= 0 {
		c.Poll = defaultFiles
	}
	cl := &Cluster{
		Config: c, dialect: dialect, file: strings.TrimSuffix(filepath.Base(c.Dir), ".yaml"), every: Every(c.Options), most: arrayMost, largest: arrayMost,
		events: make(chan engine.Event, 64), quit: make(chan struct{}),
		post: engine.NewMailbox[func()](), out: engine.NewMailbox[engine.Event](),
		live: map[string]*entry{}, dooms: dooms{all: map[doom]bool{}}, submits: map[string]*submit{}, strangers: map[string]time.Time{}, small: map[string]gpu.Bytes{}, steering: steering{limits: limits{gpus: -1}},
		refused: map[string]respite{},
	}
	cl.quota.most, _ = strconv.Atoi(c.Options["max_gpus_total"])
	u, err := user.Current()
	if err != nil {
		return nil, err
	}
	cl.user = u.Username
	if err := os.MkdirAll(filepath.Join(c.Dir, submitsDir), 0o755); err != nil {
		return nil, err
	}
	if cl.binary, err = install(c.Dir, c.Options["gpurun"]); err != nil {
		return nil, err
	}
	cl.remember()
	cl.start(func() { cl.out.Pump(cl.events, cl.quit) })
	cl.start(cl.run)
	return cl, nil
}

// Every returns how often the cluster is asked about all jobs.
func Every(options map[string]string) time.Duration {
	if d, err := time.ParseDuration(options["poll"]); err == nil && d > 0 {
		return d
	}
	return defaultList
}

// Prefix returns what the names of commands in the cluster begin with.
func Prefix(options map[string]string) string { return cmp.Or(options["name_prefix"], "gr") }

// nameOf names an array after its jobs, as far as their names begin alike, and after their file.
// What follows is the ID of the submission, by which its tasks are found again. What not every
// cluster takes becomes "_".
func (c *Cluster) nameOf(batch []*engine.Launch, id string) string {
	jobs := batch[0].Job
	for _, l := range batch {
		n := 0
		for n < min(len(jobs), len(l.Job)) && jobs[n] == l.Job[n] {
			n++
		}
		if n < len(jobs) {
			jobs = strings.TrimRight(jobs[:n], "-_.=")
		}
	}
	name := jobs[:min(len(jobs), 32)] + "." + c.file[:min(len(c.file), 24)]
	if prefix := c.Options["name_prefix"]; prefix != "" {
		name = prefix + "-" + name
	}
	first := true
	return strings.Map(func(r rune) rune {
		digit := r >= '0' && r <= '9' && !first
		first = false
		if digit || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_.=+", r) {
			return r
		}
		return '_'
	}, strings.TrimPrefix(name, ".")+"-"+id)
}

func (c *Cluster) start(f func()) {
	c.work.Add(1)
	c.Go(func() {
		defer c.work.Done()
		f()
	})
}

// beside does what may take long in another goroutine, and what it returns in ours.
func (c *Cluster) beside(f func() (then func())) {
	c.Go(func() { c.post.Put(f()) })
}

// Events delivers all events.
func (c *Cluster) Events() <-chan engine.Event { return c.events }

// Close leaves the cluster's jobs alone, but those that it is to end.
func (c *Cluster) Close() error {
	select {
	case <-c.quit:
		return nil
	default:
	}
	c.part()
	close(c.quit)
	c.work.Wait()
	close(c.events)
	_ = c.Lock.Close() // of no file it is an error
	return c.unheard()
}

func (c *Cluster) emit(ev engine.Event) { c.out.Put(ev) }

// run is the goroutine that owns the attempts.
func (c *Cluster) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.quit:
			return
		case <-c.post.Poked:
			for _, f := range c.post.Take() {
				f()
			}
			c.stopAll()
		case <-timer.C:
			if c.heard == nil {
				c.look()
			}
			timer.Reset(c.pause())
		}
		if c.heard == nil {
			c.submitNext()
			if !c.calling && !c.quota.awaits {
				c.quota.free(c.Lock)
			}
		}
		if c.heard != nil || !c.steer() {
			c.cancel()
		}
		c.list()
		c.late.tell(c)
		if c.heard != nil && len(c.dooms.all) == 0 {
			c.heard()
		}
	}
}

// pause returns how long to wait before the files are read again: longer for many.
func (c *Cluster) pause() time.Duration {
	return min(max(100*time.Millisecond, time.Duration(len(c.live))*5*time.Millisecond), c.Poll)
}

// Launch has attempts submitted.
func (c *Cluster) Launch(all ...engine.Launch) {
	c.post.Put(func() {
		if len(c.queue) == 0 && !c.calling {
			c.gather(gatherFor)
		}
		c.launched = time.Now()
		for i := range all {
			if l := &all[i]; c.live[l.UniID] == nil {
				c.live[l.UniID] = &entry{Identity: l.Identity, gpus: asked(l), beaten: time.Now()}
				c.queue = append(c.queue, l)
			}
		}
	})
}

// How long the first attempt waits for others that can go with it, and how long after the last
// one those do that would be held.
const (
	gatherFor  = 30 * time.Millisecond
	gatherHeld = 500 * time.Millisecond
)

// gather lets what is launched now go together.
func (c *Cluster) gather(during time.Duration) {
	if at := time.Now().Add(during); c.again.Before(at) {
		c.again = at
		time.AfterFunc(during, func() { c.post.Put(func() {}) })
	}
}

// Adopt takes on attempts that an earlier run submitted, or was about to.
func (c *Cluster) Adopt(all ...engine.Attempt) {
	c.post.Put(func() {
		for _, a := range all {
			if c.live[a.UniID] == nil {
				c.live[a.UniID] = &entry{Identity: a.Identity, adopted: true, beaten: time.Now()}
			}
		}
		c.unclear = true
		c.look()
	})
}

// find finds out where an attempt of an earlier run was submitted.
func (c *Cluster) find(e *entry, s status) {
	p, ok := s.place()
	if !ok {
		e.never = true // judged like one whose whole submission is gone
		return
	}
	e.gpus, e.taken = p.GPUs, claimedBy(e.Dir) == voidMark
	e.belong(c.known(p.Submit), p.Task)
	e.held = e.n < len(e.submit.marks) && e.submit.marks[e.n] == heldMark
}

// belong notes which task of a submission an attempt is.
func (e *entry) belong(s *submit, n int) {
	if s.ours == nil {
		s.ours = map[int]bool{}
	}
	e.submit, e.n, s.ours[n] = s, n, true
	s.open++
}

// remember finds the submissions of earlier runs, some of whose tasks may still be listed.
func (c *Cluster) remember() {
	entries, _ := os.ReadDir(filepath.Join(c.Dir, submitsDir))
	for _, e := range entries {
		c.known(filepath.Join(c.Dir, submitsDir, e.Name()))
	}
}

// known returns a submission of an earlier run.
func (c *Cluster) known(dir string) *submit {
	name := filepath.Base(dir)
	id := idIn(name)
	s := c.submits[id]
	if s == nil {
		s = &submit{id: id, dir: dir, name: name, marks: marksOf(dir)}
		s.job, _, _ = c.dialect.Answer(readText(filepath.Join(dir, answerFile)), "")
		c.submits[id] = s
	}
	return s
}

// sorted returns the live entries in the order of their starts.
func (c *Cluster) sorted() []*entry {
	all := make([]*entry, 0, len(c.live))
	for _, id := range slices.Sorted(maps.Keys(c.live)) {
		all = append(all, c.live[id])
	}
	return all
}

// end reports an attempt's end, the last that is heard of it.
func (c *Cluster) end(e *entry, ended *state.End) {
	delete(c.live, e.UniID)
	c.hurry()
	if e.submit != nil {
		e.submit.open--
	}
	c.emit(engine.Event{UniID: e.UniID, Ended: ended})
}
