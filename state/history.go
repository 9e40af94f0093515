package state

import (
	"slices"
	"sort"
	"time"

	"gpurun/gpu"
)

// A History is what the facts of a batch's ledgers come to. It is changed by
// Apply alone, when a ledger is loaded and while a run goes on.
//
// Of every key only the last end is kept, and of an attempt that has ended
// nothing else, so that a million jobs fit into memory.
type History struct {
	Last map[string]*Record  // by key: the last end of each key, as far as it was applied and not founded; use Of and Records
	Open map[string]*Attempt // by uni_id: started, not yet ended

	more  map[ledgerKey]*Record // keys whose place in Last belongs to another ledger
	named map[ledgerKey]*Record // by name, the newest record; nil until Named is asked
	base  map[int]Base          // by ledger: what lies below Last and more
	runs  map[int]Fact          // by ledger: the last run fact, see Ran
	seq   int64
}

// WhyLeftOver is the reason of a stop that reaches only what an attempt has left
// behind: it decides nothing about the attempt's end.
const WhyLeftOver = "left-over"

// A ledgerKey is a key, or a name, in one ledger.
type ledgerKey struct {
	ledger int
	text   string
}

// A Record is the last end of one key.
type Record struct {
	Key       string
	Job       string // name it had
	State     Phase
	UniID     string
	Attempt   int
	Start     time.Time // zero when the ledger has no start of it (done)
	End       time.Time
	StartSeq  int64 // order of the start among the lines of its ledger; 0 when it has none
	EndSeq    int64 // order of the end
	ExitCode  *int
	Signal    string
	ErrorType string
	Reason    string
	Line      string
	Seconds   float64
	Needs     string
	Inputs    []Input
	Log       string
	Commands  []string // of its start; kept only for jobs that did not succeed, else nil
	Peak      int64
	GPUs      int
	Sim       bool  // these were simulated
	Ledger    int32 // index of the batch's file whose ledger has it
	Forgotten bool  // a forget came after it
	By        string
}

// An Attempt is one that has started and not yet ended.
type Attempt struct {
	Start   Fact
	Seq     int64
	Running *Fact  // pid and its start time, once known
	Stop    string // why it was to be stopped, or ""
	Ledger  int    // index of the batch's file whose ledger has it
}

// NewHistory makes the history of empty ledgers.
func NewHistory() *History {
	return &History{Last: map[string]*Record{}, Open: map[string]*Attempt{}}
}

// Apply takes over one fact of the ledger of a batch's file, given by index.
// The facts of one ledger come in its order; those of different ledgers may come
// in any order. A fact that makes no sense changes nothing.
func (h *History) Apply(ledger int, f Fact) {
	h.seq++
	switch f.Kind {
	case KindStart:
		if f.UniID != "" {
			h.Open[f.UniID] = &Attempt{Start: f, Seq: h.seq, Ledger: ledger}
		}
	case KindRunning:
		if a := h.Open[f.UniID]; a != nil {
			a.Running = &Fact{Kind: f.Kind, Time: f.Time, PID: f.PID, PIDStart: f.PIDStart}
		}
	case KindStop:
		// The first reason counts: its signal is the one that ended the attempt.
		if a := h.Open[f.UniID]; a != nil && a.Stop == "" && f.Why != WhyLeftOver {
			a.Stop = f.Why
		}
	case KindEnd:
		h.end(ledger, f)
	case KindForget:
		if r := h.Of(ledger, f.Key); r != nil {
			h.lift(r)
			r.Forgotten = true
		}
	}
}

// end makes the record of an end, and forgets the attempt.
func (h *History) end(ledger int, f Fact) {
	r := &Record{
		Key: f.Key, Job: f.Job, State: known(f.State), UniID: f.UniID, Attempt: f.Attempt, End: f.Time, EndSeq: h.seq,
		ExitCode: f.ExitCode, Signal: f.Signal, ErrorType: f.ErrorType, Reason: f.Reason, Line: f.Line, Seconds: f.Seconds,
		Peak: int64(f.PeakMemory), Ledger: int32(ledger), By: f.By,
	}
	if a := h.Open[f.UniID]; a != nil {
		r.began(a)
		delete(h.Open, f.UniID)
	}
	if r.Key == "" {
		return
	}
	if r.State == Succeeded {
		r.Commands = nil
	}
	h.put(r)
}

// began completes a record with what the attempt's start says.
func (r *Record) began(a *Attempt) {
	s := &a.Start
	r.Start, r.StartSeq = s.Time, a.Seq
	r.Needs, r.Inputs, r.Log, r.Commands, r.GPUs = s.Needs, s.Inputs, s.Log, s.Commands, len(s.GPUs)
	r.Sim = slices.ContainsFunc(s.GPUUUIDs, gpu.UUID.Simulated)
	r.Ledger = int32(a.Ledger)
	if r.Key == "" {
		r.Key = s.Key
	}
	if r.Job == "" {
		r.Job = s.Job
	}
	if r.Attempt == 0 {
		r.Attempt = s.Attempt
	}
}

// put makes r the last record of its key.
func (h *History) put(r *Record) {
	h.place(r)
	if h.named != nil && r.Job != "" {
		h.named[ledgerKey{int(r.Ledger), r.Job}] = r
	}
}

// place files r under its key.
func (h *History) place(r *Record) {
	at := ledgerKey{int(r.Ledger), r.Key}
	if old := h.Last[r.Key]; old == nil && h.more[at] == nil || old != nil && old.Ledger == r.Ledger {
		h.Last[r.Key] = r
	} else {
		if h.more == nil {
			h.more = map[ledgerKey]*Record{}
		}
		h.more[at] = r
	}
}

// Of is the last record of a key in the ledger of one of the batch's files, or
// nil. Files in different folders may have jobs that do the same, word by word:
// each counts in its own ledger alone.
func (h *History) Of(ledger int, key string) *Record {
	if r := h.above(ledger, key); r != nil {
		return r
	}
	if b := h.base[ledger]; b != nil {
		return b.Find(key)
	}
	return nil
}

// Named is the newest record of a job name in one ledger, whatever its key, or
// nil: a job that has no history under its key, but has one under its name, has
// been changed. The index is made when it is first asked for, since a batch that
// is up to date needs none.
func (h *History) Named(ledger int, name string) *Record {
	if h.named == nil {
		h.named = map[ledgerKey]*Record{}
		for r := range h.Records() {
			h.name(r)
		}
	}
	return h.named[ledgerKey{ledger, name}]
}

func (h *History) name(r *Record) {
	at := ledgerKey{int(r.Ledger), r.Job}
	if old := h.named[at]; old == nil || old.EndSeq < r.EndSeq {
		h.named[at] = r
	}
}

// Attempts are the open attempts in the order of their starts.
func (h *History) Attempts() []*Attempt {
	open := make([]*Attempt, 0, len(h.Open))
	for _, a := range h.Open {
		open = append(open, a)
	}
	sort.Slice(open, func(i, k int) bool { return open[i].Seq < open[k].Seq })
	return open
}

// NewerThan says whether r ended after other began: by the order of lines where
// both stand in one ledger, else by the time.
func (r *Record) NewerThan(other *Record) bool {
	if other.StartSeq > 0 && r.Ledger == other.Ledger {
		return r.EndSeq > other.StartSeq
	}
	began := other.Start
	if began.IsZero() {
		began = other.End.Add(-time.Duration(other.Seconds * float64(time.Second)))
	}
	return r.End.After(began)
}

// known spells a phase with the constant's own string, so that a million records
// do not each keep a copy.
func known(p Phase) Phase {
	switch p {
	case Succeeded:
		return Succeeded
	case Failed:
		return Failed
	case Timeout:
		return Timeout
	case OOM:
		return OOM
	case Cancelled:
		return Cancelled
	case Interrupted:
		return Interrupted
	case Lost:
		return Lost
	}
	return p
}
