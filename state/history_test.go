package state

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"gpurun/gpu"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at returns f with its time set to sec seconds after t0.
func at(sec int, f Fact) Fact {
	f.Time = t0.Add(time.Duration(sec) * time.Second)
	return f
}

func started(key, job, uni string) Fact {
	return Fact{Kind: KindStart, Key: key, Job: job, UniID: uni, Attempt: 1, Commands: []string{"true"}, Needs: "n", GPUs: []int{0}}
}

func ended(uni string, p Phase) Fact { return Fact{Kind: KindEnd, UniID: uni, State: p} }

func fold(facts ...Fact) *History {
	h := NewHistory()
	for i, f := range facts {
		h.Apply(0, at(i, f))
	}
	return h
}

// An attempt withdrawn from a cluster's queue leaves its job unchanged. If the attempt had begun,
// it counts as interrupted.
func TestWithdrawnAttemptLeavesJobUnchanged(t *testing.T) {
	for began, want := range map[bool]Phase{false: Failed, true: Interrupted} {
		again, end := started("k", "train", "u2"), ended("u2", Interrupted)
		again.Engine, end.Why = "slurm", WhyInterrupted
		if began {
			end.Began = t0
		}
		h := fold(started("k", "train", "u1"), ended("u1", Failed), again, end)
		if r := h.Of(0, "k"); len(h.Open) != 0 || r.State != want {
			t.Errorf("began %v: got %+v, want %s", began, r, want)
		}
	}
}

func TestHistoryKeepsTheLastEnd(t *testing.T) {
	h := fold(
		started("k", "train", "u1"),
		Fact{Kind: KindRunning, UniID: "u1", PID: 7, PIDStart: 9},
		Fact{Kind: KindStop, UniID: "u1", Why: WhyLeftOver},
		Fact{Kind: KindStop, UniID: "u1", Why: WhyTimeout},
		Fact{Kind: KindStop, UniID: "u1", Why: WhyCancelled},
	)
	a := h.Open["u1"]
	if a == nil || a.Running.PID != 7 || a.Stop != WhyTimeout || a.Seq != 1 {
		t.Fatalf("got %+v, want an open attempt with PID 7 that timed out", a)
	}
	h.Apply(0, at(5, ended("u1", Failed)))
	if len(h.Open) != 0 || h.Of(0, "k").State != Failed || h.Of(0, "k").Commands == nil {
		t.Fatalf("got %+v, want a failed end with its commands", h.Of(0, "k"))
	}
	h.Apply(0, at(6, started("k", "train", "u2")))
	if h.Of(0, "k").UniID != "u1" {
		t.Fatal("a start replaced the last end")
	}
	h.Apply(0, at(7, ended("u2", Succeeded)))
	want := &Record{
		Fact: Fact{
			Kind: KindEnd, Time: t0.Add(7 * time.Second), Key: "k", Job: "train", State: Succeeded, UniID: "u2", Attempt: 1,
			Needs: "n", GPUs: []int{0},
		},
		Start: t0.Add(6 * time.Second), StartSeq: 7, EndSeq: 8,
	}
	if got := h.Of(0, "k"); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestForgetInvalidatesTheLastSuccess(t *testing.T) {
	h := fold(
		Fact{Kind: KindEnd, Key: "k", Job: "train", State: Succeeded, By: "done"},
		Fact{Kind: KindForget, Key: "other"},
	)
	if r := h.Of(0, "k"); r == nil || r.By != "done" || r.StartSeq != 0 || r.Forgotten {
		t.Fatalf("got %+v, want a success by done", r)
	}
	h.Apply(0, Fact{Kind: KindForget, Key: "k"})
	if !h.Of(0, "k").Forgotten {
		t.Fatal("the success was not forgotten")
	}
	h.Apply(0, Fact{Kind: KindEnd, Key: "k", State: Succeeded, By: "done"})
	if h.Of(0, "k").Forgotten {
		t.Fatal("an end after a forget counts as forgotten")
	}
}

func TestSameKeyInTwoLedgersIsSeparate(t *testing.T) {
	h := NewHistory()
	h.Apply(0, ended2("k", "a", Succeeded))
	h.Apply(1, ended2("k", "b", Failed))
	h.Apply(1, Fact{Kind: KindForget, Key: "k"})
	if got := h.Of(0, "k"); got == nil || got.Job != "a" || got.Forgotten {
		t.Errorf("got %+v for file 0, want a", got)
	}
	if got := h.Of(1, "k"); got == nil || got.Job != "b" || !got.Forgotten {
		t.Errorf("got %+v for file 1, want b, forgotten", got)
	}
	if got := h.Of(2, "k"); got != nil {
		t.Errorf("got %+v for file 2, want nothing", got)
	}
}

func ended2(key, job string, p Phase) Fact {
	return Fact{Kind: KindEnd, Key: key, Job: job, State: p}
}

func TestNamedReturnsTheNewestRecord(t *testing.T) {
	h := fold(ended2("k1", "train", Succeeded), ended2("k2", "train", Failed), ended2("k3", "eval", Failed))
	if got := h.Named(0, "train"); got == nil || got.Key != "k2" {
		t.Errorf("got %+v, want the newer of the two", got)
	}
	h.Apply(0, ended2("k4", "train", Failed))
	if got := h.Named(0, "train"); got.Key != "k4" {
		t.Errorf("got %+v, want the record added after the index was built", got)
	}
	if got := h.Named(1, "train"); got != nil {
		t.Errorf("got %+v, want nothing from another ledger", got)
	}
}

func TestNewerThanComparesEndWithStart(t *testing.T) {
	h := fold(started("need", "need", "u1"), started("job", "job", "u2"), ended("u2", Succeeded), ended("u1", Succeeded))
	need, job := h.Of(0, "need"), h.Of(0, "job")
	if !need.NewerThan(job) {
		t.Error("a need that ended in a later line does not count as newer")
	}
	h = fold(started("need", "need", "u1"), ended("u1", Succeeded), started("job", "job", "u2"), ended("u2", Succeeded))
	need, job = h.Of(0, "need"), h.Of(0, "job")
	need.Time = need.Time.Add(time.Hour)
	if need.NewerThan(job) {
		t.Error("within one ledger, line order must count, not the clock")
	}
	need.Ledger = 1
	if !need.NewerThan(job) {
		t.Error("between ledgers, time must count")
	}
}

func TestConfirmedSuccessIsAsOldAsItWas(t *testing.T) {
	mark := func(last *Record) Fact {
		f := Fact{Kind: KindEnd, Key: "need", Time: t0.Add(time.Hour), State: Succeeded, By: ByDoneWithout}
		f.Confirm(last)
		return f
	}
	h := fold(started("need", "need", "u1"), ended("u1", Succeeded), started("job", "job", "u2"), ended("u2", Succeeded))
	job := h.Of(0, "job")
	for range 2 { // the second mark confirms the first one
		if h.Apply(0, mark(h.Of(0, "need"))); h.Of(0, "need").NewerThan(job) {
			t.Error("the mark counts as newer than the success that it confirms")
		}
	}
	h.Apply(0, ended2("need", "need", Failed))
	if h.Apply(0, mark(h.Of(0, "need"))); !h.Of(0, "need").NewerThan(job) {
		t.Error("a mark after a failure counts as old")
	}
}

func TestAttemptsAreInStartOrder(t *testing.T) {
	h := NewHistory()
	for i := range 50 {
		h.Apply(0, started(fmt.Sprint(i), "j", fmt.Sprint("u", i)))
	}
	for i, a := range h.Attempts() {
		if a.Start.Key != fmt.Sprint(i) {
			t.Fatalf("attempt %d is that of key %s", i, a.Start.Key)
		}
	}
}

// FuzzApply applies arbitrary facts. History must not panic, and no attempt may be open after its
// end.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`[{"kind":"start","uni_id":"u","key":"k"},{"kind":"end","uni_id":"u","state":"succeeded"}]`))
	f.Add([]byte(`[{"kind":"end"},{"kind":"forget","key":"k"},{"kind":"running","uni_id":"x"},{"kind":"end","key":"k"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var facts []Fact
		if json.Unmarshal(data, &facts) != nil {
			return
		}
		h := NewHistory()
		for i, fact := range facts {
			h.Apply(i%2, fact)
			if fact.Kind == KindEnd && h.Open[fact.UniID] != nil {
				t.Fatalf("%q is open after its end", fact.UniID)
			}
			h.Named(0, fact.Job)
		}
		for _, r := range h.last {
			for _, other := range h.last {
				r.NewerThan(other)
			}
		}
	})
}

// mapBase is a Base that keeps plain records.
type mapBase map[string]*Record

func (b mapBase) Find(key string) *Record {
	if r := b[key]; r != nil {
		c := *r
		return &c
	}
	return nil
}

func (b mapBase) Fact(int64) (f Fact, ok bool) { return f, false }

func (b mapBase) Plain(key [16]byte) Plain {
	if r := b[hex.EncodeToString(key[:])]; r != nil {
		return r.Plain()
	}
	return 0
}

func (b mapBase) All() iter.Seq[*Record] { return maps.Values(b) }
func (b mapBase) Len() int               { return len(b) }
func (b mapBase) Close() error           { return nil }

// baseOf returns a Base with a history's records of one ledger.
func baseOf(h *History, ledger int) Base {
	b := mapBase{}
	for r := range h.Records() {
		if r.Ledger == ledger {
			b[r.Key] = r
		}
	}
	return b
}

func TestBasePlusAppliedFactsEqualsAllFacts(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		want, before, got := NewHistory(), NewHistory(), NewHistory()
		const ledgers = 3
		cut := r.IntN(100)
		for i := range 100 {
			ledger, key := r.IntN(ledgers), fmt.Sprintf("%032x", r.IntN(6))
			f := at(i, Fact{Kind: KindEnd, Key: key, Job: "j" + key[31:], State: []Phase{Succeeded, Failed}[r.IntN(2)], Needs: []string{"", "1:a"}[r.IntN(2)]})
			if r.IntN(6) == 0 {
				f = at(i, Fact{Kind: KindForget, Key: key})
			}
			want.Apply(ledger, f)
			if i < cut {
				before.Apply(ledger, f)
				continue
			}
			if i == cut {
				for ledger := range ledgers {
					got.SetBase(ledger, baseOf(before, ledger), before.Seq())
				}
			}
			got.Apply(ledger, f)
		}
		for ledger := range ledgers {
			for k := range 7 {
				key := fmt.Sprintf("%032x", k)
				a, b := got.Of(ledger, key), want.Of(ledger, key)
				if !reflect.DeepEqual(a, b) {
					t.Fatalf("seed %d, ledger %d, key %d: %+v, want %+v", seed, ledger, k, a, b)
				}
				if plain := got.Plain(ledger, [16]byte{15: byte(k)}); plain != 0 && plain != b.Plain() {
					t.Fatalf("seed %d, ledger %d, key %d: Plain is %d, want %d or 0", seed, ledger, k, plain, b.Plain())
				}
				if a, b := got.Named(ledger, "j"+key[31:]), want.Named(ledger, "j"+key[31:]); !reflect.DeepEqual(a, b) {
					t.Fatalf("seed %d, ledger %d, job name of key %d: %+v, want %+v", seed, ledger, k, a, b)
				}
			}
		}
		n := 0
		for range got.Records() {
			n++
		}
		for range want.Records() {
			n--
		}
		if n != 0 || got.Empty() != want.Empty() {
			t.Fatalf("seed %d: %d records too many; empty %v, want %v", seed, n, got.Empty(), want.Empty())
		}
	}
}

// A success copied from another ledger keeps the GPUs that it ran on, even if a cluster chose them.
func TestTakenOverKeepsGPUsChosenByACluster(t *testing.T) {
	for name, c := range map[string]struct{ start, end Fact }{
		"here":    {Fact{Kind: KindStart, GPUs: []int{2}, GPUUUIDs: []gpu.UUID{"GPU-2"}}, Fact{}},
		"cluster": {Fact{Kind: KindStart, Engine: "slurm"}, Fact{Host: "node1", GPUs: []int{2}, GPUUUIDs: []gpu.UUID{"GPU-2"}}},
	} {
		c.end.Kind, c.end.State = KindEnd, Succeeded
		r := NewRecord(0, 1, TakenOver("old.yaml", Fact{}, c.start, c.end), nil)
		if !slices.Equal(r.GPUs, []int{2}) || !slices.Equal(r.GPUUUIDs, []gpu.UUID{"GPU-2"}) {
			t.Errorf("%s: GPUs %v, %v", name, r.GPUs, r.GPUUUIDs)
		}
	}
}
