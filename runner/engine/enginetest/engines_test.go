// Package enginetest checks every engine against the promises of package engine.
package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/cluster"
	"gpurun/runner/engine/cluster/gridengine"
	"gpurun/runner/engine/cluster/slurm"
	"gpurun/runner/engine/local"
	"gpurun/runner/engine/local/keeper"
	"gpurun/state"
)

// kinds are the engines to check.
var kinds = map[string]engine.Kind{"local": local.Kind{}}

var clusters = cluster.Dialects{slurm.Dialect{}, gridengine.Dialect{}}

// TestMain lets the test binary act as a keeper, on this host and on a node. It adds the clusters
// named in GPURUN_ENGINES, which are those that "make engines" has started.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__task" {
		os.Exit(clusters.Task(os.Args[2:]))
	}
	for _, d := range clusters {
		if slices.Contains(strings.Fields(os.Getenv("GPURUN_ENGINES")), d.Name()) {
			kinds[d.Name()] = cluster.Kind{Dialect: d}
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "__keeper" {
		os.Exit(keeper.Main(os.Args[2:], keeper.Usual))
	}
	os.Exit(m.Run())
}

// patience is how long the suite waits for an expected event.
const patience = time.Minute

// A test checks one promise, on a bench shared with other tests.
type test struct {
	name  string
	check func(*bench)
}

func TestEngines(t *testing.T) {
	groups := []struct {
		name  string
		tests []test
	}{
		{"Commands", commands()},
		{"Logs", logs},
		{"Once", once},
		{"Trees", trees},
		{"Leftovers", leftovers()},
		{"Stops", stops()},
		{"Timeouts", timeouts()},
		{"Saving", saving},
		{"Adoption", adoption},
		{"Many", many},
	}
	for name, kind := range kinds {
		for _, g := range groups {
			t.Run(name+"/"+g.name, func(t *testing.T) {
				if g.name != "Many" { // which would fill a cluster and delay the other groups
					t.Parallel()
				}
				b := newBench(t, kind)
				for _, tt := range g.tests {
					t.Run(tt.name, func(t *testing.T) {
						b.t = t
						tt.check(b)
					})
				}
			})
		}
	}
}

// A bench is an engine with its own folder, and the events received from it.
type bench struct {
	t       *testing.T
	dir     string // batch folder
	kind    engine.Kind
	engine  engine.Opened
	n       int
	heard   map[string][]engine.Event
	running map[string]bool
}

func newBench(t *testing.T, kind engine.Kind) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), kind: kind, heard: map[string][]engine.Event{}, running: map[string]bool{}}
	b.open()
	return b
}

// open opens another engine. The test's cleanup ends leftover processes of a failed test and closes
// the engine.
func (b *bench) open() {
	b.t.Helper()
	e, err := b.kind.Open(engine.Config{Dir: b.dir, Cluster: engine.Cluster{Options: map[string]string{"poll": "2s"}}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.engine = e
	b.t.Cleanup(func() {
		for id := range b.running {
			e.Stop(id, "", engine.Kill)
		}
		for deadline := time.After(patience); e == b.engine && len(b.running) > 0; {
			select {
			case ev, ok := <-e.Events():
				if ev.Ended != nil {
					delete(b.running, ev.UniID)
				} else if !ok {
					clear(b.running)
				}
			case <-deadline:
				clear(b.running)
			}
		}
		e.Close()
	})
}

// launch returns a launch of shell commands, with all the files it needs.
func (b *bench) launch(commands ...string) engine.Launch {
	b.t.Helper()
	b.n++
	id := fmt.Sprintf("%08d-%d-%s", b.n, os.Getpid(), strings.NewReplacer("/", "-", " ", "_").Replace(b.t.Name()))
	dir := filepath.Join(b.dir, "attempts", id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	log := filepath.Join(b.dir, "logs", id+".log")
	own, slot := dir, state.Slot{}
	if !b.kind.Abilities().Places {
		own, slot = dir+".own", state.Slot{Journal: filepath.Join(b.dir, "attempts", "run"+state.JournalSuffix), N: b.n}
		f, err := os.OpenFile(slot.Journal, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			b.t.Fatal(err)
		}
		f.Close()
	}
	return engine.Launch{
		Identity: engine.Identity{UniID: id, Job: "job", Dir: own, Grace: 10 * time.Second},
		Command: engine.Command{
			Shell: []string{"/bin/sh", "-c"}, Commands: commands, WorkDir: dir,
			Env: []string{"PATH=" + os.Getenv("PATH"), "GPURUN_UNI_ID=" + id, "DIR=" + dir},
		},
		Output: engine.Output{Stdout: log, Stderr: log}, Attempt: 1, Slot: slot,
	}
}

// start launches an attempt and waits for Running.
func (b *bench) start(l engine.Launch) engine.Running {
	b.t.Helper()
	b.engine.Launch(l)
	return *b.until(l.UniID, func(ev engine.Event) bool { return ev.Running != nil }).Running
}

// background waits until an attempt continues in the background.
func (b *bench) background(uniID string) engine.Background {
	b.t.Helper()
	return *b.until(uniID, func(ev engine.Event) bool { return ev.Background != nil }).Background
}

// announced waits for Stopping, if the engine sends it.
func (b *bench) announced(uniID, why string) {
	b.t.Helper()
	if b.engine.Trees == nil {
		return
	}
	if ev := b.next(uniID); ev.Stopping == nil || ev.Stopping.Why != why {
		b.t.Fatalf("got %+v, want Stopping with reason %q", ev, why)
	}
}

// trees returns the engine's Trees. It skips the test if the engine's processes run elsewhere.
func (b *bench) trees() engine.Trees {
	b.t.Helper()
	if b.engine.Trees == nil {
		b.t.Skip("needs an engine with processes on this host")
	}
	return b.engine.Trees
}

// end waits for the end of an attempt.
func (b *bench) end(uniID string) state.End {
	b.t.Helper()
	return *b.until(uniID, func(ev engine.Event) bool { return ev.Ended != nil }).Ended
}

// until waits for an event of an attempt. The attempt must not end before.
func (b *bench) until(uniID string, is func(engine.Event) bool) engine.Event {
	b.t.Helper()
	for {
		ev := b.next(uniID)
		if is(ev) {
			return ev
		}
		if ev.Ended != nil {
			b.t.Fatalf("the attempt ended before the expected event: %+v", *ev.Ended)
		}
	}
}

// run launches an attempt and waits for its end.
func (b *bench) run(l engine.Launch) state.End {
	b.t.Helper()
	b.engine.Launch(l)
	return b.end(l.UniID)
}

// next returns the next event of one attempt, acknowledging any Stopping.
func (b *bench) next(uniID string) engine.Event {
	b.t.Helper()
	deadline := time.After(patience)
	for len(b.heard[uniID]) == 0 {
		select {
		case ev, ok := <-b.engine.Events():
			if !ok {
				b.t.Fatalf("the engine has closed its events")
			}
			if ev.Stopping != nil {
				ev.Stopping.Ack()
			}
			if ev.Running != nil && ev.Ended != nil { // split, because callers wait for one or the other
				b.heard[ev.UniID] = append(b.heard[ev.UniID], engine.Event{UniID: ev.UniID, Running: ev.Running})
				ev.Running = nil
			}
			if ev.Running != nil {
				b.running[ev.UniID] = true
			} else if ev.Ended != nil {
				delete(b.running, ev.UniID)
			}
			if ev.Queued != nil && b.kind.Abilities().Queues {
				continue // the number of these events depends on the cluster
			}
			b.heard[ev.UniID] = append(b.heard[ev.UniID], ev)
		case <-deadline:
			b.t.Fatalf("no event of %s within %v", uniID, patience)
		}
	}
	ev := b.heard[uniID][0]
	b.heard[uniID] = b.heard[uniID][1:]
	return ev
}

// logged checks the output of an attempt.
func (b *bench) logged(l engine.Launch, want string) {
	b.t.Helper()
	b.contains(l.Stdout, want)
}

func (b *bench) contains(path, want string) {
	b.t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		b.t.Errorf("%s is %q, %v; want %q", path, text, err, want)
	}
}

// write creates a file, or writes to a FIFO once a job reads it.
func (b *bench) write(path, text string) {
	b.t.Helper()
	defer time.AfterFunc(patience, func() {
		b.t.Errorf("no job reads %s within %v", path, patience)
		_, _ = os.OpenFile(path, os.O_RDWR, 0) // releases the writer
	}).Stop()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// goOn releases a job that reads a line from its FIFO.
func (b *bench) goOn(l engine.Launch) {
	b.t.Helper()
	b.write(filepath.Join(l.WorkDir, "fifo"), "go\n")
}

// outcome is the predictable part of a state.End.
type outcome struct {
	Exit     int
	Signal   string
	Why      string
	Lost     bool
	Void     bool
	Report   string
	LeftOver int
	Aside    bool
}

func short(e state.End) outcome {
	return outcome{e.ExitCode, e.Signal, e.Why, e.Lost, e.Void, e.Report, e.LeftOver, e.Aside}
}

func (b *bench) expect(got state.End, want outcome) {
	b.t.Helper()
	if s := short(got); s != want {
		b.t.Errorf("ended as %+v, want %+v (%s)", s, want, got.Err)
	}
}

// fifo creates the FIFO through which a test and its job wait for each other without sleeping.
func (b *bench) fifo(l engine.Launch) string {
	b.t.Helper()
	path := filepath.Join(l.WorkDir, "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}
