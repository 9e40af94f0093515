package state

import (
	"testing"
	"time"

	"gpurun/gpu"
)

func TestGPUTimeSinceLeavesOutEarlierTime(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	total := GPUTime{}
	total.Add([]gpu.UUID{"a", "b"}, at(10), at(20))
	total.Add([]gpu.UUID{"a"}, at(30), at(40))
	for since, want := range map[int64]float64{5: 30, 15: 20, 20: 10, 35: 5, 40: 0} {
		if got := total.Since(at(since)).Seconds(); got != want {
			t.Errorf("since %d: %v s, want %v", since, got, want)
		}
	}
}

func TestSharedGPUTimeCountsOnce(t *testing.T) {
	one, both := []gpu.UUID{"a"}, []gpu.UUID{"a", "b"}
	type stay struct {
		ids      []gpu.UUID
		from, to int // minutes
	}
	for _, c := range []struct {
		name  string
		stays []stay
		want  int
	}{
		{"none", nil, 0},
		{"job without GPUs", []stay{{nil, 0, 9}}, 0},
		{"two GPUs", []stay{{both, 0, 9}}, 18},
		{"one after another", []stay{{one, 0, 3}, {one, 3, 6}, {one, 8, 9}}, 7},
		{"three that share a GPU", []stay{{one, 0, 60}, {one, 150, 180}, {both, 30, 240}}, 240 + 210},
		{"within another", []stay{{one, 3, 4}, {one, 0, 9}, {one, 5, 6}}, 9},
		{"reported late", []stay{{one, 50, 60}, {one, 0, 10}, {one, 20, 30}}, 30},
		{"joins two others", []stay{{one, 0, 10}, {one, 20, 30}, {one, 40, 50}, {one, 5, 25}}, 40},
		{"the clock went back", []stay{{one, 10, 5}, {one, 10, 12}}, 2},
	} {
		total := GPUTime{}
		for _, s := range c.stays {
			at := func(minute int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(minute) * time.Minute) }
			total.Add(s.ids, at(s.from), at(s.to))
		}
		if got := int(total.Total().Minutes()); got != c.want {
			t.Errorf("%s: %d minutes, want %d", c.name, got, c.want)
		}
	}
}

// Earlier versions recorded how long an attempt on a cluster ran, but not when the attempt began.
func TestGPUTimeOfLedgerWithoutBegan(t *testing.T) {
	at := time.Unix(1e9, 0)
	total := GPUTime{}
	total.AddAttempt(&Fact{Time: at}, &Fact{Time: at.Add(time.Hour), Host: "node1", GPUUUIDs: []gpu.UUID{"a"}, Seconds: 60})
	if got := total.Total(); got != time.Minute {
		t.Errorf("got %v, want 1m", got)
	}
	if got := (&Fact{Time: at, Seconds: 60}).BeganAt(); !got.IsZero() {
		t.Errorf("an attempt without start began at %v", got)
	}
}
