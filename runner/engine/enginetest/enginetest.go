// Package enginetest has the conformance suite for engines.
package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine"
)

// An Opener opens an engine on a batch folder. It is called again on the same folder
// for a later run, whether or not the previous engine has been closed.
type Opener func(t *testing.T, dir string) engine.Engine

// patience is how long the suite waits for an expected event.
const patience = 20 * time.Second

// Run checks an engine against everything that package engine promises.
func Run(t *testing.T, open Opener) {
	groups := []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"Ends", testEnds},
		{"Start", testStart},
		{"Output", testOutput},
		{"Trees", testTrees},
		{"Leftovers", testLeftovers},
		{"Stops", testStops},
		{"Adoption", testAdoption},
		{"Many", testMany},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.run(t, open) })
	}
}

// A bench is an engine with its own folder, and the events received from it.
type bench struct {
	t      testing.TB
	dir    string // batch folder
	engine engine.Engine
	n      int
	heard  map[string][]engine.Event
	open   map[string]bool // known to be running
}

func newBench(t *testing.T, open Opener) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), heard: map[string][]engine.Event{}, open: map[string]bool{}}
	b.use(open(t, b.dir))
	return b
}

// use sets the engine and closes it at the end of the test, after ending whatever a
// failed test left running.
func (b *bench) use(e engine.Engine) {
	b.engine = e
	b.t.Cleanup(func() {
		for id := range b.open {
			e.Stop(id, "", engine.Kill)
		}
		for deadline := time.After(patience); e == b.engine && len(b.open) > 0; {
			select {
			case ev, ok := <-e.Events():
				if ev.Ended != nil || !ok {
					delete(b.open, ev.UniID)
				}
				if !ok {
					clear(b.open)
				}
			case <-deadline:
				clear(b.open)
			}
		}
		e.Close()
	})
}

// launch returns a complete launch of shell commands.
func (b *bench) launch(commands ...string) engine.Launch {
	b.t.Helper()
	b.n++
	id := fmt.Sprintf("%08d-%d-%s", b.n, os.Getpid(), strings.NewReplacer("/", "-", " ", "_").Replace(b.t.Name()))
	dir := filepath.Join(b.dir, "attempts", id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	log := filepath.Join(b.dir, "logs", id+".log")
	return engine.Launch{
		UniID: id, Job: "job", Attempt: 1, Dir: dir, Shell: []string{"/bin/sh", "-c"}, Commands: commands,
		Env:     []string{"PATH=" + os.Getenv("PATH"), "GPURUN_UNI_ID=" + id, "DIR=" + dir},
		WorkDir: dir, Stdout: log, Stderr: log, Grace: 10 * time.Second,
	}
}

// start launches and waits for Running.
func (b *bench) start(l engine.Launch) engine.Running {
	b.t.Helper()
	b.engine.Launch(l)
	for {
		ev := b.next(l.UniID)
		if ev.Running != nil {
			return *ev.Running
		}
		if ev.Ended != nil {
			b.t.Fatalf("ended before Running: %+v", *ev.Ended)
		}
	}
}

// background waits until an attempt continues in the background.
func (b *bench) background(uniID string) engine.Background {
	b.t.Helper()
	for {
		ev := b.next(uniID)
		if ev.Background != nil {
			return *ev.Background
		}
		if ev.Ended != nil {
			b.t.Fatalf("ended without continuing in the background: %+v", *ev.Ended)
		}
	}
}

// end waits for the end of an attempt.
func (b *bench) end(uniID string) engine.Ended {
	b.t.Helper()
	for {
		if ev := b.next(uniID); ev.Ended != nil {
			return *ev.Ended
		}
	}
}

// run launches and waits for the end.
func (b *bench) run(l engine.Launch) engine.Ended {
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
				b.t.Fatalf("the engine closed its event channel")
			}
			if ev.Stopping != nil {
				ev.Stopping.Ack()
			}
			if ev.Running != nil {
				b.open[ev.UniID] = true
			} else if ev.Ended != nil {
				delete(b.open, ev.UniID)
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

// log returns what an attempt has written.
func (b *bench) log(l engine.Launch) string {
	b.t.Helper()
	text, err := os.ReadFile(l.Stdout)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// outcome is the predictable part of an Ended.
type outcome struct {
	Exit     int
	Signal   string
	Why      string
	Lost     bool
	Void     bool
	Report   string
	LeftOver int
}

func short(e engine.Ended) outcome {
	return outcome{e.ExitCode, e.Signal, e.Why, e.Lost, e.Void, e.Report, e.LeftOver}
}

func (b *bench) expect(got engine.Ended, want outcome) {
	b.t.Helper()
	if s := short(got); s != want {
		b.t.Errorf("ended as %+v, want %+v (%s)", s, want, got.Err)
	}
}

// fifo creates the FIFO through which a job signals that it has reached the point the
// test waits for, so no test has to sleep.
func (b *bench) fifo(l engine.Launch) string {
	b.t.Helper()
	path := filepath.Join(l.Dir, "fifo")
	mkfifo(b.t, path)
	return path
}
