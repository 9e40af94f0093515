package cluster

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
)

// A submission that is being prepared, or may still be in progress, must never count as forgotten
// by the cluster.
func TestSubmissionInProgressIsNotForgotten(t *testing.T) {
	s := &submit{dir: t.TempDir(), busy: true}
	if !s.isCalling() {
		t.Error("a submission being prepared does not count as in progress")
	}
	s.busy = false
	if s.isCalling() {
		t.Error("a submission without files counts as in progress")
	}
	if err := write(filepath.Join(s.dir, callingFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.isCalling() {
		t.Error("a submission with an unlocked file counts as in progress")
	}
	f, err := os.OpenFile(filepath.Join(s.dir, callingFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if !s.isCalling() {
		t.Error("a submission with a locked file does not count as in progress")
	}
}

// The record of an earlier launch does not count as the end of a launch that is being prepared.
func TestOldRecordDoesNotEndPreparingLaunch(t *testing.T) {
	s, batch := prepared(t, 1)
	old := (&wire.Record{State: wire.StateOver, UniID: batch[0].UniID, End: state.End{Started: time.Now(), At: time.Now()}}).Encode()
	if err := overwrite(filepath.Join(batch[0].Dir, wire.StatusFile), 0, old); err != nil {
		t.Fatal(err)
	}
	s.preparing, s.busy = true, true
	e := &entry{Identity: batch[0].Identity}
	e.assign(s, 0)
	c := &Cluster{dialect: plain{}, submits: map[string]*submit{}, live: map[string]*entry{e.UniID: e}, out: engine.NewMailbox[engine.Event]()}
	if c.look(); c.live[e.UniID] == nil {
		t.Error("the launch ended before it was submitted")
	}
	s.preparing = false
	if c.look(); c.live[e.UniID] != nil {
		t.Error("the launch has not ended although it has a record")
	}
}

// Until a list is known to be newer than a submission, the submission's tasks are not missing.
func TestTasksAreNotMissingBeforeALaterList(t *testing.T) {
	c := &Cluster{submits: map[string]*submit{}, live: map[string]*entry{}}
	s := &submit{id: "1", busy: true, dir: t.TempDir()}
	e := &entry{submit: s}
	e.UniID = "u"
	c.submits["1"], c.live["u"] = s, e
	for range 5 {
		c.updateEntry(e, s.job != "" || !s.isCalling())
	}
	if e.missed != 0 {
		t.Errorf("missing from %d lists requested during its submission, want 0", e.missed)
	}
	s.busy = false
	c.updateEntry(e, s.job != "" || !s.isCalling())
	if e.missed != 1 {
		t.Errorf("missing from %d lists, want 1", e.missed)
	}
}

type keeping struct {
	Dialect
	is bool
}

func (k keeping) Traits(map[string]string) Traits { return Traits{Keeps: k.is} }

// Some sites cache lists, so a list without a new submission does not mean that the submission is
// gone. After the first list with any of its tasks, or once a task has begun, lists count
// immediately.
func TestLaggingListsDoNotLoseSubmission(t *testing.T) {
	for name, tt := range map[string]struct {
		s     submit
		task  *task
		keeps bool
		want  int
	}{
		"accepted, never listed":       {s: submit{job: "7"}, want: 1},
		"listed before":                {s: submit{job: "7", shown: true}, want: 3},
		"begun":                        {s: submit{job: "7"}, task: &task{}, want: 3},
		"not known whether it reached": {want: 3},
		"a cluster with accounts":      {s: submit{job: "7"}, keeps: true, want: 3},
	} {
		c, e := &Cluster{dialect: keeping{is: tt.keeps}}, &entry{submit: &tt.s, task: tt.task}
		for range 3 {
			c.updateEntry(e, true)
		}
		if e.missed != tt.want {
			t.Errorf("%s: missing from %d lists, want %d", name, e.missed, tt.want)
		}
		e.missing = time.Now().Add(-listLag)
		if c.updateEntry(e, true); e.missed < goneAfter {
			t.Errorf("%s: still not gone after %v", name, listLag)
		}
	}
}

// The keeper of a suspended attempt may be suspended, too, so its silence counts from the last list
// with that state. The time an attempt has been listed as running restarts when a list lacks it.
func TestSuspendedKeeperIsNotDead(t *testing.T) {
	s := &submit{id: "1"}
	c, e := &Cluster{submits: map[string]*submit{"1": s}, dialect: plain{}, out: engine.NewMailbox[engine.Event]()}, &entry{submit: s}
	list := func(rows ...Row) {
		s.rows = rows
		c.updateEntry(e, true)
	}
	ago := time.Now().Add(-time.Hour)
	e.beaten = ago
	if list(Row{State: Active, Node: "n"}); e.beaten != ago {
		t.Error("being listed counts as a heartbeat")
	}
	if list(Row{State: Active, Node: "n", Suspended: true}); time.Since(e.beaten) > deadAfter {
		t.Error("the silence before its suspension counts")
	}
	list(Row{State: Runs, Node: "n"})
	if e.runs = ago; e.row.State != Runs {
		t.Errorf("its row is %+v, want state Runs", e.row)
	}
	if list(Row{State: Runs, Node: "n"}); e.running < time.Hour {
		t.Errorf("listed as running for %v, want at least 1h", e.running)
	}
	list()
	if list(Row{State: Runs, Node: "n"}); e.running != 0 {
		t.Errorf("listed as running for %v after a list without it, want 0", e.running)
	}
}

// A run that was killed while creating an attempt's file has not submitted the attempt.
func TestTornAttemptFileWasNotSubmitted(t *testing.T) {
	_, batch := prepared(t, 1)
	whole, _ := readStatus(batch[0].Dir)
	for _, n := range []int{-1, 0, wire.StatusSize, placeFrom, placeFrom + 1, len(whole) - 1, len(whole)} {
		c, e := &Cluster{submits: map[string]*submit{"0badcafe": {}}}, &entry{shown: engine.Queued{JobID: "7"}}
		e.UniID, e.Dir = "u0", t.TempDir()
		if n >= 0 {
			if err := write(filepath.Join(e.Dir, wire.StatusFile), whole[:n], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if c.read(e); e.never != (n < len(whole)) || (e.submit == nil) != e.never || e.record != nil || e.task != nil {
			t.Errorf("with the first %d of %d bytes: got %+v", n, len(whole), e)
		}
	}
}

// A temporarily refused submission is retried less and less often, does not block jobs with other
// arguments, and is retried soon after a job has ended.
func TestRefusedSubmissionBacksOff(t *testing.T) {
	c := &Cluster{
		dialect: plain{}, live: map[string]*entry{}, refused: map[string]backoff{}, submits: map[string]*submit{}, most: arrayMost, largest: arrayMost,
		out: engine.NewMailbox[engine.Event](), outage: outage{wrong: map[string]string{}},
	}
	refuse := func(is Refusal, args string) {
		s, batch := prepared(t, 2)
		if is == Later {
			batch = batch[:1]
		}
		for i, l := range batch {
			c.live[l.UniID] = &entry{Identity: l.Identity}
			c.live[l.UniID].assign(s, i)
		}
		c.called(s, batch, []string{args}, is, "why")
	}
	for _, want := range []time.Duration{refusedPause, 2 * refusedPause, 4 * refusedPause, longestPause, longestPause} {
		if refuse(Later, "-p a"); c.refused["-p a"].pause != want || c.most != arrayMost {
			t.Errorf("pause %v, want %v; batches of up to %d, want %d", c.refused["-p a"].pause, want, c.most, arrayMost)
		}
	}
	if e := c.live["u0"]; e.shown.Reason != "plain accepts no more jobs like these now: why" || e.submit != nil {
		t.Errorf("shown as %+v", e.shown)
	}
	if refuse(Later, "-p b"); c.refused["-p b"].pause != refusedPause {
		t.Errorf("pause for other arguments: %v, want %v", c.refused["-p b"].pause, refusedPause)
	}
	if c.end(&entry{}, nil); time.Until(c.refused["-p a"].until) > refusedPause {
		t.Errorf("after a job ended, the next try is in %v, want at most %v", time.Until(c.refused["-p a"].until), refusedPause)
	}
	if refuse(Full, "-p c"); c.most != 1 || c.largest != arrayMost || c.refused["-p c"].pause != 0 {
		t.Errorf("after a batch of 2 was refused: batches of up to %d, want 1; arrays of up to %d, want %d; pause %v, want 0", c.most, c.largest, arrayMost, c.refused["-p c"].pause)
	}
	if refuse(Fewer, "-p c"); c.largest != 1 {
		t.Errorf("after an array of 2 was refused: arrays of up to %d, want 1", c.largest)
	}
}

// If a node has begun an attempt, the cluster has accepted its batch, even if it answered with a
// refusal. None of the batch is submitted again.
func TestBegunBatchIsNotResubmitted(t *testing.T) {
	for _, is := range []Refusal{Never, Fewer, Full, Later, Unreachable} {
		s, batch := prepared(t, 2)
		c := &Cluster{
			dialect: plain{}, live: map[string]*entry{}, refused: map[string]backoff{}, submits: map[string]*submit{s.id: s}, most: arrayMost, largest: arrayMost,
			out: engine.NewMailbox[engine.Event](),
		}
		c.outage.begin("submit")
		for i, l := range batch {
			e := &entry{Identity: l.Identity}
			e.assign(s, i)
			c.live[l.UniID] = e
		}
		if err := claim(batch[1].Dir, "node1 17_1"); err != nil {
			t.Fatal(err)
		}
		c.called(s, batch, []string{"-p a"}, is, "why")
		for i, l := range batch {
			if _, err := os.Stat(filepath.Join(l.Dir, wire.StatusFile)); err != nil || c.live[l.UniID] == nil || c.live[l.UniID].submit != s {
				t.Errorf("refusal %d: attempt %d has lost its submission or its file: %v", is, i, err)
			}
		}
		if len(c.queue) > 0 || !c.unclear {
			t.Errorf("refusal %d: %d attempts queued, want 0; unclear %v, want true", is, len(c.queue), c.unclear)
		}
	}
}

// If a controller hangs and lists fail repeatedly, gpurun reports the hang once, and its end once.
func TestHangIsReportedOnce(t *testing.T) {
	c := &Cluster{dialect: plain{}, out: engine.NewMailbox[engine.Event]()}
	for range 3 {
		c.outage.begin("list")
		c.outage.report(c)
		c.outage.began["list"] = time.Now().Add(-2 * lateAfter)
		c.outage.report(c)
		c.outage.done("list", errors.New("no controller"))
		c.outage.report(c)
	}
	c.outage.begin("list")
	c.outage.done("list", nil)
	c.outage.report(c)
	var said []string
	for _, ev := range c.out.Take() {
		said = append(said, strings.Join(*ev.Silent, "\n"))
	}
	if want := []string{"plain does not answer (list); running jobs continue", ""}; !slices.Equal(said, want) {
		t.Errorf("reported %q, want %q", said, want)
	}
}

// A scheduler may preempt a job before it begins, again and again, so it is submitted again after a
// growing pause. The pause restarts once the job has begun.
func TestJobPreemptedBeforeItBeganWaits(t *testing.T) {
	c := &Cluster{dialect: plain{}, live: map[string]*entry{}, displaced: map[string]backoff{}, out: engine.NewMailbox[engine.Event]()}
	for _, want := range []time.Duration{refusedPause, 2 * refusedPause, 4 * refusedPause, longestPause, longestPause} {
		s, batch := prepared(t, 1)
		s.job = "7"
		e := &entry{Identity: batch[0].Identity, row: Row{State: Preempted, Node: "n", Word: "PREEMPTED"}}
		e.assign(s, 0)
		c.live[e.UniID] = e
		if c.judge(e); c.live[e.UniID] != nil || c.displaced["j"].pause != want {
			t.Errorf("pause %v, want %v", c.displaced["j"].pause, want)
		}
		c.live[e.UniID], c.queue, c.out = &entry{Identity: e.Identity}, batch, engine.NewMailbox[engine.Event]()
		if again, _ := c.next(math.MaxInt); len(again) > 0 {
			t.Error("it is submitted again without a pause")
		}
		if said := c.out.Take(); len(said) != 1 || said[0].Queued == nil || !strings.Contains(said[0].Queued.Reason, "preempted") {
			t.Errorf("reported %+v, want why it waits", said)
		}
	}
	if c.noteStart(c.live["u0"]); c.displaced["j"].pause != 0 {
		t.Errorf("after it has begun, the pause is %v, want 0", c.displaced["j"].pause)
	}
}
