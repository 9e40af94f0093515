package sched

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/gpu"
	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// The scenarios are testdata/*.txt: one event per line, followed by all answers of the core on lines
// that begin with ">". A missing or extra answer fails the test; -update rewrites the answers.
// testdata/README explains the language.

var update = flag.Bool("update", false, "rewrite the expected lines of testdata/*.txt")

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { runScenario(t, f) })
	}
}

func runScenario(t *testing.T, path string) {
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := &scenario{world: newWorld(t), hidden: map[string]bool{"wish": true}}
	s.log = func(line string) {
		word, _, _ := strings.Cut(line, " ")
		if s.hidden[word] {
			return
		}
		fmt.Fprintf(&out, "> %s\n", line)
	}
	if *update {
		defer func() {
			if t.Failed() {
				t.Logf("so far:\n%s", out.String())
				return
			}
			if err := os.WriteFile(path, []byte(out.String()), 0o666); err != nil {
				t.Error(err)
			}
		}()
	}
	lines := strings.Split(strings.TrimSuffix(string(src), "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ">") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			s.at = fmt.Sprintf("%s:%d: %s", path, i+1, line)
			s.do(strings.Fields(line))
		}
	}
	got := out.String()
	if got != string(src) && !*update {
		t.Errorf("%s: got\n%s", path, firstDifference(got, string(src)))
	}
}

// firstDifference returns the first difference between two texts, with some lines before it.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < len(g) && i < len(w) && g[i] == w[i] {
		i++
	}
	from := max(0, i-5)
	return fmt.Sprintf("%s\n--- want, from line %d\n%s",
		strings.Join(g[from:min(len(g), i+5)], "\n"), from+1, strings.Join(w[from:min(len(w), i+5)], "\n"))
}

// A scenario is a world controlled by the lines of a file.
type scenario struct {
	*world
	at     string
	defs   [][]string // the words that define each job, in file order
	hidden map[string]bool

	only, force string // prefixes of the names of jobs to select and force, or ""
	beside      []Beside
}

// changeJobs changes the specs of some jobs during a run.
func (s *scenario) changeJobs(names []string, change func(j *jobspec.Spec)) {
	b := *s.b
	b.Jobs = slices.Clone(b.Jobs)
	ids := s.ids(names)
	for _, id := range ids {
		spec := *b.Jobs[id].Spec
		change(&spec)
		b.Jobs[id].Spec = &spec
	}
	s.b = &b
	s.send(JobsChanged{Batch: s.b, Jobs: ids, Beside: s.beside})
}

func (s *scenario) do(f []string) {
	s.t.Helper()
	if s.setUp(f) || s.happens(f) || s.asks(f) {
		return
	}
	s.t.Fatalf("%s: unknown line", s.at)
}

// setUp handles lines that set up the world.
func (s *scenario) setUp(f []string) bool {
	switch f[0] {
	case "gpus":
		n, size, _ := strings.Cut(f[1], "x")
		s.gpus(s.number(n), s.bytes(size))
	case "job":
		s.define(f[1:])
	case "drop":
		s.drop(f[1])
	case "set":
		s.set(f[1], strings.Join(f[2:], " "))
	case "hide":
		for _, w := range f[1:] {
			s.hidden[w] = true
		}
	case "show":
		for _, w := range f[1:] {
			delete(s.hidden, w)
		}
	case "simulated", "real":
		s.opts.Sim = f[0] == "simulated"
		for i := range s.devs {
			if s.devs[i].UUID = uuid(i); s.opts.Sim {
				s.devs[i].UUID = gpu.SimulatedUUID(0, i)
			}
		}
	case "manual":
		s.manual[f[1]] = true
	case "load":
		s.load[s.number(f[1])] = s.bytes(f[2])
	case "unseen":
		s.unseen[s.number(f[1])] = s.bytes(f[2])
	case "uses":
		u := use{s.attempt(f[1]), s.number(f[2]), s.bytes(f[3])}
		s.uses = slices.DeleteFunc(s.uses, func(o use) bool { return o.uni == u.uni && o.gpu == u.gpu })
		s.uses = append(s.uses, u)
	case "rests", "computes", "prints", "unknown":
		s.does[s.attempt(f[1])] = f[0]
	case "suspend":
		s.after(s.duration(f[1]))
	case "busy":
		for _, i := range f[2:] {
			s.busy = append(s.busy, change{s.number(i), s.now.Boot, s.number(f[1])})
		}
	case "ecc":
		s.vital[uuid(s.number(f[1]))] = &gpu.Health{Uncorrected: s.number(f[2])}
	case "xid":
		s.vital[uuid(s.number(f[1]))] = &gpu.Health{Uncorrected: -1, Xid: s.number(f[2])}
	case "falls":
		s.lost[uuid(s.number(f[1]))] = true
	case "back":
		s.lost[uuid(s.number(f[1]))] = false
	case "sick":
		q := gpu.Quarantine{UUID: uuid(s.number(f[1])), UID: s.number(f[2]), Why: "it is sick"}
		s.sick = append(s.sick, q.Again(s.now.Boot, s.now.Wall))
	case "clear":
		s.sick = slices.DeleteFunc(slices.Clone(s.sick), func(q gpu.Quarantine) bool { return q.UUID == uuid(s.number(f[1])) })
	case "claims":
		s.claims = []gpu.Claim{}
		for _, i := range f[1:] {
			c := gpu.Claim{UID: 1001, User: "alice", Job: "theirs"}
			if own, ok := strings.CutPrefix(i, "own:"); ok {
				i, c.UID, c.User, c.Job = own, 1000, "me", "mine"
			}
			c.UUID = uuid(s.number(i))
			s.claims = append(s.claims, c)
		}
	case "host":
		s.rule(f[1], strings.Join(f[2:], " "))
	case "wishes":
		s.wishes = s.wishesOf(f[1:])
	case "holds", "offers", "behind", "gathers":
		for i := range s.wishes {
			w := &s.wishes[i]
			w.Gathers = w.Gathers || f[0] == "gathers" && w.Run == f[1]
		}
		for _, i := range f[2:] {
			s.claim(f[1], s.number(i), f[0])
		}
	case "takes":
		for i := range s.claims {
			if s.claims[i].Run == f[1] {
				s.claims[i].CPUs, s.claims[i].RAM = s.number(f[2]), s.bytes(f[3])
			}
		}
	case "asks":
		for i := range s.wishes {
			if w := &s.wishes[i]; w.Run == f[1] {
				w.Requests[0].CPUs, w.Requests[0].RAM = s.number(f[2]), s.bytes(f[3])
			}
		}
	case "ends":
		for i := range s.claims {
			if s.claims[i].Run == f[1] {
				s.claims[i].Ends = s.now.Wall.Add(s.duration(f[2]))
			}
		}
	case "driver":
		s.fails = strings.Join(f[1:], " ")
		if s.fails == "works" {
			s.fails = ""
		}
	case "output", "input", "log":
		s.evidence(f)
	default:
		return false
	}
	return true
}

// wishesOf parses wishes: USER:JOBSxGPUS or USER:JOBSxGPUSxSIZE.
func (s *scenario) wishesOf(f []string) (wishes []gpu.Wish) {
	for _, text := range f {
		user, what, _ := strings.Cut(text, ":")
		jobs, rest, _ := strings.Cut(what, "x")
		min, size, sized := strings.Cut(rest, "x")
		ask := gpu.WishRequest{Jobs: s.number(jobs), Min: s.number(min), Memory: 8 * gpu.GiB, MaxUtil: 30, Room: len(s.devs)}
		if sized {
			ask.Memory = s.bytes(size)
		}
		for i := range s.devs {
			ask.UUIDs = append(ask.UUIDs, uuid(i))
		}
		wishes = append(wishes, gpu.Wish{Run: user, UID: uidOf(user), User: user, Since: s.now.Wall, Requests: []gpu.WishRequest{ask}})
	}
	return wishes
}

// uidOf returns the uid of another user.
func uidOf(user string) int { return 2000 + int(user[0]) }

// claim adds a claim by a user's run. It may be an offer to this run, or belong to a background run.
func (s *scenario) claim(user string, i int, how string) {
	c := gpu.Claim{
		UUID: uuid(i), User: user, Job: "theirs", Attempt: fmt.Sprint(user, i, s.now.Boot), Memory: 8 * gpu.GiB,
		UID: uidOf(user), Run: user,
	}
	if c.Background, c.Gathering = how == "behind", how == "gathers"; c.Background {
		c.Since = s.now.Wall
	}
	if s.claims = slices.DeleteFunc(s.claims, func(o gpu.Claim) bool { return o.UUID == c.UUID && o.Run == user }); how == "offers" {
		c.To = "me"
	}
	s.claims = append(s.claims, c)
}

// define adds a job, or redefines an existing one in place.
func (s *scenario) define(d []string) {
	for i := range s.defs {
		if s.defs[i][0] == d[0] {
			s.defs[i] = d
			return
		}
	}
	s.defs = append(s.defs, d)
}

func (s *scenario) drop(name string) {
	for i, d := range s.defs {
		if d[0] == name {
			s.defs = append(s.defs[:i:i], s.defs[i+1:]...)
			return
		}
	}
}

// evidence sets the state of the file system: "output a ckpt/a.pt missing".
func (s *scenario) evidence(f []string) {
	e := Evidence{}
	if f[len(f)-1] != "fine" {
		switch f[0] {
		case "output":
			e.MissingOutput = f[2]
		case "input":
			e.ChangedInput = f[2]
		case "log":
			e.LogDeleted = true
		}
	}
	for i, d := range s.defs {
		if d[0] == f[1] {
			s.proof[i] = e
		}
	}
}

func (s *scenario) set(key, value string) {
	b := &s.b.Settings
	switch key {
	case "max_concurrent":
		b.MaxConcurrent = s.number(value)
	case "gpu_ids":
		b.GPUIDs = strings.Split(value, ",")
	case "patience":
		b.Patience = s.duration(value)
	case "poll":
		b.Poll = s.duration(value)
	case "max_wait":
		b.MaxWait = s.duration(value)
	case "fail_fast":
		b.FailFast = true
	case "order":
		b.Order = value
	case "breaker":
		b.Breaker = s.number(value)
	case "notify":
		b.Notify = []jobspec.Notify{{Command: "cat", On: []string{value}}}
	case "hours":
		b.Hours = hoursOf(s.t, value)
	case "background":
		b.Background = true
	case "seed":
		b.ShuffleSeed = int64(s.number(value))
	case "watch":
		s.opts.Watch = true
	case "no_wait":
		s.opts.NoWait = true
	case "cpus":
		s.opts.CPUs = s.number(value)
	case "pool":
		name, n, _ := strings.Cut(value, " ")
		b.Pools = append(b.Pools, jobspec.Pool{Name: name, Size: s.number(n)})
	case "machine":
		cores, ram, _ := strings.Cut(value, " ")
		s.rules.Machine = gpu.HostResources{CPUs: s.number(cores), RAM: s.bytes(ram)}
	case "max_gpus":
		b.MaxGPUs = s.number(value)
	case "cluster":
		s.opts.Elsewhere, s.opts.Queues = true, true
	case "memory":
		s.opts.Memory = s.bytes(value)
	case "only":
		s.only = value
	case "force":
		s.force = value
	default:
		s.t.Fatalf("%s: unknown setting", s.at)
	}
}

// rule sets a host rule.
func (s *scenario) rule(key, value string) {
	if s.host == nil {
		s.host = gpu.NoHostRules()
		s.host.File = "host.yaml"
	}
	switch h := s.host; key {
	case "reserve":
		h.Reserve = s.number(value)
	case "max_gpus_per_user":
		h.MaxGPUsPerUser = s.number(value)
	case "max_gpus_per_job":
		h.MaxGPUsPerJob = s.number(value)
	case "patience":
		h.Patience = s.duration(value)
	case "max_timeout":
		h.MaxTimeout = s.duration(value)
	case "hours":
		h.Hours = []gpu.DeviceHours{{Hours: hoursOf(s.t, value)}}
	default:
		s.t.Fatalf("%s: unknown rule", s.at)
	}
}

// build builds the batch from the current jobs.
func (s *scenario) build() {
	s.placed = nil
	s.b.Jobs, s.b.Queues = nil, nil
	for _, d := range s.defs {
		s.addJob(d)
	}
	s.opts.Selected, s.opts.Forced = s.named(s.only), s.named(s.force)
	for i, d := range s.defs { // needs may refer to later jobs
		for _, o := range d[1:] {
			if v, ok := strings.CutPrefix(o, "needs="); ok {
				for _, n := range strings.Split(v, ",") {
					s.b.Jobs[i].Needs = append(s.b.Jobs[i].Needs, int32(s.id(n)))
				}
			}
		}
	}
}

// named reports for each job whether its name begins with prefix. It returns nil if prefix is "".
func (s *scenario) named(prefix string) (in []bool) {
	for i := range s.b.Jobs {
		if prefix != "" {
			in = append(in, strings.HasPrefix(s.b.Jobs[i].Name, prefix))
		}
	}
	return in
}

func (s *scenario) addJob(d []string) {
	spec := jobspec.Spec{Request: gpu.Request{Min: 1, Max: 1, Memory: 8 * gpu.GiB, MaxUtil: 30}}
	command, queue := "true", ""
	for _, o := range d[1:] {
		key, v, _ := strings.Cut(o, "=")
		switch key {
		case "run":
			command = v
		case "queue":
			queue = v
		case "needs":
		default:
			s.option(&spec, key, v)
		}
	}
	s.job(d[0], command, spec, queue)
}

func (s *scenario) option(spec *jobspec.Spec, key, v string) {
	switch key {
	case "gpus":
		from, to, ranged := strings.Cut(v, "-")
		spec.Request.Min = s.number(from)
		spec.Request.Max = spec.Request.Min
		if ranged {
			spec.Request.Max = s.number(to)
		}
		if spec.Request.Max == 0 {
			spec.Request = gpu.Request{}
			spec.CPUs = 1
		}
	case "mem":
		spec.Request.Memory = s.bytes(v)
	case "share":
		spec.Request.Share = true
	case "slots":
		spec.Request.Share, spec.Request.Slots = true, s.number(v)
	case "part":
		spec.Request.Memory, spec.Request.Part = 0, true
	case "allow":
		spec.Allow = strings.Split(v, ",")
	case "cpus":
		spec.CPUs = s.number(v)
	case "pool":
		name, n, _ := strings.Cut(v, ":")
		spec.Pool = jobspec.PoolUse{Name: name, N: s.number(n)}
	case "group":
		spec.Template = uint64(s.number(v))
	case "timeout":
		spec.Timeout = s.duration(v)
	case "stall":
		spec.Stall.After = s.duration(v)
	case "mute":
		spec.Stall.Output = s.duration(v)
	case "kill":
		spec.Stall.Kill = v == "stalled"
	case "ram":
		spec.Memory = s.bytes(v)
	case "when":
		spec.When = jobspec.When(v)
	case "priority":
		spec.Priority = s.number(v)
	case "resize":
		spec.Resize = jobspec.Resize{Up: 80, Down: 30, Signal: "USR1", Grace: time.Minute, Every: s.duration(v)}
	case "retry":
		spec.Retry.Max = s.number(v)
	case "delay":
		spec.Retry.Delay = s.duration(v)
	case "backoff":
		d, n, _ := strings.Cut(v, "/")
		spec.Retry.Backoff, spec.Retry.BackoffAfter = s.duration(d), s.number(n)
	case "on":
		spec.Retry.On = strings.Split(v, ",")
	case "growth":
		spec.Retry.MemoryGrowth, _ = strconv.ParseFloat(v, 64)
	default:
		s.t.Fatalf("%s: unknown option", s.at)
	}
}

// happens handles lines that are events.
func (s *scenario) happens(f []string) bool {
	switch f[0] {
	case "run":
		s.build()
		s.open()
		s.send(Began{})
	case "tick":
		s.tick()
	case "wait":
		s.wait(s.duration(f[1]))
	case "prepared":
		s.send(s.prepared(Prepare{Job: s.id(f[1])}))
	case "refused":
		s.send(PrepareFailed{Job: s.id(f[1]), Reason: strings.Join(f[2:], " ")})
	case "rival":
		s.send(PrepareFailed{Job: s.id(f[1]), Rival: true, Reason: strings.Join(f[2:], " ")})
	case "reading":
		s.send(s.reading(Read{}))
	case "gathered":
		s.send(Gathered{UniID: f[1], Claims: s.claims})
	case "notice":
		s.send(ClaimsChanged{s.claims, s.wishes})
	case "running":
		s.send(Started{UniID: s.attempt(f[1]), PID: s.number(f[2]), PIDStart: 1})
	case "still":
		s.send(Started{UniID: s.attempt(f[1]), PID: 4242, PIDStart: 1})
	case "exit", "dies", "fault", "signal", "oom", "lost", "void", "good", "bad", "saved", "withdrawn":
		s.exit(f[1], s.ending(f))
	case "saving":
		s.send(StopAnnounced{UniID: s.attempt(f[1]), Why: state.WhyResize})
	case "declines":
		s.send(Declined{UniID: s.attempt(f[1]), Why: strings.Join(f[2:], " ")})
	case "timeout":
		s.send(StopAnnounced{UniID: s.attempt(f[1]), Why: state.WhyTimeout})
	case "stop", "kill", "drain":
		s.send(s.stopping(f))
	case "ledger":
		s.send(StateFailed{Err: strings.Join(f[1:], " ")})
	case "done", "forget":
		s.byHand(f)
	case "pause", "resume":
		s.send(PauseRequested{Jobs: s.ids(f[1:]), All: len(f) == 1, Resume: f[0] == "resume"})
	case "retry":
		s.send(RetryRequested{s.ids(f[1:])})
	case "rank":
		n, edge := 0, map[string]int{"first": 1e6, "last": -1e6}
		if n = edge[f[1]]; n == 0 {
			n = s.number(f[1])
		}
		s.changeJobs(f[2:], func(j *jobspec.Spec) { j.Priority = n })
	case "ask":
		n := s.number(f[1])
		s.changeJobs(f[2:], func(j *jobspec.Spec) { j.Request.Min, j.Request.Max = n, n })
	case "before", "after":
		m := Beside{Other: int32(s.id(f[1])), After: f[0] == "after"}
		for _, id := range s.ids(f[2:]) {
			m.Jobs = append(m.Jobs, int32(id))
		}
		s.beside = append(s.beside, m)
		s.changeJobs(nil, nil)
	case "change":
		b := *s.b
		s.b = &b
		s.set(f[1], strings.Join(f[2:], " "))
		s.send(SettingsChanged{s.b, s.gpuRules()})
	case "reload":
		was := s.b
		s.b = &jobspec.Batch{Files: was.Files, Settings: was.Settings}
		s.build()
		s.b, s.placed = was.Continue(s.b)
		s.opts.Selected, s.opts.Forced = s.named(s.only), s.named(s.force)
		s.send(Reloaded{Batch: s.b, At: s.placed, Selected: s.opts.Selected, Forced: s.opts.Forced, Evidence: s.proof, Rules: s.gpuRules()})
	case "meanwhile":
		s.send(s.userCommand(f[1], f[2:]))
	default:
		return false
	}
	return true
}

func (s *scenario) ending(f []string) Ended {
	rest := strings.Join(f[2:], " ")
	switch f[0] {
	case "exit":
		return Ended{End: state.End{ExitCode: s.number(rest)}}
	case "dies":
		return Ended{Line: rest, End: state.End{ExitCode: 1}}
	case "fault":
		return Ended{Line: rest, Cause: DeviceFault, End: state.End{ExitCode: 1}}
	case "signal":
		return Ended{End: state.End{ExitCode: -1, Signal: rest}}
	case "oom":
		return Ended{Cause: GPUMemory, End: state.End{ExitCode: 1}}
	case "lost":
		return Ended{End: state.End{ExitCode: -1, Lost: true}}
	case "void":
		return Ended{End: state.End{ExitCode: -1, Lost: true, Void: true}}
	case "withdrawn":
		return Ended{End: state.End{ExitCode: -1, Lost: true, Void: true, Why: state.WhyInterrupted}}
	case "saved":
		return Ended{Whole: len(f) > 3, End: state.End{ExitCode: s.number(f[2]), Why: state.WhyResize, Aside: len(f) > 4}}
	case "good":
		return Ended{Good: true, End: state.End{ExitCode: 1}}
	}
	return Ended{Failed: rest}
}

func (s *scenario) stopping(f []string) StopRequested {
	switch {
	case f[0] == "drain":
		return StopRequested{Drain: true, Why: "Ctrl-C"}
	case f[1] == "all":
		return StopRequested{All: true, Kill: f[0] == "kill", Why: "SIGTERM"}
	case f[1] == "gpu":
		n := s.number(f[2])
		return StopRequested{GPU: &n}
	}
	return StopRequested{Jobs: s.ids(f[1:])}
}

// userCommand returns the event that gpurun done or gpurun forget sends to a run.
func (s *scenario) userCommand(word string, jobs []string) Event {
	if word == "done" {
		return DoneRequested{Jobs: s.ids(jobs)}
	}
	return ForgetRequested{Jobs: s.ids(jobs)}
}

func (s *scenario) ids(names []string) (ids []int) {
	for _, name := range names {
		ids = append(ids, s.id(name))
	}
	return ids
}

// byHand records the facts of gpurun done and gpurun forget before a run.
func (s *scenario) byHand(f []string) {
	s.build()
	fact := state.Fact{Kind: state.KindForget, Time: s.now.Wall, Job: f[1], Key: s.b.Jobs[s.id(f[1])].Key.String()}
	if f[0] == "done" {
		fact.Kind, fact.State, fact.By = state.KindEnd, state.Succeeded, "done"
	}
	s.ledger = append(s.ledger, Record{Fact: fact})
}

// asks handles lines that query the core.
func (s *scenario) asks(f []string) bool {
	switch f[0] {
	case "plan":
		s.build()
		s.open()
		for i := range s.b.Jobs {
			v := s.core.Verdict(i)
			word := "skip"
			if v.Run {
				word = "run "
			}
			s.log(fmt.Sprintf("%s %s: [%s] %s", word, s.b.Jobs[i].Name, v.Code, v.Reason))
		}
	case "why":
		s.log(s.why(s.id(f[1])))
	case "status":
		s.status()
	default:
		return false
	}
	return true
}

// why formats what a job waits for: its code, the codes of GPUs, the jobs, and the text.
func (s *scenario) why(id int) string {
	w := s.core.Wait(s.now, id)
	if cause := s.core.Blocked(id); cause != nil {
		return fmt.Sprintf("[%s] %s", cause.Code, cause.Text)
	}
	if w == nil {
		return ""
	}
	code := string(w.Code)
	for _, g := range w.GPUs {
		code += fmt.Sprintf(" %d:%s", g.Index, g.Code)
	}
	for _, job := range w.Jobs {
		code += " " + job
	}
	return fmt.Sprintf("[%s] %s", code, w.Text)
}

func (s *scenario) status() {
	v := s.core.Snapshot(s.now)
	for p := pending; p < phaseCount; p++ {
		if p.public() != "" && v.Counts[p.public()] > 0 && p != ready && p != preparing && p != held {
			s.log(fmt.Sprintf("%d %s", v.Counts[p.public()], p.public()))
		}
	}
	if next := v.Live.Next; next != nil {
		s.log(next.Job + " waits: " + next.Text)
		s.log(v.Line)
	}
	if c := s.core; c.paused || c.pauses > 0 {
		s.log(fmt.Sprintf("paused: %v, and %d jobs", c.paused, c.pauses))
	}
	for _, line := range []string{schema.Value(v.Live.Kept), schema.Value(v.Live.Draining), schema.Value(v.Live.Unread)} {
		if line != "" {
			s.log(line)
		}
	}
	for _, h := range v.Live.Held {
		s.log(fmt.Sprintf("%s and %d more held: %d failed with the same error on %v: %s", h.First, h.Jobs-1, h.Attempts, h.GPUs, h.Cause))
	}
	if v.Live.Stale != nil {
		s.log("readings are " + time.Duration(*v.Live.Stale*1e9).String() + " old")
	}
	for _, q := range v.Live.Queues {
		s.log(fmt.Sprintf("queue %s: busy with %q, %d left", q.Name, schema.Value(q.Busy), q.Left))
	}
}

func (s *scenario) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
	return n
}

func (s *scenario) bytes(text string) gpu.Bytes {
	n, err := gpu.ParseBytes(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
	return n
}

func (s *scenario) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
	return d
}
