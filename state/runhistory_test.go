package state

import (
	"reflect"
	"testing"
	"time"

	"gpurun/gpu"
)

func TestRunHistoryOfSeveralLedgers(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000, 0).Add(time.Duration(s) * time.Second) }
	code := 1
	var a RunHistory
	seq := int64(0)
	add := func(ledger int, f Fact) {
		seq++
		a.Add(ledger, seq, f)
	}
	start := func(uni, job string, s int, ids ...gpu.UUID) Fact {
		return Fact{Kind: KindStart, Time: at(s), Job: job, Key: job, UniID: uni, Attempt: 1, GPUUUIDs: ids}
	}
	end := func(uni string, s int, p Phase) Fact { return Fact{Kind: KindEnd, Time: at(s), UniID: uni, State: p} }
	add(0, Fact{Kind: KindRun, Time: at(0)}) // killed while b runs
	add(0, start("a1", "a", 1, "GPU-0"))
	add(0, start("b1", "b", 2, "GPU-0"))
	add(0, end("a1", 11, Failed))
	add(0, start("a2", "a", 12, "GPU-0"))
	add(0, end("a2", 14, Succeeded))
	add(0, Fact{Kind: KindRun, Time: at(60)}) // has two files
	add(0, end("b1", 22, Lost))
	b2 := start("b2", "b", 61)
	b2.Lost = []Loss{{gpu.Claimed, "bob", 5}}
	add(0, b2)
	add(0, Fact{Kind: KindOver, Time: at(90), ExitCode: &code, Why: "jobs failed", Lost: []Loss{{gpu.Claimed, "bob", 2}, {gpu.Busy, "eve", 1}}})
	add(0, Fact{Kind: KindEnd, Time: at(95), Job: "c", Key: "c", State: Succeeded, By: ByDone})
	add(1, Fact{Kind: KindRun, Time: at(60).Add(time.Millisecond)})
	add(1, start("x1", "x", 63))
	add(1, end("x1", 64, Succeeded))
	a.Close()

	if len(a.Runs) != 2 {
		t.Fatalf("%d runs, want 2", len(a.Runs))
	}
	one, two := a.Runs[0], a.Runs[1]
	if one.Over.Kind != "" || !one.Last.Equal(at(14)) || one.Starts != 3 || one.Retries != 1 {
		t.Errorf("first run: got %+v", one)
	}
	if two.Over.Why != "jobs failed" || two.Starts != 2 || two.Retries != 1 || !two.Last.Equal(at(95)) {
		t.Errorf("second run: got %+v", two)
	}
	if len(two.Lost) != 2 || two.Lost[0] != (Loss{gpu.Claimed, "bob", 7}) {
		t.Errorf("second run lost %v, want the losses of all its facts added up", two.Lost)
	}
	var got []string
	for _, x := range a.Attempts {
		got = append(got, x.UniID)
	}
	if want := "[a1 a2 b1 x1 b2]"; len(got) != 5 || "["+got[0]+" "+got[1]+" "+got[2]+" "+got[3]+" "+got[4]+"]" != want {
		t.Errorf("attempts %v, want %s", got, want)
	}
	if b := a.Attempts[2]; b.Began != one || b.Recorded != two || b.Job != "b" {
		t.Errorf("attempt that the second run reattached to: got %+v", b)
	}
	if open := a.Attempts[4]; open.Open == nil || open.Job != "b" {
		t.Errorf("open attempt: got %+v", open)
	}
	if got := GPUSeconds(a.Attempts); got != 21 { // from 1 to 22: a and b share the GPU
		t.Errorf("%v GPU seconds, want 21", got)
	}
}

// Stalled time ends when the job resumes or a run reattaches to it.
func TestHoldingOfAStalledSuccess(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	var a RunHistory
	for i, f := range []Fact{
		{Kind: KindRun, Time: at(0)}, {Kind: KindStart, Time: at(1), UniID: "a", GPUUUIDs: []gpu.UUID{"GPU-0"}},
		{Kind: KindStalled, Time: at(10), UniID: "a"}, {Kind: KindResumed, Time: at(20), UniID: "a"}, {Kind: KindStalled, Time: at(30), UniID: "a"},
		{Kind: KindRun, Time: at(40)}, {Kind: KindResumed, Time: at(45), UniID: "a"}, {Kind: KindEnd, Time: at(50), UniID: "a", State: Succeeded},
	} {
		a.Add(0, int64(i), f)
	}
	a.Close()
	want := GPUHolding{From: at(1).UnixNano(), To: at(50).UnixNano(), GPUs: []gpu.UUID{"GPU-0"}, Kind: UseUseful}
	for _, s := range []int{10, 20, 30, 40} {
		want.Stalled = append(want.Stalled, at(s).UnixNano())
	}
	if got := a.Attempts[0].Holding(at(99)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
