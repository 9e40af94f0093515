package sched

import (
	"crypto/md5"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched/stall"
	"gpurun/state"
)

// A world is the environment of a core in tests: GPUs with their load, a simulated edge that answers
// actions, a ledger and a clock.
type world struct {
	t      testing.TB
	b      *jobspec.Batch
	placed []int32 // by job: its index in the file at the last reload, negative if deleted; nil before a reload
	opts   Options
	rules  gpu.Rules
	devs   []gpu.Device
	load   []gpu.Bytes      // memory of other users, by device
	unseen []gpu.Bytes      // memory in use by no visible process
	uses   []use            // GPU memory used by attempts
	claims []gpu.Claim      // alice's, and those of this user's other runs; nil if claims are not read
	wishes []gpu.Wish       // of other runs
	host   *gpu.HostRules   // nil without host rules
	sick   []gpu.Quarantine // of all users
	vital  map[gpu.UUID]*gpu.Health
	lost   map[gpu.UUID]bool
	busy   []change // utilization of GPUs, from a time on
	fails  string   // why readings fail; "" if they work
	proof  map[int]Evidence

	core    *Core
	now     Now
	ledger  []Record // all facts so far, over all runs
	wakeAt  time.Duration
	done    *Finish
	before  int             // number of facts when the run began
	manual  map[string]bool // actions that are not answered automatically: "prepare", "read", "gather"
	live    map[string]bool // uni_ids of attempts that the engine runs
	phases  []phase         // phases of the core's jobs after the last Step
	grants  map[string]gpu.Grant
	adopt   []string     // uni_ids that the core has asked the engine about, without an answer yet
	pending []Event      // answers not delivered yet
	hook    func(Action) // called with every action; may be nil
	log     func(string)
	does    map[string]string     // activity of each attempt: prints (the default), computes, rests, or an unknown one; see sampled
	work    map[string]stall.Work // work done by each attempt
	unis    map[string]int        // number of attempts so far, by job
	reopen  bool                  // ended or held jobs, or the order of jobs, have changed
	chaotic bool                  // for FuzzCore: skips checkPhases, whose assumptions random events violate
}

// A change sets the utilization of a GPU from a time on.
type change struct {
	gpu     int
	at      time.Duration
	percent int
}

// A use is the GPU memory of one attempt's process.
type use struct {
	uni    string
	gpu    int
	memory gpu.Bytes
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)

// ledgerZone is the zone of the times in a ledger, which need not be the user's.
var ledgerZone = time.FixedZone("of the ledger", 14*60*60)

func newWorld(t testing.TB) *world {
	return &world{
		t: t, now: Now{Boot: time.Hour, Wall: epoch},
		b: &jobspec.Batch{
			Files: []jobspec.File{{Path: "jobs.yaml"}},
			Settings: jobspec.Settings{
				Poll: 5 * time.Second, Patience: 10 * time.Minute, Order: "file", Grace: 10 * time.Second, MinGPUs: -1, MaxGPUs: -1,
			},
		},
		rules: gpu.Rules{MinGPUs: -1, MaxGPUs: -1, Others: gpu.OthersAllow, Pick: gpu.FirstFit, UID: 1000, Poll: 5 * time.Second, Run: "me"},
		opts:  Options{Run: "me", UID: 1000},
		sick:  []gpu.Quarantine{}, vital: map[gpu.UUID]*gpu.Health{}, lost: map[gpu.UUID]bool{},
		proof: map[int]Evidence{}, manual: map[string]bool{}, live: map[string]bool{}, grants: map[string]gpu.Grant{},
		unis: map[string]int{}, does: map[string]string{}, work: map[string]stall.Work{}, log: func(string) {},
	}
}

func (w *world) gpus(n int, total gpu.Bytes) {
	for range n {
		i := len(w.devs)
		w.devs = append(w.devs, gpu.Device{Index: i, UUID: uuid(i), Name: "NVIDIA Test", PCI: fmt.Sprintf("00000000:%02X:00.0", i), Total: total})
		w.load, w.unseen = append(w.load, 0), append(w.unseen, 0)
	}
}

func hoursOf(t testing.TB, text string) gpu.Hours {
	h, err := gpu.ParseHours(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func uuid(i int) gpu.UUID { return gpu.UUID(fmt.Sprintf("GPU-%04d", i)) }

// job adds a job, with a key derived from its name and command.
func (w *world) job(name, command string, spec jobspec.Spec, queue string, needs ...string) *jobspec.Job {
	j := jobspec.Job{ID: len(w.b.Jobs), Name: name, Spec: &spec, Queue: -1, Key: keyOf(name, command)}
	if spec.When == "" {
		spec.When = jobspec.OnSuccess
	}
	if queue != "" {
		q := slices.Index(w.b.Queues, "jobs.yaml\x00"+queue)
		if q < 0 {
			q = len(w.b.Queues)
			w.b.Queues = append(w.b.Queues, "jobs.yaml\x00"+queue)
		}
		j.Queue = int32(q)
	}
	for _, n := range needs {
		j.Needs = append(j.Needs, int32(w.id(n)))
	}
	slices.Sort(j.Needs)
	w.b.Jobs = append(w.b.Jobs, j)
	return &w.b.Jobs[j.ID]
}

func keyOf(name, command string) jobspec.Key { return md5.Sum([]byte(name + "\x00" + command)) }

func (w *world) id(name string) int {
	for i := range w.b.Jobs {
		if w.b.Jobs[i].Name == name && (w.placed == nil || w.placed[i] >= 0) {
			return i
		}
	}
	w.t.Fatalf("no job %q", name)
	return -1
}

// open creates a core from the ledger, as a new run would.
func (w *world) open() {
	for i := range w.ledger {
		w.ledger[i].Fact.Time = w.ledger[i].Fact.Time.In(ledgerZone)
	}
	w.core = w.new(w.replay())
	w.checkPacked()
	w.before = len(w.ledger)
	w.wakeAt, w.done, w.pending, w.adopt, w.phases, w.reopen = 0, nil, nil, nil, nil, false
}

func (w *world) new(h *state.History) *Core {
	c := New(w.b, h, w.opts)
	c.Use(w.pool())
	c.Step(w.now, Looked{w.proof})
	return c
}

// hostRules returns the current rules of the host.
func (w *world) hostRules() *gpu.HostRules {
	if w.host == nil {
		return nil
	}
	h := *w.host
	h.At = w.now.Wall
	return &h
}

func (w *world) pool() *gpu.Pool {
	if len(w.devs) == 0 {
		return nil
	}
	return gpu.NewPool(w.devs, w.gpuRules())
}

func (w *world) gpuRules() gpu.Rules {
	rules := w.rules
	rules.Host, rules.Background, rules.IDs = w.hostRules(), w.b.Settings.Background, w.b.Settings.GPUIDs
	return rules
}

func (w *world) replay() *state.History {
	h := state.NewHistory()
	for _, r := range w.ledger {
		h.Apply(r.File, r.Fact)
	}
	return h
}

// send sends the core one event, followed by the world's answers until there are no more.
func (w *world) send(ev Event) {
	w.step(ev)
	for len(w.pending) > 0 {
		ev := w.pending[0]
		w.pending = w.pending[1:]
		w.step(ev)
	}
}

func (w *world) step(ev Event) {
	wakes := 0
	for _, a := range w.core.Step(w.now, ev) {
		if _, ok := a.(Wake); ok {
			wakes++
		}
		w.log(w.words(a))
		w.act(a)
	}
	if wakes > 1 {
		w.t.Fatalf("got %d Wakes in one Step, want at most 1", wakes)
	}
	if len(w.b.Jobs) < 1000 {
		w.watchPhases(ev)
		if err := w.core.check(w.reopen); err != nil {
			w.t.Fatalf("after %T %+v: %v", ev, ev, err)
		}
		if w.done != nil && !w.chaotic {
			w.checkPhases()
		}
	}
}

// watchPhases records whether the last Step may have placed an unfinished job before a running one.
func (w *world) watchPhases(ev Event) {
	switch ev.(type) {
	case Reloaded, JobsChanged, RetryRequested, DoneRequested, TakeOverRequested: // the last three also end the conclusion of a run with held jobs
		w.reopen = true
	}
	for i, was := range w.phases {
		w.reopen = w.reopen || was >= held && w.core.jobs[i].phase != was
	}
	w.phases = w.phases[:0]
	for i := range w.core.jobs {
		w.phases = append(w.phases, w.core.jobs[i].phase)
	}
}

// checkPhases checks that after a run, the ledger gives the phases that jobs had at its end.
func (w *world) checkPhases() {
	h, began := state.NewHistory(), w.now.Wall.Add(time.Hour) // later than all facts
	for i, r := range w.ledger {
		if i >= w.before {
			if r.Fact.By != "" || r.Fact.Kind == state.KindForget {
				return // a command of the user, which takes effect in the next run
			}
			r.Fact.Time = began
		}
		h.Apply(r.File, r.Fact)
	}
	for i := range w.b.Files {
		h.SetRun(i, state.Fact{Kind: state.KindRun, Time: began}, state.Fact{})
	}
	for id, after := range Phases(w.b, h) {
		if was := w.core.Phase(id); w.opts.Selected == nil && was != "" && was.Ended() && after != was {
			w.t.Fatalf("%s was %q at the end of the run, but is %q according to the ledger", w.b.Jobs[id].Name, was, after)
		}
	}
}

// act simulates the edge.
func (w *world) act(a Action) {
	if w.done != nil {
		switch a.(type) {
		case Discard, Ungather:
		default:
			w.t.Fatalf("got %T after Finish", a)
		}
	}
	if w.hook != nil {
		w.hook(a)
	}
	switch a := a.(type) {
	case Record:
		w.ledger = append(w.ledger, a)
	case Prepare:
		if why := w.core.outsideHours(); why != "" {
			w.t.Fatalf("%s is prepared outside the allowed hours: %s", w.b.Jobs[a.Job].Name, why)
		}
		w.grants[w.uni(a.Job, a.Attempt)] = a.Grant
		if !w.manual["prepare"] {
			w.pending = append(w.pending, w.prepared(a))
		}
	case Gather:
		if !w.manual["gather"] {
			w.pending = append(w.pending, Gathered{UniID: a.UniID, Claims: w.claims})
		}
	case Launch:
		w.live[a.UniID] = true
	case Adopt:
		w.adopt = append(w.adopt, a.Attempt.Start.UniID)
		w.live[a.Attempt.Start.UniID] = true
	case Read:
		if !w.manual["read"] {
			w.pending = append(w.pending, w.reading(a))
		}
	case SampleProgress:
		w.pending = append(w.pending, w.sampled(a))
	case Quarantine:
		w.sick = append(slices.DeleteFunc(slices.Clone(w.sick), func(q gpu.Quarantine) bool { return q.UUID == a.UUID && q.UID == a.UID }), a.Quarantine)
		w.pending = append(w.pending, Published{UUID: a.UUID})
	case Wake:
		w.wakeAt = a.At
	case Finish:
		w.done = &a
	}
}

// sampled lets attempts work and returns their progress.
func (w *world) sampled(a SampleProgress) Event {
	var ev ProgressSampled
	for _, uni := range a.UniIDs {
		did := w.work[uni]
		switch did.UniID = uni; w.does[uni] {
		case "rests", "unknown":
		case "computes":
			did.CPU += time.Minute
		default:
			did.Output++
		}
		if w.work[uni] = did; w.does[uni] == "unknown" {
			did.CPU = -1
		}
		ev.Work = append(ev.Work, did)
	}
	return ev
}

func (w *world) uni(job, attempt int) string {
	return fmt.Sprintf("%s.%d", w.b.Jobs[job].Name, w.unis[w.b.Jobs[job].Name]+1)
}

func (w *world) prepared(p Prepare) Event {
	uni := w.uni(p.Job, p.Attempt)
	w.unis[w.b.Jobs[p.Job].Name]++
	return Prepared{Job: p.Job, Start: state.Fact{UniID: uni, Log: "logs/" + w.b.Jobs[p.Job].Name, Commands: []string{"true"}}, Claims: w.claims}
}

// reading returns NVML's current readings: the load of other users, and memory without a visible
// process.
func (w *world) reading(r Read) Event {
	quick := len(r.UUIDs) > 0 && !r.Processes
	s := gpu.Observation{At: w.now.Boot, Err: w.fails}
	if !quick {
		s.Claims, s.Quarantines, s.Wishes = w.claims, w.sick, w.wishes
	}
	s.Host = w.hostRules()
	if w.fails == "" {
		for i, d := range w.devs {
			if len(r.UUIDs) > 0 && !slices.Contains(r.UUIDs, d.UUID) {
				continue
			}
			x := gpu.Reading{UUID: d.UUID, Total: d.Total, Free: d.Total - w.load[i] - w.unseen[i], Used: w.load[i] + w.unseen[i], Listed: !quick}
			if w.load[i] > 0 && !quick {
				x.Processes = []gpu.Process{{PID: 4711, UID: 1001, User: "alice", Command: "python", Memory: w.load[i]}}
				for k := range 120 {
					x.Samples = append(x.Samples, gpu.Sample{At: w.now.Boot - time.Duration(119-k)*time.Second, Percent: 0})
				}
			}
			w.used(i, &x)
			w.samples(i, &x)
			if x.Health = w.vital[d.UUID]; w.lost[d.UUID] {
				x = gpu.Reading{UUID: d.UUID, Err: "GPU is lost", Lost: true, Total: -1, Free: -1, Used: -1}
			}
			s.Readings = append(s.Readings, x)
		}
	}
	return Observed{Observation: s, Quick: quick}
}

// samples adds a GPU's utilization in the last 16 s, if it was ever set.
func (w *world) samples(i int, x *gpu.Reading) {
	if !x.Listed || !slices.ContainsFunc(w.busy, func(c change) bool { return c.gpu == i }) {
		return
	}
	x.Samples = nil
	for k := range 16 {
		at, percent := w.now.Boot-time.Duration(15-k)*time.Second, 0
		for _, c := range w.busy {
			if c.gpu == i && c.at <= at {
				percent = c.percent
			}
		}
		x.Samples = append(x.Samples, gpu.Sample{At: at, Percent: percent})
	}
}

// used adds the memory used by attempts to a GPU's reading.
func (w *world) used(i int, x *gpu.Reading) {
	for k, u := range w.uses {
		if u.gpu != i {
			continue
		}
		x.Free, x.Used = x.Free-u.memory, x.Used+u.memory
		if x.Listed {
			x.Processes = append(x.Processes, gpu.Process{PID: 100 + k, UID: 1000, Command: "python", Memory: u.memory, Attempt: u.uni})
		}
	}
}

func (w *world) after(d time.Duration) {
	w.now.Boot += d
	w.now.Wall = w.now.Wall.Add(d)
}

// tick advances time to the core's next timer.
func (w *world) tick() {
	if w.wakeAt == 0 {
		w.t.Fatal("the core has requested no timer")
	}
	if d := w.wakeAt - w.now.Boot; d > 0 {
		w.after(d)
	}
	w.wakeAt = 0 // a timer fires once
	w.send(Woken{})
}

// wait advances time and sends every Woken that the core has requested until then.
func (w *world) wait(d time.Duration) {
	end := w.now.Boot + d
	for w.wakeAt > 0 && w.wakeAt <= end && w.done == nil {
		w.tick()
	}
	w.after(max(0, end-w.now.Boot))
}

// exit ends the newest attempt of a job.
func (w *world) exit(name string, e Ended) {
	uni := w.attempt(name)
	if !w.live[uni] {
		w.t.Fatalf("%s is not running", uni)
	}
	delete(w.live, uni)
	w.uses = slices.DeleteFunc(w.uses, func(u use) bool { return u.uni == uni })
	w.adopt = slices.DeleteFunc(w.adopt, func(u string) bool { return u == uni })
	e.UniID, e.At = uni, w.now.Wall
	w.send(e)
}

func (w *world) attempt(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return fmt.Sprintf("%s.%d", name, w.unis[name])
}
