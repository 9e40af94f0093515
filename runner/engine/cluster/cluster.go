// Package cluster runs attempts as jobs of a cluster's scheduler. It contains everything that does
// not depend on the kind of cluster. An attempt is a task of an array job. Its node runs gpurun
// __task, with the local engine's keeper for this one attempt (task.go). Runner and nodes
// communicate only through files (files.go), so a run may be killed, and continued on another
// login node.
//
// An attempt runs at most once: a node must create a marker before it begins the attempt, and a
// runner that wants to prevent the start creates the marker instead (claim). A table of rules
// decides how an attempt ended (verdict.go).
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

// Cluster is the engine of one cluster.
type Cluster struct {
	engine.Config
	dialect Dialect
	binary  string // the gpurun that nodes run
	file    string // the job file's name, used in names of cluster jobs
	user    string
	every   time.Duration // longest interval between lists of the cluster's jobs
	events  chan engine.Event
	quit    chan struct{}
	work    sync.WaitGroup
	post    *engine.Mailbox[func()]       // for the goroutine that owns the other fields
	out     *engine.Mailbox[engine.Event] // for readers of Events

	live       map[string]*entry // by uni_id
	queue      []*engine.Launch  // to be submitted
	submits    map[string]*submit
	launched   time.Time // when something was last added to the queue
	calling    bool      // a submission is under way
	quota      quota
	largest    int                // maximum number of tasks in an array; shrinks when the cluster refuses that many
	most       int                // maximum size of the next array
	again      time.Time          // earliest time of the next submission
	refused    map[string]backoff // by the arguments of a submission
	displaced  map[string]backoff // by job: its last attempt was preempted before it began
	listing    bool
	listed     time.Time                  // when the last list was requested
	unclear    bool                       // some attempt needs the next list soon
	asking     bool                       // a query about unlisted tasks is in progress
	strayTasks map[cancellation]time.Time // tasks without an attempt, and when each was first listed
	stops      []ending                   // requested but not yet carried out
	cancels    cancellations
	heard      func()               // set by Close: called once the cluster has accepted all cancellations
	slowest    time.Duration        // longest start so far; 0 if none was seen
	learned    bool                 // a list has arrived
	granted    bool                 // an attempt of this run has had GPUs
	small      map[string]gpu.Bytes // by node: memory of a GPU that was too small for a job
	outage     outage
	steering
}

// An entry is an attempt that has not ended.
type entry struct {
	engine.Identity
	submit    *submit // nil until it is submitted
	n         int     // its task number
	gpus      int     // number of GPUs requested
	never     bool    // it was never submitted
	adopted   bool
	shown     engine.Queued
	reported  bool // Running was emitted
	paused    bool
	held      bool      // as last sent to the cluster
	freed     time.Time // when its release was requested; cleared after freedFor
	short     time.Time // since when cluster.max_gpus_total has left no room for it, the first in the queue
	withdrawn bool      // an earlier run has withdrawn it, or stopped it before it began
	suspended bool      // by the cluster
	task      *task
	record    *wire.Record // record of its end, until the cluster confirms it
	row       Row
	over      time.Time     // when the row was first final
	runs      time.Time     // since when every list has shown it running; zero if the latest list does not
	running   time.Duration // from runs to the latest list
	missed    int
	missing   time.Time // when it was first missing
	asked     int
	ended     time.Time // when its record was read
	beat      int
	beaten    time.Time // when beat last changed, it was last listed as suspended, or it was first seen
	stop      *request
	since     time.Time // time of the stop
	chased    bool      // a cancel was requested after the stop
}

// A submit is a submission: an array job, or a call that may create one.
type submit struct {
	id        string
	dir       string
	name      string
	job       string       // its ID, "" while unknown
	busy      bool         // this run is submitting it, or about to
	preparing bool         // its files and those of its attempts are not all written yet
	open      int          // number of its open attempts
	ours      map[int]bool // this run's tasks; false for one that is over
	marks     []byte       // by task: heldMark if the cluster may have been asked to hold it

	throttle int      // as last requested; 0 if unknown
	shared   bool     // with another run, as of the last list
	dirs     []string // the folders of all attempts; nil until first needed
	rows     []Row    // in the last list
	shown    bool     // some list has contained one of its tasks
	gone     int      // consecutive complete lists without any of its tasks
}

const (
	defaultList  = 30 * time.Second
	listAtOnce   = time.Second // between two lists while something is unclear
	defaultFiles = 5 * time.Second
	arrayMost    = 1000 // the usual limit on an array's tasks
)

func open(dialect Dialect, c engine.Config) (*Cluster, error) {
	if c.Go == nil {
		c.Go = func(f func()) { go f() }
	}
	if c.Poll <= 0 {
		c.Poll = defaultFiles
	}
	cl := &Cluster{
		Config: c, dialect: dialect, file: strings.TrimSuffix(filepath.Base(c.Dir), ".yaml"), every: PollInterval(c.Options), most: arrayMost, largest: arrayMost,
		events: make(chan engine.Event, 64), quit: make(chan struct{}),
		post: engine.NewMailbox[func()](), out: engine.NewMailbox[engine.Event](),
		live: map[string]*entry{}, submits: map[string]*submit{}, strayTasks: map[cancellation]time.Time{},
		cancels: cancellations{all: map[cancellation]bool{}}, steering: steering{limits: limits{gpus: -1}}, small: map[string]gpu.Bytes{},
		refused: map[string]backoff{}, displaced: map[string]backoff{},
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
	entries, _ := os.ReadDir(filepath.Join(c.Dir, submitsDir))
	for _, e := range entries { // submissions of earlier runs, whose tasks may still be listed
		cl.submissionOf(filepath.Join(c.Dir, submitsDir, e.Name()))
	}
	cl.start(func() { cl.out.Pump(cl.events, cl.quit) })
	cl.start(cl.run)
	return cl, nil
}

// PollInterval returns how often gpurun lists the cluster's jobs.
func PollInterval(options map[string]string) time.Duration {
	if d, err := time.ParseDuration(options["poll"]); err == nil && d > 0 {
		return d
	}
	return defaultList
}

// NamePrefix returns the prefix of the names of gpurun's cluster jobs.
func NamePrefix(options map[string]string) string { return cmp.Or(options["name_prefix"], "gr") }

// nameOf names an array after its jobs' common name prefix, their file, and the submission's ID,
// which later identifies its tasks. Characters that some cluster refuses become "_".
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

// inBackground runs f in another goroutine. The owner's goroutine then runs the function that f
// returns.
func (c *Cluster) inBackground(f func() (then func())) {
	c.Go(func() { c.post.Put(f()) })
}

// Events delivers all events.
func (c *Cluster) Events() <-chan engine.Event { return c.events }

// Close sends pending cancellations and leaves all other cluster jobs alone.
func (c *Cluster) Close() error {
	select {
	case <-c.quit:
		return nil
	default:
	}
	c.awaitCancels()
	close(c.quit)
	c.work.Wait()
	close(c.events)
	_ = c.Lock.Close() // ignored: it fails if there is no file
	return c.pendingCancels()
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
				c.quota.unlock(c.Lock)
			}
		}
		if c.heard != nil || !c.steer() {
			c.cancel()
		}
		c.list()
		c.outage.report(c)
		if c.heard != nil && len(c.cancels.all) == 0 {
			c.heard()
		}
	}
}

// pause returns how long to wait before the files are read again: longer with many attempts.
func (c *Cluster) pause() time.Duration {
	return min(max(100*time.Millisecond, time.Duration(len(c.live))*5*time.Millisecond), c.Poll)
}

// Launch queues attempts for submission.
func (c *Cluster) Launch(all ...engine.Launch) {
	c.post.Put(func() {
		if len(c.queue) == 0 && !c.calling {
			c.batchLaunches(gatherFor)
		}
		c.launched = time.Now()
		for i := range all {
			if l := &all[i]; c.live[l.UniID] == nil {
				c.live[l.UniID] = &entry{Identity: l.Identity, gpus: gpusOf(l), beaten: time.Now()}
				c.queue = append(c.queue, l)
			}
		}
	})
}

// How long the first attempt waits for others to share its array, and how long attempts that would
// be held wait after the latest launch.
const (
	gatherFor  = 30 * time.Millisecond
	gatherHeld = 500 * time.Millisecond
)

// batchLaunches delays the submission, so that attempts launched together share an array.
func (c *Cluster) batchLaunches(during time.Duration) {
	if at := time.Now().Add(during); c.again.Before(at) {
		c.again = at
		time.AfterFunc(during, func() { c.post.Put(func() {}) })
	}
}

// Adopt reattaches to attempts that an earlier run submitted, or was about to submit.
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

// find looks up the submission of an earlier run's attempt.
func (c *Cluster) find(e *entry, s status) {
	p, ok := s.place()
	if !ok {
		e.never = true // judged like an attempt whose whole submission is gone
		return
	}
	e.gpus, e.withdrawn = p.GPUs, claimedBy(e.Dir) == voidMark
	e.assign(c.submissionOf(p.Submit), p.Task)
	e.held = e.n < len(e.submit.marks) && e.submit.marks[e.n] == heldMark
}

// assign records the attempt's submission and task number.
func (e *entry) assign(s *submit, n int) {
	if s.ours == nil {
		s.ours = map[int]bool{}
	}
	e.submit, e.n, s.ours[n] = s, n, true
	s.open++
}

// submissionOf returns the submission in a folder, loading it if necessary.
func (c *Cluster) submissionOf(dir string) *submit {
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
	return slices.SortedFunc(maps.Values(c.live), func(a, b *entry) int { return cmp.Compare(a.UniID, b.UniID) })
}

// end reports an attempt's end and forgets the attempt.
func (c *Cluster) end(e *entry, ended *state.End) {
	delete(c.live, e.UniID)
	c.retrySoon()
	if s := e.submit; s != nil {
		s.ours[e.n] = false
		s.open--
	}
	c.emit(engine.Event{UniID: e.UniID, Ended: ended})
}
