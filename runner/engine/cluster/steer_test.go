package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine"
)

// The sum of the throttles stays within the limits, if running tasks permit. A throttle changes only
// if another array can use the difference.
func TestThrottlesStayWithinLimits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit limits
		parts []arrayShare
		want  []int
	}{
		{"no arrays", limits{2, -1}, nil, []int{}},
		{"no limits", limits{0, -1}, []arrayShare{{1, 3, 4, 9}, {0, 0, 5, 5}}, []int{9, 5}},
		{"one array", limits{2, -1}, []arrayShare{{1, 0, 12, 0}}, []int{2}},
		{"the first array goes first", limits{2, -1}, []arrayShare{{1, 0, 12, 2}, {1, 0, 3, 0}}, []int{2, 0}},
		{"running tasks count", limits{2, -1}, []arrayShare{{1, 2, 10, 2}, {1, 0, 3, 0}}, []int{2, 0}},
		{"an array with one task left", limits{2, -1}, []arrayShare{{1, 1, 0, 2}, {1, 0, 3, 0}}, []int{1, 1}},
		{"no array needs the rest", limits{2, -1}, []arrayShare{{1, 1, 0, 2}, {1, 0, 0, 0}}, []int{2, 0}},
		{"each array continues", limits{2, -1}, []arrayShare{{1, 1, 5, 1}, {1, 1, 5, 1}}, []int{1, 1}},
		{"lowered below the running tasks", limits{1, -1}, []arrayShare{{1, 3, 5, 4}, {1, 0, 5, 1}}, []int{1, 0}},
		{"lowered while two arrays run", limits{3, -1}, []arrayShare{{1, 2, 5, 2}, {1, 3, 5, 3}}, []int{0, 1}},
		{"GPUs lowered below the running tasks", limits{0, 3}, []arrayShare{{2, 3, 5, 3}, {1, 0, 5, 0}, {0, 1, 5, 6}}, []int{1, 0, 6}},
		{"raised", limits{5, -1}, []arrayShare{{1, 2, 1, 2}, {1, 0, 9, 0}}, []int{3, 2}},
		{"GPUs", limits{0, 4}, []arrayShare{{2, 1, 5, 1}, {1, 0, 5, 0}, {0, 0, 7, 7}}, []int{2, 0, 7}},
		{"both", limits{3, 4}, []arrayShare{{2, 0, 5, 0}, {0, 0, 5, 0}}, []int{2, 1}},
		{"too large for the rest", limits{0, 3}, []arrayShare{{2, 1, 5, 1}, {2, 0, 5, 0}, {1, 0, 5, 0}}, []int{1, 0, 1}},
		{"no GPUs", limits{0, 0}, []arrayShare{{1, 0, 5, 0}, {0, 0, 1, 1}}, []int{0, 1}},
	} {
		if got := tt.limit.split(tt.parts); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// steerable is a dialect with commands to hold, release and throttle.
type steerable struct {
	plain
	gapless bool
}

func (s steerable) Traits(map[string]string) Traits { return Traits{Gapless: s.gapless} }
func (steerable) Order(do Order, what []string, n int) Command {
	args := append([]string{map[Order]string{Hold: "hold", Release: "release", Throttle: "throttle"}[do]}, what...)
	if do == Throttle {
		args = append(args, fmt.Sprint(n))
	}
	return Command{Args: args}
}

// The cases list the commands that gpurun sends, in order, until holds and throttles are as they
// should be, and the lists that it awaits before it lets other tasks start: a task that began just
// before its array was held or throttled counts against the limits.
func TestOrdersApplyPausesAndLimits(t *testing.T) {
	type job struct {
		tasks, throttle int
		held            bool
	}
	for _, tt := range []struct {
		name    string
		gapless bool
		limit   limits
		jobs    []job
		change  func(at func(job, n int) *entry)
		want    string
	}{
		{name: "nothing to do", limit: limits{2, -1}, jobs: []job{{3, 2, false}, {3, 1, true}}},
		{name: "no limit", limit: limits{0, -1}, jobs: []job{{3, 3, false}, {3, 3, false}}},
		{
			name: "paused", limit: limits{0, -1}, jobs: []job{{3, 3, false}, {2, 2, false}},
			change: func(at func(job, n int) *entry) {
				for n := range 3 {
					at(0, n).paused = true
				}
				at(1, 0).paused = true
			},
			want: "hold 12.0 11",
		},
		{
			name: "resumed", limit: limits{0, -1}, jobs: []job{{3, 3, true}},
			change: func(at func(job, n int) *entry) { at(0, 1).paused = true },
			want:   "release 11.0 11.2",
		},
		{name: "lowered first", limit: limits{2, -1}, jobs: []job{{1, 2, false}, {3, 1, true}}, want: "throttle 11 1; release 12"},
		{name: "raised before the release", limit: limits{4, -1}, jobs: []job{{2, 2, false}, {5, 1, true}}, want: "throttle 12 2; release 12"},
		{
			name: "lowered below the running tasks", limit: limits{1, -1}, jobs: []job{{5, 3, false}},
			change: func(at func(job, n int) *entry) {
				at(0, 0).task, at(0, 1).task, at(0, 2).task = &task{}, &task{}, &task{}
			},
			want: "throttle 11 1; list",
		},
		{name: "held", limit: limits{1, -1}, jobs: []job{{4, 2, false}, {5, 1, false}}, want: "hold 12; throttle 11 1; list"},
		{name: "unlimited", limit: limits{0, -1}, jobs: []job{{4, 2, false}, {5, 1, true}}, want: "throttle 11 4; throttle 12 5; release 12"},
		{name: "unknown throttle", limit: limits{3, -1}, jobs: []job{{4, 0, false}}, want: "throttle 11 3; list"},
		{
			name: "a pause makes room", limit: limits{2, -1}, jobs: []job{{3, 2, false}, {3, 1, true}},
			change: func(at func(job, n int) *entry) { at(0, 1).paused, at(0, 2).paused = true, true },
			want:   "hold 11.2 11.1; throttle 11 1; list; release 12",
		},
		{
			name: "a gap", limit: limits{2, -1}, jobs: []job{{6, 2, false}},
			change: func(at func(job, n int) *entry) { at(0, 2).paused = true },
			want:   "hold 11.2; list",
		},
		{
			name: "no gap", gapless: true, limit: limits{2, -1}, jobs: []job{{6, 2, false}},
			change: func(at func(job, n int) *entry) { at(0, 2).paused = true },
			want:   "hold 11.5 11.4 11.3 11.2; list",
		},
		{
			name: "a gap when all others may run", gapless: true, limit: limits{5, -1}, jobs: []job{{6, 5, false}},
			change: func(at func(job, n int) *entry) { at(0, 2).paused = true },
			want:   "hold 11.2; list",
		},
		{
			name: "a gap leaves room", gapless: true, limit: limits{2, -1}, jobs: []job{{4, 2, false}, {2, 1, true}},
			change: func(at func(job, n int) *entry) { at(0, 1).paused = true },
			want:   "hold 11.3 11.2 11.1; throttle 11 1; list; release 12",
		},
		{
			name: "the next range", gapless: true, limit: limits{2, -1}, jobs: []job{{6, 2, true}},
			change: func(at func(job, n int) *entry) {
				at(0, 0).task, at(0, 1).row = &task{}, Row{State: Runs}
				at(0, 2).paused = true
			},
			want: "release 11.3 11.4 11.5",
		},
	} {
		c := &Cluster{dialect: steerable{gapless: tt.gapless}, live: map[string]*entry{}, submits: map[string]*submit{}}
		all := map[string]*entry{}
		for i, j := range tt.jobs {
			s := &submit{id: fmt.Sprint(i), job: fmt.Sprint(11 + i), dir: t.TempDir(), throttle: j.throttle, marks: []byte(strings.Repeat(" ", j.tasks))}
			c.submits[s.id] = s
			if err := write(filepath.Join(s.dir, holdsFile), s.marks, 0o600); err != nil {
				t.Fatal(err)
			}
			for n := range j.tasks {
				e := &entry{gpus: 1, held: j.held}
				e.UniID = fmt.Sprint(i, " ", n)
				e.assign(s, n)
				c.live[e.UniID], all[e.UniID] = e, e
			}
		}
		if c.limits = tt.limit; tt.change != nil {
			tt.change(func(job, n int) *entry { return all[fmt.Sprint(job, " ", n)] })
		}
		var got []string
		for range 9 {
			command, marked, then := c.order()
			if then == nil && !c.restricted.IsZero() {
				c.listed = c.restricted.Add(1)
				c.recordAnswer(c)
				got = append(got, "list")
				continue
			}
			if then == nil {
				break
			}
			if err := mark(marked, heldMark); err != nil {
				t.Fatal(err)
			}
			for _, e := range all { // if this run is killed now, the next one must find the holds
				if name := c.jobID(e); command.Args[0] == "hold" && slices.Contains(command.Args[1:], name) && marksOf(e.submit.dir)[e.n] != heldMark {
					t.Errorf("%s: the hold of %s is not recorded before it is sent", tt.name, name)
				}
			}
			then()
			got = append(got, strings.Join(command.Args, " "))
		}
		if text := strings.Join(got, "; "); text != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, text, tt.want)
		}
	}
}

func (steerable) Answer(stdout, _ string) (string, Refusal, string) {
	return strings.TrimSpace(stdout), Unclear, ""
}

// A submission by an earlier version of gpurun, without a record of holds, counts as not held. It
// can be held and throttled.
func TestOlderSubmissionCanBeSteered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "train.jobs-0badcafe")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{stopsFile: strings.Repeat(" ", 2*stopSize), answerFile: "11\n"} {
		if err := write(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := &Cluster{dialect: steerable{}, live: map[string]*entry{}, submits: map[string]*submit{}, steering: steering{limits: limits{gpus: -1}}}
	for n, id := range []string{"a", "b"} {
		e := &entry{adopted: true}
		e.assign(c.submissionOf(dir), n)
		c.live[id] = e
	}
	for _, want := range []string{"throttle 11 2", "hold 11.1"} {
		command, marked, then := c.order()
		if got := strings.Join(command.Args, " "); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		if err := mark(marked, heldMark); err != nil {
			t.Fatal(err)
		}
		then()
		c.live["b"].paused = true
	}
	if got := string(marksOf(dir)); got != " h" {
		t.Errorf("the record of holds is %q", got)
	}
}

// If jobs of several files share an array, separate runs may hold them: neither may erase the other's
// record. A hold that cannot be recorded must fail.
func TestEachRunHoldsItsOwnJobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "train.jobs-0badcafe")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{holdsFile: "  ", answerFile: "11\n"} {
		if err := write(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var runs [2]*Cluster
	for n := range runs { // both read the record before either writes it
		c := &Cluster{dialect: steerable{}, live: map[string]*entry{}, submits: map[string]*submit{}, steering: steering{limits: limits{gpus: -1}}}
		c.live["a"] = &entry{paused: true}
		c.live["a"].assign(c.submissionOf(dir), n)
		runs[n] = c
	}
	for _, c := range runs {
		_, marked, _ := c.order()
		if err := os.Rename(filepath.Join(dir, holdsFile), filepath.Join(dir, "away")); err != nil {
			t.Fatal(err)
		}
		if mark(marked, heldMark) == nil {
			t.Fatal("a hold that could not be recorded did not fail")
		}
		if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, holdsFile)); err != nil {
			t.Fatal(err)
		}
		if err := mark(marked, heldMark); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(marksOf(dir)); got != "hh" {
		t.Errorf("the record of holds is %q", got)
	}
}

// Two runs that share an array raise its throttle to the number of its tasks, because the throttle
// limits both. Instead, each holds the tasks that it may not start yet.
func TestRunsThatShareAnArrayLimitByHolds(t *testing.T) {
	s, batch := prepared(t, 4)
	for name, content := range map[string]string{answerFile: "11\n", holdsFile: "    "} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	throttle := 3
	var told []string
	var runs [2]*Cluster
	for n := range runs {
		c := &Cluster{dialect: steerable{}, live: map[string]*entry{}, submits: map[string]*submit{}, steering: steering{limits: limits{1 + n, -1}}, out: engine.NewMailbox[engine.Event]()}
		for i, l := range batch[2*n : 2*n+2] {
			e := &entry{Identity: l.Identity, adopted: true}
			e.assign(c.submissionOf(s.dir), 2*n+i)
			c.live[e.UniID] = e
		}
		runs[n] = c
	}
	for range 4 {
		for n, c := range runs {
			c.applyList([]Row{{Name: "0badcafe", Job: "11", Rest: true, State: Pending, Throttle: throttle, Mixed: true}}, map[string]bool{})
			for range 4 {
				command, marked, then := c.order()
				if then == nil {
					break
				}
				if err := mark(marked, heldMark); err != nil {
					t.Fatal(err)
				}
				if then(); command.Args[0] == "throttle" {
					throttle, _ = strconv.Atoi(command.Args[2])
				}
				told = append(told, fmt.Sprint(n, ": ", strings.Join(command.Args, " ")))
			}
		}
	}
	if got, want := strings.Join(told, "; "), "0: hold 11.1; 0: throttle 11 4; 1: throttle 11 4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A list changes what gpurun knows about a hold only if the list is unambiguous.
func TestOnlyUnambiguousListedHoldsCount(t *testing.T) {
	e := &entry{held: true}
	if e.check(Row{State: Stuck}); !e.held {
		t.Error("a held task that is listed as held no longer counts as held")
	}
	if e.check(Row{State: Pending, Mixed: true}); !e.held {
		t.Error("a mixed row released a held task")
	}
	if e.check(Row{State: Pending}); e.held {
		t.Error("a hold that the controller has forgotten still counts")
	}
	if e.check(Row{State: Stuck}); e.held {
		t.Error("another user's hold counts as gpurun's")
	}
}

// The name of an array must be recognizable to its user and valid on every cluster.
func TestArrayNames(t *testing.T) {
	for _, tt := range []struct{ prefix, file, jobs, want string }{
		{"", "jobs", "train", "train.jobs-0badcafe"},
		{"", "jobs", "train-lr=0.1-s1 train-lr=0.1-s2", "train-lr=0.1-s.jobs-0badcafe"},
		{"", "jobs", "train-1 train-2", "train.jobs-0badcafe"},
		{"", "jobs", "a b", "jobs-0badcafe"},
		{"", "7 days", "a b", "__days-0badcafe"},
		{"lab", "jobs", "eval", "lab-eval.jobs-0badcafe"},
		{"", "a:b", "3d/é:x", "_d___x.a_b-0badcafe"},
		{"", "a-very-long-name-of-a-job-file", strings.Repeat("x", 50), strings.Repeat("x", 32) + ".a-very-long-name-of-a-jo-0badcafe"},
	} {
		c := &Cluster{file: tt.file}
		if tt.prefix != "" {
			c.Options = map[string]string{"name_prefix": tt.prefix}
		}
		var batch []*engine.Launch
		for name := range strings.SplitSeq(tt.jobs, " ") {
			l := &engine.Launch{}
			l.Job = name
			batch = append(batch, l)
		}
		if got := c.nameOf(batch, "0badcafe"); got != tt.want || idIn(got) != "0badcafe" {
			t.Errorf("%s: got %q, want %q", tt.jobs, got, tt.want)
		}
	}
}

// If an earlier run could not record an attempt's withdrawal, the attempt still ends as withdrawn,
// whatever the cluster reports.
func TestUnrecordedWithdrawalCounts(t *testing.T) {
	e := &entry{withdrawn: true, submit: &submit{job: "17"}}
	if !e.unclear() {
		t.Error("a withdrawn attempt counts as queued")
	}
	for _, row := range []Row{{}, {State: Pending}, {State: Cancelled}, {State: Completed}} {
		s := observation{claimed: voidMark, taken: true, row: row, missed: goneAfter, missing: accounted, keeps: true}
		if v := judge(s); v != (verdict{ends, withdrawn}) || v.outcome(&s, "x", time.Time{}).Why != "interrupted" {
			t.Errorf("%+v: got %+v", row, v)
		}
	}
}

// A cluster lists one reason for all waiting tasks of an array. While the run holds some of them, the
// others do not count as held.
func TestReasonOfTasksBesideHeldOnes(t *testing.T) {
	for marks, want := range map[string]string{"h ": "Resources", "  ": "Resources,Held"} {
		s := &submit{job: "7", marks: []byte(marks), rows: []Row{{Last: 1, State: Pending, Mixed: true, Reason: "Resources,Held", Unheld: "Resources"}}}
		e := &entry{submit: s, n: 1}
		c := &Cluster{dialect: plain{}, out: engine.NewMailbox[engine.Event]()}
		if c.updateEntry(e, true); e.shown.Reason != want {
			t.Errorf("marks %q: waits for %q, want %q", marks, e.shown.Reason, want)
		}
	}
}
