package sched

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/runner/sched/stall"
	"gpurun/state"
)

// FuzzCore sends a small batch events chosen by the input: ends of every kind, races, stops, crashes of
// the runner between any two actions, a failing driver. The invariants must hold after every Step, and
// the live history must equal the replayed one before every run. No job may run twice at the same time,
// and no attempt may start without its fact or end twice. Once all attempts end, the run must end.
func FuzzCore(f *testing.F) {
	for seed := range 40 {
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(splitmix(uint64(seed), int32(i)))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Each new run replays the ledger. With a long input, this would take more than ten seconds,
		// which the fuzzer considers a hang.
		data = data[:min(len(data), 1000)]
		c := &chaos{world: newWorld(t), data: data, started: map[string]bool{}, stopped: map[string]bool{}}
		c.chaotic = true
		c.hook = c.watch
		c.manual["prepare"], c.manual["read"] = true, true
		c.batch()
		c.begin()
		for len(c.data) > 0 {
			c.event()
		}
		c.calm()
	})
}

// chaos is a world whose events are determined by the input.
type chaos struct {
	*world
	data     []byte
	preps    []Prepare
	reads    []Read
	started  map[string]bool         // by uni_id: whether its start is recorded
	stopped  map[string]bool         // by uni_id: whether its end is recorded
	excused  map[string]int          // by key: number of failures in this run that spent no retry
	saved    map[int32]time.Duration // by job: when this run last asked it to save its work
	gathered map[string]bool         // gathering claims
	added    int                     // number of jobs added when the file was read again
	dying    int                     // 1 if the ledger has facts that the core lacks, or the reverse
	hung     bool                    // some attempt left its GPUs in an unknown state
	elastic  bool                    // jobs request one GPU or more
	away     bool                    // a cluster chooses the GPUs
}

// pick consumes a number below n from the input, or returns 0 at its end.
func (c *chaos) pick(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := int(c.data[0])
	c.data = c.data[1:]
	return b % n
}

func (c *chaos) chance(percent int) bool { return c.pick(100) < percent }

func (c *chaos) batch() {
	if c.away = c.chance(30); c.away {
		c.opts.Elsewhere, c.opts.Queues = true, true
		c.opts.MaxOpen, c.opts.MaxTotal = c.pick(5), 3*c.pick(3)
		c.b.Settings.MaxGPUs = c.pick(5) - 1
	} else {
		c.gpus(c.pick(4), 24*gpu.GiB)
	}
	s := &c.b.Settings
	s.MaxConcurrent = c.pick(4)
	s.Order = []string{"file", "shuffle", "largest-first", jobspec.LongestFirst}[c.pick(4)]
	s.Learn = c.chance(70)
	s.FailFast = c.chance(10)
	s.Breaker = c.pick(4)
	s.Patience = time.Duration(c.pick(3)) * time.Minute
	s.MaxWait = time.Duration(c.pick(3)) * 10 * time.Minute
	c.opts.NoWait, c.opts.NoPrune = c.chance(5), c.chance(5)
	s.Background = c.chance(40)
	if c.chance(10) {
		s.Hours = hoursOf(c.t, "12:10-12:20, 13:00-09:00")
	}
	if c.chance(40) {
		c.host = gpu.NoHostRules()
		c.host.Patience, c.host.Gather = time.Duration(c.pick(3))*time.Minute, time.Duration(1+c.pick(9))*time.Minute
	}
	if c.chance(20) {
		c.host = gpu.NoHostRules()
		c.host.MaxGPUsPerUser, c.host.MaxTimeout = 1+c.pick(3), time.Duration(c.pick(2))*time.Hour
		c.host.Hours = []gpu.DeviceHours{{Hours: hoursOf(c.t, "12:05-12:30, 13:10-11:00")}}
	}
	for _, name := range []string{"disk", "net"}[:c.pick(3)] {
		s.Pools = append(s.Pools, jobspec.Pool{Name: name, Size: 1 + c.pick(3)})
	}
	c.opts.CPUs = c.pick(4)
	c.opts.Memory = gpu.Bytes(c.pick(3)) * 8 * gpu.GiB
	c.rules.Machine = gpu.HostResources{CPUs: c.opts.CPUs, RAM: c.opts.Memory}
	c.elastic = c.chance(30) || c.away
	some, forced := c.chance(10), c.chance(10)
	n, backwards := 1+c.pick(8), c.chance(30)
	for i := range n {
		c.job(fmt.Sprint("j", i), "true", c.someSpec(), []string{"", "", "x", "y"}[c.pick(4)])
		if some {
			c.opts.Selected = append(c.opts.Selected, i%3 != 0)
		}
		if forced {
			c.opts.Forced = append(c.opts.Forced, i%2 == 0)
		}
	}
	if c.chance(50) {
		c.learned()
	}
	for i := range n {
		for k := range i {
			if c.chance(25) {
				c.need(i, k, n, backwards)
			}
		}
	}
}

// learned adds ends of similar jobs to the ledger.
func (c *chaos) learned() {
	for i := range 2 * state.LearnFrom {
		uni, at := fmt.Sprint("before.", i), epoch.Add(-time.Hour)
		c.ledger = append(c.ledger,
			Record{Job: -1, Fact: state.Fact{Kind: state.KindStart, Time: at, UniID: uni, Key: uni, SeedGroup: state.SeedGroupName(uint64(1+i%2), false)}},
			Record{Job: -1, Fact: state.Fact{Kind: state.KindEnd, Time: at, UniID: uni, Key: uni, State: state.Succeeded, Seconds: float64(c.pick(100)),
				PeakMemory: gpu.Bytes(1+c.pick(9)) * gpu.GiB, PeakReadings: 9}})
	}
}

func (c *chaos) need(i, k, n int, backwards bool) {
	if backwards {
		i, k = n-1-i, n-1-k
	}
	j := &c.b.Jobs[i]
	j.Needs = append(j.Needs, int32(k))
	slices.Sort(j.Needs)
}

func (c *chaos) someSpec() jobspec.Spec {
	spec := jobspec.Spec{
		Resize: c.someResize(),
		CPUs:   c.pick(3), Memory: gpu.Bytes(c.pick(3)) * 4 * gpu.GiB, Priority: c.pick(3),
		Template: uint64(c.pick(3)),
		When:     []jobspec.When{jobspec.OnSuccess, jobspec.OnSuccess, jobspec.OnFailure, jobspec.Always}[c.pick(4)],
		Retry:    jobspec.Retry{Max: c.pick(4) - 1, Delay: time.Duration(c.pick(3)) * time.Second, MemoryGrowth: float64(c.pick(3))},
	}
	if most := c.pick(3); most > 0 {
		least := 1 + c.pick(most)
		spec.Request = gpu.Request{Min: least, Max: most, Memory: gpu.Bytes(1+c.pick(3)) * 8 * gpu.GiB, MaxUtil: 100, Share: c.chance(40)}
		spec.DefaultMemory = c.chance(60)
		if r := &spec.Request; r.Share {
			r.Slots = c.pick(4)
			r.Part = r.Slots > 0 && !spec.DefaultMemory && c.chance(50)
		}
	}
	if c.elastic {
		spec.Request = gpu.Request{Min: 1, Max: 1 + c.pick(3), Memory: gpu.Bytes(1+c.pick(3)) * 4 * gpu.GiB, MaxUtil: 100}
	}
	if pools := c.b.Settings.Pools; len(pools) > 0 && c.chance(60) {
		p := pools[c.pick(len(pools))]
		spec.Pool = jobspec.PoolUse{Name: p.Name, N: 1 + c.pick(p.Size)}
	}
	if c.chance(20) {
		spec.Stall = jobspec.Stall{After: time.Duration(1+c.pick(3)) * time.Minute, Output: time.Duration(c.pick(3)) * time.Minute, Kill: c.chance(50)}
	}
	if c.away && c.chance(70) {
		spec.Resize = jobspec.Resize{Up: 70, Down: 40, Signal: "USR1", Grace: time.Minute, Every: time.Minute}
	}
	if c.chance(30) {
		spec.Prune = jobspec.Prune{Metric: "acc", Goal: []jobspec.Goal{jobspec.Max, jobspec.Min}[c.pick(2)], After: float64(c.pick(3)), Keep: 0.5, Min: 1 + c.pick(2)}
	}
	if r := spec.Request; r.Share || r.Max == r.Min { // no job file can request this
		spec.Resize = jobspec.Resize{}
	}
	return spec
}

func (c *chaos) someResize() jobspec.Resize {
	if c.chance(50) {
		return jobspec.Resize{}
	}
	return jobspec.Resize{Up: 70, Down: 40, Signal: "USR1", Grace: time.Minute, Every: time.Duration(c.pick(3)) * time.Minute}
}

// begin starts a run from the facts so far, as after a crash. First, it compares the live history
// with the replayed one.
func (c *chaos) begin() {
	c.compare()
	c.compact()
	c.open()
	c.preps, c.reads, c.dying, c.excused, c.gathered = nil, nil, 0, map[string]int{}, map[string]bool{}
	c.saved = map[int32]time.Duration{}
	c.send(Began{})
}

// compare checks that the state of the previous run agrees with its facts.
func (c *chaos) compare() {
	if c.core == nil || c.dying != 0 {
		return
	}
	replayed := c.replay()
	if !reflect.DeepEqual(byKey(c.core.h), byKey(replayed)) || !reflect.DeepEqual(c.core.h.Open, replayed.Open) {
		c.t.Fatalf("the live history differs from the replayed one:\n%+v\n%+v", c.core.h, replayed)
	}
	live, again := New(c.b, c.core.h, c.opts), New(c.b, replayed, c.opts)
	for i := range c.b.Jobs {
		if got, want := live.Verdict(i), again.Verdict(i); got != want {
			c.t.Fatalf("%s: verdict %+v from the live history, %+v from the replayed one", c.b.Jobs[i].Name, got, want)
		}
	}
}

// watch checks every action, in order.
func (c *chaos) watch(a Action) {
	switch a := a.(type) {
	case Record:
		f := a.Fact
		if f.Kind == state.KindStart {
			c.started[f.UniID] = true
		}
		if f.Kind == state.KindEnd && f.UniID != "" {
			if c.stopped[f.UniID] {
				c.t.Fatalf("%s ended twice", f.UniID)
			}
			c.stopped[f.UniID] = true
			if f.Why == state.WhyResize && (f.State != state.Interrupted || f.ErrorType != "" || f.Uncharged != "") {
				c.t.Fatalf("a resize is recorded as a failure: %+v", f)
			}
			if f.Uncharged != "" {
				c.excused[f.Key]++
			}
			if c.excused[f.Key] > maxExcused {
				c.t.Fatalf("%d failures of %s spent no retry, want at most %d", c.excused[f.Key], f.Job, maxExcused)
			}
		}
	case Prepare:
		c.preps = append(c.preps, a)
		for _, id := range a.Grant.UUIDs {
			if _, sick := c.core.pool.Quarantined(c.now.Boot, id); sick || slices.Contains(c.core.health.resting, id) {
				c.t.Fatalf("%s was granted %s, which is quarantined or resting", c.b.Jobs[a.Job].Name, id)
			}
		}
	case Gather:
		if c.gathered[a.UniID] = true; len(a.Grant.UUIDs) != 1 || a.Job == "" {
			c.t.Fatalf("%v is gathered for job %q", a.Grant.UUIDs, a.Job)
		}
	case Ungather:
		if !c.gathered[a.UniID] {
			c.t.Fatalf("%s is ended but is not a gathering claim", a.UniID)
		}
		delete(c.gathered, a.UniID)
	case Read:
		c.reads = append(c.reads, a)
	case Save:
		c.saves(a)
	case Launch:
		c.launched(a)
	case Finish:
		c.mayFinish()
	}
}

func (c *chaos) launched(a Launch) {
	if !c.started[a.UniID] || c.live[a.UniID] || c.stopped[a.UniID] {
		c.t.Fatalf("%s launched twice, after its end or without its start: started %v, live %v, ended %v", a.UniID, c.started[a.UniID], c.live[a.UniID], c.stopped[a.UniID])
	}
	spec := c.b.Jobs[a.Job].Spec
	c.does[a.UniID] = []string{"prints", "computes", "rests", "unknown"}[c.pick(4)]
	for _, cl := range c.claims {
		if !cl.Gathering && slices.Contains(c.core.live.byID[a.UniID].grant.UUIDs, cl.UUID) && !(cl.Share && spec.Request.Share) && cl.To != c.opts.Run {
			c.t.Fatalf("%s launched on %s, which another run has claimed", a.UniID, cl.UUID)
		}
	}
	if other := c.beside(a.UniID); other != "" {
		c.t.Fatalf("%s launched while %s, an attempt of the same job, may be running", a.UniID, other)
	}
}

// beside returns another attempt of the same job that has started and may be running, or "".
func (c *chaos) beside(uniID string) string {
	name := uniID[:strings.LastIndexByte(uniID, '.')+1]
	for uni := range c.live {
		if uni != uniID && c.started[uni] && strings.HasPrefix(uni, name) {
			return uni
		}
	}
	return ""
}

// saves checks that only resizable jobs are asked to save their work, and not too often.
func (c *chaos) saves(s Save) {
	a := c.core.live.byID[s.UniID]
	if a == nil || !c.live[s.UniID] || a.stop != "" {
		c.t.Fatalf("%s is asked to save its work, but is not running or is being stopped", s.UniID)
	}
	spec := c.b.Jobs[a.job].Spec
	if last, ever := c.saved[a.job]; spec.Resize.Up == 0 || ever && c.now.Boot-last < spec.Resize.Every {
		c.t.Fatalf("%s is asked to save its work, %v after the last time: %+v", s.UniID, c.now.Boot-last, spec.Resize)
	}
	c.saved[a.job] = c.now.Boot
	if c.away {
		c.t.Fatalf("%s is asked to save its work on a cluster", s.UniID)
	}
	if n := a.gpus(); a.grows && n >= spec.Request.Max || !a.grows && n <= spec.Request.Min {
		c.t.Fatalf("%s with %d GPUs is asked to save its work: %+v", s.UniID, n, spec.Request)
	}
}

func (c *chaos) mayFinish() {
	if len(c.live) > 0 {
		c.t.Fatalf("finished while %v are running", slices.Sorted(maps.Keys(c.live)))
	}
	if c.core.draining != "" || c.core.gaveUp {
		return
	}
	for i := range c.b.Jobs {
		if p := c.core.Phase(i); p != "" && !p.Ended() && c.core.jobs[i].phase != held {
			c.t.Fatalf("finished while %s is %s", c.b.Jobs[i].Name, p)
		}
	}
}

// event makes one event happen.
func (c *chaos) event() {
	if c.done != nil {
		if c.chance(40) {
			c.byHand(c.pick(len(c.b.Jobs)))
		}
		c.begin()
		return
	}
	switch c.pick(21) {
	case 20:
		c.reports()
	case 0, 1, 2:
		c.answerPrepare()
	case 3:
		c.answerRead()
	case 4, 5, 6:
		c.endOne()
	case 7:
		c.after(time.Duration(c.pick(60)) * time.Second)
		c.send(Woken{})
	case 8:
		if c.wakeAt > 0 {
			c.tick()
		}
	case 9:
		c.stopSomething()
	case 10:
		c.elsewhere()
	case 11:
		c.strange()
	case 12:
		if uni := c.one(); uni != "" {
			c.begins(uni, 1+c.pick(100), c.chance(50))
		}
	case 13:
		c.crash()
	case 14:
		c.somewhere()
	case 15, 16:
		c.resizing()
	case 17, 18:
		c.steer()
	case 19:
		c.reload()
	}
	for i := range c.b.Jobs {
		c.core.Why(c.now, i)
	}
	c.core.Snapshot(c.now)
}

// reports makes attempts report steps.
func (c *chaos) reports() {
	var ev ProgressSampled
	for range 1 + c.pick(4) {
		r := stall.Work{UniID: c.one(), Output: -1, CPU: -1}
		if a := c.core.live.byID[r.UniID]; a == nil || a.asked || a.queued {
			continue
		}
		for step := range 1 + c.pick(4) {
			p := state.Point{Step: float64(step + c.pick(5)), Value: float64(c.pick(5))}
			if p.Value == 0 {
				p.Value = math.NaN()
			}
			r.Points = append(r.Points, p)
		}
		ev.Work = append(ev.Work, r)
	}
	c.send(ev)
}

// steer sends the requests of a user, except stops.
func (c *chaos) steer() {
	ids := []int{c.pick(len(c.b.Jobs))}
	switch c.pick(7) {
	case 0:
		c.send(PauseRequested{All: true, Resume: c.chance(60)})
	case 1, 2:
		c.send(PauseRequested{Jobs: ids, Resume: c.chance(50)})
	case 3, 4:
		if c.core.Closing() == "" { // a closing run refuses it
			c.send(RetryRequested{ids})
		}
	case 5:
		b := *c.b
		b.Jobs = slices.Clone(b.Jobs)
		spec := *b.Jobs[ids[0]].Spec
		spec.Priority, spec.Retry.Max = c.pick(3), c.pick(3)
		b.Jobs[ids[0]].Spec = &spec
		c.b = &b
		c.send(JobsChanged{c.b, ids, []Beside{{[]int32{int32(ids[0])}, int32(c.pick(len(b.Jobs))), c.chance(50)}}})
	case 6:
		b := *c.b
		c.b = &b
		s := &b.Settings
		if s.MaxConcurrent = c.pick(4); s.MaxConcurrent > 0 {
			s.MaxConcurrent += len(c.core.live.all)
		}
		s.Order = []string{"file", "shuffle", "largest-first", jobspec.LongestFirst}[c.pick(4)]
		s.FailFast, s.Patience, s.MaxWait = c.chance(10), time.Duration(c.pick(3))*time.Minute, time.Duration(c.pick(3))*10*time.Minute
		rules := c.gpuRules()
		rules.Reserve = 0
		c.send(SettingsChanged{c.b, rules})
	}
}

// reload makes the run reread its file, with jobs added, removed or changed.
func (c *chaos) reload() {
	if !c.core.Begun() {
		return // the runner does not reload before that
	}
	if c.chance(30) {
		c.send(Rereading{On: true})
	}
	next := &jobspec.Batch{Files: c.b.Files, Settings: c.b.Settings, Queues: c.b.Queues}
	for i := range c.b.Jobs {
		j := c.b.Jobs[i]
		if c.placed != nil && c.placed[i] < 0 && c.chance(90) || c.chance(10) || slices.ContainsFunc(next.Jobs, func(o jobspec.Job) bool { return o.Name == j.Name }) {
			continue
		}
		if c.chance(15) {
			j.Key = keyOf(j.Name, fmt.Sprint(c.pick(3)))
		}
		if live := c.core.jobs[i].own > 0; !live && c.chance(20) {
			spec := c.someSpec()
			j.Spec, j.Queue = &spec, min(j.Queue, int32(c.pick(3)-1))
		}
		j.Needs = nil
		next.Jobs = append(next.Jobs, j)
	}
	if n := len(c.b.Jobs); n < 20 && c.chance(50) {
		spec := c.someSpec()
		c.added++
		name := fmt.Sprint("new", c.added)
		next.Jobs = append(next.Jobs, jobspec.Job{Name: name, Spec: &spec, Queue: -1, Key: keyOf(name, "true")})
	}
	if len(next.Jobs) == 0 {
		return // a file has at least one job
	}
	if c.chance(30) {
		slices.Reverse(next.Jobs)
	}
	for i := range next.Jobs {
		next.Jobs[i].ID = i
		for k := range i {
			if c.chance(25) {
				next.Jobs[i].Needs = append(next.Jobs[i].Needs, int32(k))
			}
		}
	}
	was := len(c.b.Jobs)
	c.b, c.placed = c.b.Continue(next)
	for range len(c.b.Jobs) - was {
		if c.opts.Selected != nil {
			c.opts.Selected = append(slices.Clone(c.opts.Selected), c.chance(80))
		}
		if c.opts.Forced != nil {
			c.opts.Forced = append(slices.Clone(c.opts.Forced), c.chance(20))
		}
	}
	c.send(Reloaded{Batch: c.b, At: c.placed, Selected: c.opts.Selected, Forced: c.opts.Forced, Rules: c.gpuRules()})
}

// compact removes deleted jobs, as the next run does when it reads the file.
func (c *chaos) compact() {
	if c.placed == nil {
		return
	}
	b, ids := *c.b, make([]int32, len(c.b.Jobs))
	b.Jobs = nil
	var selected, forced []bool
	for i := range c.b.Jobs {
		if ids[i] = int32(len(b.Jobs)); c.placed[i] < 0 {
			continue
		}
		j := c.b.Jobs[i]
		j.ID = len(b.Jobs)
		b.Jobs = append(b.Jobs, j)
		if c.opts.Selected != nil {
			selected = append(selected, c.opts.Selected[i])
		}
		if c.opts.Forced != nil {
			forced = append(forced, c.opts.Forced[i])
		}
	}
	for i := range b.Jobs {
		needs := slices.Clone(b.Jobs[i].Needs)
		for k, n := range needs {
			needs[k] = ids[n]
		}
		b.Jobs[i].Needs = needs
	}
	c.b, c.placed, c.opts.Selected, c.opts.Forced = &b, nil, selected, forced
}

// resizing sends events that lead to resizes: answers to Save, wishes of other runs, and load.
func (c *chaos) resizing() {
	switch uni := c.one(); c.pick(6) {
	case 0:
		c.send(Declined{UniID: uni, Why: "it catches no signal"})
	case 1, 2:
		if a := c.core.live.byID[uni]; a != nil && a.job >= 0 && c.core.spec(a.job).Resize.Up > 0 {
			c.send(StopAnnounced{UniID: uni, Why: state.WhyResize})
			if c.chance(70) {
				var hung []int
				if c.chance(5) {
					hung, c.hung = []int{1}, true
				}
				c.exit(uni, Ended{Whole: c.chance(20), End: state.End{ExitCode: c.pick(2), Why: state.WhyResize, Stuck: hung}})
			}
		}
	case 3:
		c.wishes = nil
		for _, run := range []string{"bob", "carol"}[:c.pick(3)] {
			w := gpu.Wish{Run: run, UID: uidOf(run), User: run, Since: c.now.Wall, Gathers: c.chance(30)}
			a := gpu.WishRequest{Jobs: 1 + c.pick(3), Min: 1 + c.pick(2), Memory: 8 * gpu.GiB, MaxUtil: 30, Room: c.pick(4)}
			for i := range c.devs {
				a.UUIDs = append(a.UUIDs, uuid(i))
			}
			w.Requests = append(w.Requests, a)
			c.wishes = append(c.wishes, w)
		}
		c.send(ClaimsChanged{c.claims, c.wishes})
	case 4:
		for i := range c.devs {
			c.busy = append(c.busy, change{i, c.now.Boot, 5 + 45*c.pick(3)})
		}
		c.busy = c.busy[max(0, len(c.busy)-3*len(c.devs)):]
	case 5:
		for range c.pick(10) {
			if c.done == nil && c.wakeAt > 0 {
				c.tick()
			}
			c.answerRead()
		}
	}
}

// begins makes an attempt begin. On a cluster, it gets up to three of the GPUs that it requested.
func (c *chaos) begins(uni string, pid int, adopted bool) {
	ev := Started{UniID: uni, PID: pid, PIDStart: 1}
	if a := c.core.live.byID[uni]; c.away && a != nil {
		ev.Host, ev.Grant = "node1", &gpu.Grant{Indices: []int{0, 1, 2}[:min(a.asks, 3)]}
	}
	c.send(ev)
}

// somewhere makes an attempt or another process allocate memory on some GPU, its own or not.
func (c *chaos) somewhere() {
	if uni := c.one(); len(c.devs) > 0 && len(c.uses) < 20 {
		if c.chance(20) {
			uni = ""
		}
		c.uses = append(c.uses, use{uni, c.pick(len(c.devs)), gpu.Bytes(c.pick(4)) * gpu.GiB})
	}
}

// byHand records gpurun forget or gpurun done between two runs.
func (c *chaos) byHand(id int) {
	j := &c.b.Jobs[id]
	f := state.Fact{Kind: state.KindForget, Time: c.now.Wall, Job: j.Name, Key: j.Key.String()}
	if c.chance(30) {
		f.Kind, f.State, f.By = state.KindEnd, state.Succeeded, "done"
	}
	c.ledger = append(c.ledger, Record{Job: id, Fact: f})
	c.dying = 1 // the core of the previous run does not know this fact
}

func (c *chaos) answerPrepare() {
	if len(c.preps) == 0 {
		return
	}
	i := c.pick(len(c.preps))
	p := c.preps[i]
	c.preps = slices.Delete(c.preps, i, i+1)
	switch c.pick(6) {
	case 0:
		c.send(PrepareFailed{Job: p.Job, Rival: true})
	case 1:
		c.send(PrepareFailed{Job: p.Job, Reason: "no log"})
	default:
		c.send(c.prepared(p))
	}
}

func (c *chaos) answerRead() {
	if len(c.reads) > 0 {
		r := c.reads[0]
		c.reads = c.reads[1:]
		c.send(c.reading(r))
	}
}

// one returns a live attempt chosen by the input, or "".
func (c *chaos) one() string {
	all := slices.Sorted(maps.Keys(c.live))
	if len(all) == 0 {
		return ""
	}
	return all[c.pick(len(all))]
}

func (c *chaos) endOne() {
	uni := c.one()
	if uni == "" {
		return
	}
	e := []Ended{
		{}, {}, {End: state.End{ExitCode: 1}}, {End: state.End{ExitCode: 1}, Line: "ValueError: 1"}, {End: state.End{ExitCode: 127}}, {End: state.End{ExitCode: -1, Signal: "SIGKILL"}}, {End: state.End{ExitCode: 1}, Cause: GPUMemory},
		{End: state.End{ExitCode: -1, Lost: true}}, {Failed: "output x missing"}, {End: state.End{Err: "no shell", ExitCode: -1}}, {Good: true, End: state.End{ExitCode: 1}}, {End: state.End{Stuck: []int{1}}},
		{End: state.End{ExitCode: 1}, Cause: DeviceFault}, {End: state.End{ExitCode: -1, Signal: "SIGSEGV"}}, {End: state.End{ExitCode: 1}, Cause: HostMemory},
	}[c.pick(15)]
	if c.chance(30) {
		e.Points = []state.Point{{Step: float64(c.pick(6)), Value: float64(c.pick(5))}}
	}
	if a := c.core.live.byID[uni]; a != nil && a.withdrawn && a.queued && c.chance(80) {
		e = Ended{End: state.End{ExitCode: -1, Why: state.WhyInterrupted, Lost: true, Void: true}}
	}
	c.hung = c.hung || len(e.Stuck) > 0
	c.exit(uni, e)
}

func (c *chaos) stopSomething() {
	n := c.pick(max(1, len(c.devs)))
	switch c.pick(12) {
	case 0:
		c.send(StopRequested{All: true, Kill: c.chance(30), Why: "SIGTERM"})
	case 1:
		c.send(StopRequested{Drain: true, Why: "Ctrl-C"})
	case 2, 3:
		c.send(StopRequested{GPU: &n})
	case 4:
		c.send(StateFailed{Err: "no space"})
	case 5, 6:
		if uni := c.one(); uni != "" {
			c.send(StopAnnounced{UniID: uni, Why: state.WhyTimeout})
		}
	case 7, 8:
		// A job that is not selected keeps the state that it had at the start.
		if ids := []int{c.pick(len(c.b.Jobs))}; c.core.jobs[ids[0]].phase == unselected {
			return
		} else if c.chance(30) {
			c.send(ForgetRequested{Jobs: ids})
		} else {
			c.send(DoneRequested{Jobs: ids})
		}
	default:
		c.send(StopRequested{Jobs: []int{c.pick(len(c.b.Jobs))}})
	}
}

// elsewhere simulates other users and the driver.
func (c *chaos) elsewhere() {
	if c.fails = ""; c.chance(30) {
		c.fails = "unknown error"
	}
	if len(c.devs) > 0 {
		c.load[c.pick(len(c.devs))] = gpu.Bytes(c.pick(4)) * 8 * gpu.GiB
		if i := c.pick(len(c.devs)); c.load[i] == 0 {
			c.unseen[i] = gpu.Bytes(c.pick(3)) * 8 * gpu.GiB
		}
		c.ail()
		c.claims = []gpu.Claim{}
		if c.chance(50) {
			c.claims = append(c.claims, gpu.Claim{UUID: uuid(c.pick(len(c.devs))), User: "alice", Share: c.chance(30), Memory: 4 * gpu.GiB})
		}
		c.compete()
	}
}

// compete simulates wishes, claims and offers of other runs.
func (c *chaos) compete() {
	c.wishes = nil
	for n := range c.pick(3) {
		w := gpu.Wish{Run: fmt.Sprint("run", n), UID: 1001 + n, User: "bob", Since: epoch.Add(time.Duration(c.pick(3)) * time.Minute), Background: c.chance(30), Gathers: c.chance(30)}
		a := gpu.WishRequest{Jobs: c.pick(3), Min: 1 + c.pick(2), Memory: gpu.Bytes(c.pick(4)) * 8 * gpu.GiB, MaxUtil: 100, Room: c.pick(4), Share: c.chance(30)}
		for i := range c.devs {
			a.UUIDs = append(a.UUIDs, uuid(i))
		}
		a.HostResources = gpu.HostResources{CPUs: n % 3, RAM: gpu.Bytes(n%2) * 6 * gpu.GiB}
		if w.Requests = []gpu.WishRequest{a}; n%4 == 1 { // the run also has jobs without GPUs
			w.HostResources = gpu.HostResources{CPUs: 1, RAM: gpu.GiB}
			w.Requests = append(w.Requests, gpu.WishRequest{Jobs: 2, HostResources: gpu.HostResources{CPUs: 1}})
		}
		c.wishes = append(c.wishes, w)
	}
	for n := range c.pick(3) {
		i := c.pick(len(c.devs))
		cl := gpu.Claim{
			UUID: uuid(i), UID: 1001 + n, User: "bob", Run: fmt.Sprint("run", n), Attempt: fmt.Sprint("theirs", n), Memory: 4 * gpu.GiB,
			HostResources: gpu.HostResources{CPUs: n % 2, RAM: gpu.Bytes(n%2) * 4 * gpu.GiB},
			Share:         true, Background: c.chance(50), Gathering: c.chance(30), Since: epoch.Add(time.Duration(c.pick(9)) * time.Minute),
		}
		if c.chance(20) {
			cl.To = []string{"me", "run1"}[c.pick(2)]
		}
		c.claims = append(c.claims, cl)
	}
	if c.chance(50) {
		c.send(ClaimsChanged{Claims: c.claims, Wishes: c.wishes})
	}
}

// ail changes the health of a GPU, or adds or lifts quarantines.
func (c *chaos) ail() {
	id := uuid(c.pick(len(c.devs)))
	switch c.pick(6) {
	case 0:
		c.vital[id] = &gpu.Health{Uncorrected: c.pick(4), Xid: []int{0, 79, gpu.Contained}[c.pick(3)]}
	case 1:
		c.lost[id] = !c.lost[id]
	case 2:
		c.sick = append(slices.Clone(c.sick), gpu.Quarantine{UUID: id, UID: 1000 + c.pick(2)}.Again(c.now.Boot, c.now.Wall))
	case 3:
		c.sick = slices.DeleteFunc(slices.Clone(c.sick), func(q gpu.Quarantine) bool { return q.UUID == id })
	}
}

// strange sends events that are late, unrelated to this run, or not requested.
func (c *chaos) strange() {
	n := c.pick(len(c.b.Jobs))
	busy := slices.ContainsFunc(c.preps, func(p Prepare) bool { return p.Job == n })
	switch c.pick(5) {
	case 0:
		c.send(Ended{UniID: "nobody"})
	case 1:
		c.send(Started{UniID: "nobody", PID: 1})
	case 2:
		if !busy {
			c.send(Prepared{Job: n, Start: state.Fact{UniID: "late"}})
		}
	case 3:
		if !busy {
			c.send(PrepareFailed{Job: n, Reason: "late"})
		}
	case 4:
		c.send(c.reading(Read{}))
	}
}

// crash kills the runner between two actions: only the first few actions of the last Step are
// executed.
func (c *chaos) crash() {
	ev := Event(Woken{})
	if len(c.preps) > 0 && c.chance(70) {
		ev = c.prepared(c.preps[0])
	} else if uni := c.one(); uni != "" && c.chance(70) {
		ev = Ended{UniID: uni, End: state.End{ExitCode: c.pick(2)}}
		delete(c.live, uni) // the runner saw the end before it died
	}
	actions := c.core.Step(c.now, ev)
	for _, a := range actions[:c.pick(len(actions)+1)] {
		c.act(a)
	}
	if e, ok := ev.(Ended); ok && !c.stopped[e.UniID] {
		c.live[e.UniID] = true // its end was not recorded, so the next run asks the engine again
	}
	c.dying = 1
	c.begin()
}

// calm removes all obstacles, ends all attempts, and checks that the run then ends.
func (c *chaos) calm() {
	c.uses = nil
	c.fails = ""
	if c.done == nil {
		c.send(Rereading{})
		c.send(PauseRequested{All: true, Resume: true})
		for i := range c.b.Jobs {
			if c.done == nil {
				c.send(PauseRequested{Jobs: []int{i}, Resume: true})
			}
		}
	}
	if c.claims != nil {
		c.claims = []gpu.Claim{}
	}
	c.wishes = nil
	c.sick = []gpu.Quarantine{}
	c.wishes = nil
	clear(c.lost)
	clear(c.vital)
	clear(c.load)
	for i := range c.load {
		c.load[i], c.unseen[i] = 0, 0
	}
	for i := 0; c.done == nil; i++ {
		switch {
		case i > 3000:
			c.t.Fatalf("the run does not end: %+v", c.core.Snapshot(c.now))
		case len(c.preps) > 0:
			p := c.preps[0]
			c.preps = c.preps[1:]
			c.send(c.prepared(p))
		case len(c.reads) > 0:
			c.answerRead()
		case len(c.live) > 0:
			c.exit(c.one(), Ended{})
		case c.wakeAt > 0:
			c.tick()
		default:
			c.t.Fatalf("the run waits, but nothing can happen: %+v", c.core.Snapshot(c.now))
		}
		if c.stuck() {
			return
		}
	}
	c.compare()
}

// stuck reports whether a run waits forever: the user has excluded GPUs, or processes that cannot be
// ended hold them, and there is no max_wait.
func (c *chaos) stuck() bool {
	return c.core.waiter.id >= 0 && (len(c.core.excluded) > 0 || c.hung) && c.b.Settings.MaxWait == 0 && len(c.live) == 0 && len(c.preps) == 0 && len(c.reads) == 0
}

// byKey returns the records in a history by key.
func byKey(h *state.History) map[string]*state.Record {
	all := map[string]*state.Record{}
	for r := range h.Records() {
		all[fmt.Sprint(r.Ledger, " ", r.Key)] = r
	}
	return all
}
