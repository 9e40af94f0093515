package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine"
)

// Other jobs count unless they have ended. This run's own tasks count once, even if they are not
// listed yet.
func TestQuotaCountsOtherJobs(t *testing.T) {
	q := quota{most: 10}
	rows := []Row{
		{Name: "mine", Rest: true, State: Pending, GPUs: 2},
		{Name: "gr-a-0000000a", First: 0, Last: 2, State: Pending, GPUs: 1},
		{Name: "gr-b-0000000b", State: Active, GPUs: 1}, // a task of another run
		{Name: "over", State: Completed, GPUs: 8},
	}
	q.update(rows, func(id string, n int) bool { return id == "0000000a" && n != 1 }, time.Time{})
	if q.others != 4 {
		t.Errorf("other jobs request %d GPUs, want 4", q.others)
	}
	for _, tt := range []struct{ submitted, gpus, want int }{{0, 1, 6}, {0, 4, 1}, {4, 2, 1}, {5, 2, 0}, {9, 1, 0}} {
		if got := q.room(tt.submitted, tt.gpus); got != tt.want {
			t.Errorf("%d GPUs submitted: room for %d attempts with %d GPUs each, want %d", tt.submitted, got, tt.gpus, tt.want)
		}
	}
}

// A run submits only after a list that it requested under the lock. If the cluster is full, lists
// stay rare and other runs get the lock.
func TestSubmitNeedsListTakenUnderLock(t *testing.T) {
	open := func() *os.File {
		f, err := os.OpenFile(filepath.Join(t.TempDir(), "../lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	other := open() // another run's lock
	c := &Cluster{live: map[string]*entry{"u": {}}, queue: []*engine.Launch{{Request: &engine.Request{GPUs: 2}}}, out: engine.NewMailbox[engine.Event](), dialect: named{name: "x"}}
	c.queue[0].UniID, c.Lock = "u", open()
	if c.within(3, 2) != 3 {
		t.Error("attempts were held back without a quota")
	}
	c.quota.most = 4
	var others quota
	if !others.lock(other) || c.within(3, 2) != 0 || c.unclear {
		t.Error("it did not wait for the other run's lock, or requested a list without the lock")
	}
	c.quota.barred = time.Now().Add(-2 * lateAfter)
	if c.within(3, 2); !strings.Contains(c.live["u"].shown.Reason, "holds the lock of cluster.max_gpus_total") {
		t.Errorf("while another run keeps the lock, shown as %+v", c.live["u"].shown)
	}
	others.unlock(other)
	c.quota.update(nil, nil, time.Now()) // requested before it took the lock
	if c.within(3, 2) != 0 || !c.unclear || !c.quota.awaits {
		t.Error("it did not wait for a list taken under the lock")
	}
	if others.lock(other) {
		t.Error("two runs have the lock")
	}
	c.quota.update(nil, nil, time.Now())
	if n := c.within(3, 2); n != 2 || c.quota.awaits {
		t.Errorf("%d may be submitted, want 2; awaits a list: %v, want false", n, c.quota.awaits)
	}
	full := []Row{{Name: "other", Rest: true, State: Pending, GPUs: 3}}
	c.unclear = false
	c.quota.update(full, nil, time.Now())
	if c.within(3, 2) != 0 || c.live["u"].shown.Reason != "your jobs on x already request 3 GPUs, and cluster.max_gpus_total is 4" {
		t.Errorf("shown as %+v", c.live["u"].shown)
	}
	c.quota.unlock(c.Lock)
	c.quota.update(full, nil, time.Now())
	if c.within(3, 2) != 0 || c.unclear || !others.lock(other) {
		t.Error("with a full cluster, it submitted, requested another list immediately, or took the lock again")
	}
	others.unlock(other)
	if c.quota.update(nil, nil, time.Now()); c.within(3, 2) != 0 || !c.unclear {
		t.Error("with room in the cluster, it did not request a list under the lock")
	}
}

// Jobs that fit into the quota overtake one that does not until its patience is over. The quota does
// not limit jobs without GPUs.
func TestSmallerJobsOvertake(t *testing.T) {
	const full, first = ": your jobs on x already request 4 GPUs, and cluster.max_gpus_total is 6", ": a goes first: it needs 3 GPUs, and cluster.max_gpus_total is 6"
	for _, tt := range []struct {
		patience time.Duration
		others   int // GPUs of other runs; this run has the rest of 4
		want     []string
	}{
		{time.Hour, 3, []string{"a" + full, "e" + full}},
		{0, 3, []string{"a" + full, "b" + first, "d" + first, "e" + full}},
		{0, 4, []string{"a" + full, "e" + full}}, // keeping GPUs of this run would not make room for a
	} {
		c := &Cluster{
			Config:  engine.Config{Go: func(func()) {}, Cluster: engine.Cluster{Patience: tt.patience}},
			dialect: named{name: "x"}, live: map[string]*entry{}, submits: map[string]*submit{}, most: arrayMost,
			out: engine.NewMailbox[engine.Event](), post: engine.NewMailbox[func()](), steering: steering{limits: limits{gpus: -1}},
		}
		c.quota.most, c.quota.others = 6, tt.others
		c.live["running"] = &entry{gpus: 4 - tt.others, submit: &submit{}}
		for i, gpus := range []int{3, 1, 0, 1, 3} {
			l := &engine.Launch{Request: &engine.Request{GPUs: gpus}}
			l.UniID = string(rune('a' + i))
			l.Job = l.UniID
			c.live[l.UniID], c.queue = &entry{gpus: gpus}, append(c.queue, l)
		}
		for range 3 { // a call takes the lock and waits for a list, or submits
			c.submitNext()
			c.calling, c.quota.heard = false, time.Now().Add(time.Hour)
		}
		var left []string
		for _, l := range c.queue {
			left = append(left, l.UniID+": "+c.live[l.UniID].shown.Reason)
		}
		if !slices.Equal(left, tt.want) {
			t.Errorf("with a patience of %v and %d GPUs of other runs, still in the queue: %q, want %q", tt.patience, tt.others, left, tt.want)
		}
	}
}

// named is a dialect with only a name, and a variable for a job's GPUs.
type named struct {
	Dialect
	name, grants string
}

func (n named) Name() string                      { return n.name }
func (named) Args(r JobRequest) ([]string, error) { return []string{strconv.Itoa(r.GPUs)}, nil }
func (n named) Traits(map[string]string) Traits   { return Traits{Granted: n.grants} }
