package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// plain is a dialect with tasks such as "17.3", and commands named after their effect.
type plain struct{ Dialect }

func (plain) Name() string                                    { return "plain" }
func (plain) Traits(map[string]string) Traits                 { return Traits{} }
func (plain) Answer(string, string) (string, Refusal, string) { return "", Unclear, "" }
func (plain) Task(job string, n int) string                   { return job + "." + strconv.Itoa(n) }
func (plain) ByHand(what []string) string                     { return "cancel " + strings.Join(what, " ") }

// A job without open attempts is cancelled by its own name, so one command covers thousands of
// tasks.
func TestWholeJobIsCancelledByOneName(t *testing.T) {
	over, open := &submit{id: "a", job: "17"}, &submit{id: "b", job: "18", open: 1}
	coming, unknown := &submit{id: "c", name: "gr-c", busy: true}, &submit{id: "d", name: "gr-d"}
	gone, refused := &submit{id: "e", name: "gr-e", gone: goneAfter}, &submit{id: "f", job: "19"}
	forgotten := &submit{id: "g", job: "20", open: 1, gone: goneAfter} // its ID may be another job's by now
	c := &Cluster{dialect: plain{}, cancels: cancellations{all: map[cancellation]bool{}}, submits: map[string]*submit{}}
	for _, s := range []*submit{over, open, coming, unknown, gone, refused, forgotten} {
		c.submits[s.id] = s
		for n := range 3 {
			c.requestCancel(s, n)
		}
	}
	c.requestCancel(open, anyTask)
	delete(c.submits, refused.id)
	for most, want := range map[int]string{1: "17", 2: "17 18.0", 9: "17 18.0 18.1 18.2"} {
		names, of := c.targets(most)
		if got := strings.Join(names, " "); got != want || len(of) != min(most+2, 6) {
			t.Errorf("at most %d: got %q for %d tasks, want %q", most, got, len(of), want)
		}
	}
	err := c.pendingCancels()
	if want := "13 jobs of this batch (no response yet): if they start, they exit immediately; to cancel them: cancel 17 18.0 18.1 18.2 gr-c gr-d"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want suffix %q", err, want)
	}
	if clear(c.cancels.all); c.pendingCancels() != nil {
		t.Error("pendingCancels returned an error without pending cancellations")
	}
	c.requestCancel(refused, 0)
	c.cancels.again, c.unclear = time.Time{}, true
	if c.cancel(); len(c.cancels.all) > 0 || !c.unclear {
		t.Error("cancel left a cancellation of a refused submission, or delayed the next list")
	}
}

// If an earlier run had more job files, some tasks of its arrays may now belong to another run.
// gpurun must not cancel such a task until its attempt is over.
func TestTasksOfOtherRunsAreKept(t *testing.T) {
	over := map[string]func(dir string) error{
		"void":             func(dir string) error { return claim(dir, voidMark) },
		"without a folder": os.RemoveAll,
		"ended": func(dir string) error {
			f, err := wire.OpenRecord(dir, state.Slot{})
			if err != nil {
				return err
			}
			defer f.Close()
			return (&wire.Record{State: wire.StateOver, UniID: filepath.Base(dir)}).Put(f)
		},
	}
	for how, end := range over {
		for _, rest := range []bool{false, true} {
			s, batch := prepared(t, 3)
			s.id, s.job, s.rows = "s", "17", []Row{{State: Active, First: 0, Last: 1}, {State: Pending, First: 2, Last: 2, Rest: rest}}
			c := &Cluster{dialect: plain{}, cancels: cancellations{all: map[cancellation]bool{}}, submits: map[string]*submit{"s": s}, live: map[string]*entry{}, out: engine.NewMailbox[engine.Event]()}
			e := &entry{Identity: batch[0].Identity}
			e.assign(s, 0)
			c.live[e.UniID] = e
			c.end(e, &state.End{}) // it belonged to this run
			swept := func() string {
				for range 2 {
					c.cancelStrays()
					for at := range c.strayTasks {
						c.strayTasks[at] = time.Now().Add(-2 * strayFor)
					}
				}
				names, _ := c.targets(9)
				return strings.Join(names, " ")
			}
			if got := swept(); got != "17.0" {
				t.Errorf("cancels %q, want 17.0, the only task of this run", got)
			}
			if err := end(batch[1].Dir); err != nil {
				t.Fatal(err)
			}
			if got := swept(); got != "17.0 17.1" {
				t.Errorf("%s: cancels %q, want 17.0 17.1, the tasks that are over", how, got)
			}
			if err := end(batch[2].Dir); err != nil {
				t.Fatal(err)
			}
			if got := swept(); got != "17" {
				t.Errorf("%s: cancels %q, want 17, the whole job", how, got)
			}
		}
	}
}
