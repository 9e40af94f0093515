package sched

import (
	"encoding/hex"
	"iter"
	"maps"
	"testing"

	"gpurun/jobspec"
	"gpurun/state"
	"gpurun/state/schema"
)

// records is a state.Base with the records of one ledger.
type records map[string]*state.Record

func (b records) Find(key string) *state.Record {
	if r := b[key]; r != nil {
		c := *r
		return &c
	}
	return nil
}

func (b records) Fact(int64) (f state.Fact, ok bool) { return f, false }

func (b records) Plain(key [16]byte) state.Plain {
	if r := b[hex.EncodeToString(key[:])]; r != nil {
		return r.Plain()
	}
	return 0
}

func (b records) All() iter.Seq[*state.Record] { return maps.Values(b) }
func (b records) Len() int                     { return len(b) }
func (b records) Close() error                 { return nil }

// checkPacked compares the verdicts of the core with those of a core whose history is in a base, as with
// a long ledger.
func (w *world) checkPacked() {
	w.t.Helper()
	all, h := w.replay(), state.NewHistory()
	h.Open = all.Open
	for i := range w.b.Files {
		b := records{}
		for r := range all.Records() {
			if r.Ledger == i {
				b[r.Key] = r
			}
		}
		h.SetBase(i, b, all.Seq())
	}
	other := w.new(h)
	for id := range w.b.Jobs {
		if got, want := other.Verdict(id), w.core.Verdict(id); got != want {
			w.t.Fatalf("%s: with a packed history %+v, want %+v", w.b.Jobs[id].Name, got, want)
		}
	}
}

// The state of its files decides whether a successful job runs again.
func TestFilesDecideVerdict(t *testing.T) {
	for _, tt := range []struct {
		proof Evidence
		want  Verdict
	}{
		{Evidence{}, Verdict{false, schema.PlanUpToDate, "up to date"}},
		{Evidence{Overwritten: "o"}, Verdict{false, schema.PlanUpToDate, "up to date; output o was overwritten by another command"}},
		{Evidence{MissingOutput: "o", Overwritten: "p"}, Verdict{true, schema.PlanOutputMissing, "output o missing"}},
		{Evidence{ChangedInput: "i"}, Verdict{true, schema.PlanInputChanged, "input i changed"}},
		{Evidence{LogDeleted: true}, Verdict{true, schema.PlanLogDeleted, "log deleted"}},
	} {
		t.Run(tt.want.Reason, func(t *testing.T) {
			w := newWorld(t)
			w.job("a", "true", jobspec.Spec{}, "")
			w.open()
			w.send(Began{})
			w.exit("a", Ended{})
			w.proof[0] = tt.proof
			w.open()
			if got := w.core.Verdict(0); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
