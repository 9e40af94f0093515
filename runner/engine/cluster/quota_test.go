package cluster

import (
	"testing"
	"time"

	"gpurun/runner/engine"
)

// What others have counts, what is over does not, and this run's own tasks count once: by what
// it has submitted, which may not be listed yet.
func TestQuota(t *testing.T) {
	q := quota{most: 10}
	rows := []Row{
		{Name: "mine", Rest: true, State: Pending, GPUs: 2},
		{Name: "gr-a-0000000a", First: 0, Last: 2, State: Pending, GPUs: 1},
		{Name: "gr-b-0000000b", State: Active, GPUs: 1}, // another run's
		{Name: "over", State: Completed, GPUs: 8},
	}
	q.learn(rows, map[string]bool{"0000000a 0": true, "0000000a 2": true})
	if q.others != 4 {
		t.Errorf("others have %d, want 4", q.others)
	}
	for _, tt := range []struct{ submitted, gpus, want int }{{0, 1, 6}, {0, 4, 1}, {4, 2, 1}, {5, 2, 0}, {9, 1, 0}} {
		if got := q.room(tt.submitted, tt.gpus); got != tt.want {
			t.Errorf("%d submitted: room for %d of %d GPUs, want %d", tt.submitted, got, tt.gpus, tt.want)
		}
	}
}

// Without a fresh list nothing is submitted, and one is asked for; a full cluster is not asked
// all the time.
func TestWithin(t *testing.T) {
	c := &Cluster{live: map[string]*entry{"u": {}}, queue: []*engine.Launch{{Ask: &engine.Ask{GPUs: 2}}}, out: engine.NewMailbox[engine.Event](), dialect: named{name: "x"}}
	c.queue[0].UniID = "u"
	if c.within(3, 2) != 3 {
		t.Error("without a quota something was held back")
	}
	c.quota.most = 4
	if c.within(3, 2) != 0 || !c.unclear {
		t.Error("it was submitted without a list")
	}
	c.quota.learn(nil, nil)
	if n := c.within(3, 2); n != 2 {
		t.Errorf("%d were submitted, want 2", n)
	}
	c.quota.others, c.unclear = 3, false
	if c.within(3, 2) != 0 || c.live["u"].shown.Reason != "your jobs on x ask for 3 GPUs and cluster.max_gpus_total is 4" {
		t.Errorf("shown as %+v", c.live["u"].shown)
	}
	c.quota.heard = time.Now().Add(-time.Minute)
	if c.within(3, 2) != 0 || c.unclear {
		t.Error("a full cluster is asked again at once")
	}
}

// named is a cluster that only has a name, and one for the GPUs of a job.
type named struct {
	Dialect
	name, grants string
}

func (n named) Name() string                     { return n.name }
func (n named) Granted(map[string]string) string { return n.grants }
