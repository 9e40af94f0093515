package state

import (
	"cmp"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"gpurun/gpu"
)

// A History is the state that follows from the facts in a batch's ledgers. Facts are applied in the
// same way when a ledger is loaded and during a run.
//
// About ended attempts, it keeps only the last end of each key and the seed groups, so a million
// jobs fit in memory.
type History struct {
	Open map[string]*Attempt // by uni_id: started, not yet ended

	last  map[ledgerKey]*Record // by key: its last end, if applied since the ledger was read
	base  map[int]Base          // by ledger: older records
	named map[ledgerKey]newest  // by job name; nil until Named is called
	runs  map[int]Fact          // by ledger: the last run fact; see SetRun
	overs map[int]Fact          // by ledger: the fact that ended that run, if any

	seedGroups map[ledgerKey]*SeedGroup // by name

	seq int64
}

// A Base holds the records that one ledger had when it was read, in a form that creates each Record
// on demand: a million Records would not fit in memory.
type Base interface {
	Find(key string) *Record     // a new Record on each call, or nil
	Fact(seq int64) (Fact, bool) // the fact with this sequence number
	Plain(key [16]byte) Plain    // see History.Plain
	All() iter.Seq[*Record]      // each key once, in no particular order
	Len() int
	Close() error
}

// WhyLeftOver is the reason for a stop that affects only the leftover processes of an attempt. It
// does not change how the attempt ended.
const WhyLeftOver = "left-over"

// A ledgerKey is a key or a name within one ledger.
type ledgerKey struct {
	ledger int
	text   string
}

// A newest identifies the newest record of a job name.
type newest struct {
	key string
	end int64 // its EndSeq
}

// A Record is the last end of one key, with data from its attempt's start: needs, inputs, log, GPUs
// and, unless the job succeeded, commands.
type Record struct {
	Fact
	Start     time.Time // zero if the ledger lacks the start (gpurun done)
	StartSeq  int64     // sequence number of the start; 0 if there is none
	EndSeq    int64     // sequence number of the end
	Ledger    int       // index of the batch's file whose ledger contains it
	Forgotten bool      // a forget followed it
}

// An Attempt is an attempt that has started and not yet ended.
type Attempt struct {
	Start      Fact
	Seq        int64
	Running    *Fact  // PID and its start time, once known
	JobID      string // in a cluster's queue, once known
	Stop       string // why it is being stopped, or ""
	StopReason string // the reason as text, if any
	Points     Curve  // reported so far
	PointsRule string // the rule that read them
	Within     string // the cluster job, if any, inside which the attempt's run was running
	Ledger     int    // index of the batch's file whose ledger contains it
}

// A Trace is the remaining information about an attempt whose start is in no ledger.
type Trace struct {
	Began bool // at least one of its commands began
	Start Fact // has no Kind if the attempt is not running and its job is unknown
	Run   Fact // the machine it ran on
}

// NewHistory returns the history of empty ledgers.
func NewHistory() *History {
	return &History{
		Open: map[string]*Attempt{}, last: map[ledgerKey]*Record{},
		base: map[int]Base{}, runs: map[int]Fact{}, overs: map[int]Fact{}, seedGroups: map[ledgerKey]*SeedGroup{},
	}
}

// SetBase sets the base of a ledger to which no fact has been applied yet. seq is the sequence
// number of the base's last line; later facts arrive through Apply.
func (h *History) SetBase(ledger int, b Base, seq int64) {
	h.base[ledger] = b
	h.seq = max(h.seq, seq)
}

// Close closes the bases' files. Records that were not read before can no longer be read.
func (h *History) Close() {
	for _, b := range h.base {
		_ = b.Close()
	}
}

// Settle removes from h the records applied since the ledger was read, and passes them to take,
// which adds them to the ledger's base. It passes them in the order of their starts, because jobs
// are usually looked up in that order.
func (h *History) Settle(ledger int, take func(*Record)) {
	var records []*Record
	for at, r := range h.last {
		if at.ledger == ledger {
			records = append(records, r)
			delete(h.last, at)
		}
	}
	slices.SortFunc(records, func(a, b *Record) int {
		return cmp.Or(cmp.Compare(a.StartSeq, b.StartSeq), cmp.Compare(a.EndSeq, b.EndSeq))
	})
	for _, r := range records {
		take(r)
	}
}

// SetRun sets the last run fact of a ledger, and the fact that ended that run, if any.
func (h *History) SetRun(ledger int, run, over Fact) { h.runs[ledger], h.overs[ledger] = run, over }

// LastRun returns the last run fact that a ledger contained when it was loaded. Its Kind is empty if
// there was none.
func (h *History) LastRun(ledger int) Fact { return h.runs[ledger] }

// LastOver returns the fact that ended the last run. Its Kind is empty if that run was killed, is
// alive, or was a run of an older gpurun.
func (h *History) LastOver(ledger int) Fact { return h.overs[ledger] }

// Seq returns the sequence number of the last fact applied.
func (h *History) Seq() int64 { return h.seq }

// Apply adds one fact. ledger is the index of the batch's file whose ledger it comes from. Facts of
// one ledger must come in order; ledgers may be interleaved. Invalid facts are ignored.
func (h *History) Apply(ledger int, f Fact) {
	h.ApplyAt(ledger, h.seq+1, f)
}

// ApplyAt is like Apply, but for a fact with a known sequence number, which may be lower than those
// of facts already applied.
func (h *History) ApplyAt(ledger int, seq int64, f Fact) {
	h.seq = max(h.seq, seq)
	switch f.Kind {
	case KindStart:
		if f.UniID != "" {
			h.Open[f.UniID] = &Attempt{Start: f, Seq: seq, Ledger: ledger}
		}
	case KindEnd:
		h.end(ledger, seq, f)
	case KindForget:
		if r := h.Of(ledger, f.Key); r != nil {
			r.Forgotten = true
			h.last[ledgerKey{ledger, r.Key}] = r
		}
	default:
		h.Open[f.UniID].apply(&f)
	}
}

// apply adds a fact to an open attempt. A nil attempt ignores it.
func (a *Attempt) apply(f *Fact) {
	switch {
	case a == nil:
	case f.Kind == KindQueued:
		a.JobID = f.JobID
	case f.Kind == KindRunning:
		a.Running = &Fact{Kind: f.Kind, Time: f.Time, PID: f.PID, PIDStart: f.PIDStart, Host: f.Host, GPUs: f.GPUs, GPUUUIDs: f.GPUUUIDs}
	case f.Kind == KindPoints:
		if f.PointsRule != a.PointsRule {
			a.Points, a.PointsRule = nil, f.PointsRule
		}
		a.Points = a.Points.Add(f.Points...)
	case f.Kind == KindStop && (a.Stop == "" || a.Stop == WhyResize) && f.Why != WhyLeftOver:
		// The first reason is kept, because its signal ended the attempt. Only a resize may become
		// a real stop.
		a.Stop, a.StopReason = f.Why, f.Reason
	}
}

// end records an end and removes the open attempt.
func (h *History) end(ledger int, seq int64, f Fact) {
	a := h.Open[f.UniID]
	if a != nil && f.Withdrawn(&a.Start) {
		delete(h.Open, f.UniID)
		return
	}
	r := NewRecord(ledger, seq, f, a)
	switch {
	case a != nil:
		h.addToSeedGroup(a.Ledger, &a.Start, &f)
	case f.From != "":
		h.addToSeedGroup(ledger, &f, &f)
	}
	delete(h.Open, f.UniID)
	if r.Key == "" {
		return
	}
	h.last[ledgerKey{r.Ledger, r.Key}] = r
	if h.named != nil && r.Job != "" {
		h.name(r)
	}
}

// NewRecord returns the record of end f, whose sequence number is seq. a is its attempt, or nil if
// it has no start.
func NewRecord(ledger int, seq int64, f Fact, a *Attempt) *Record {
	if a == nil {
		a = &Attempt{Ledger: ledger}
	}
	s := &a.Start
	if f.From != "" {
		s = &f
	}
	r := &Record{Fact: f, Start: a.Start.Time, StartSeq: a.Seq, EndSeq: seq, Ledger: a.Ledger}
	r.Key, r.Job, r.Attempt = cmp.Or(f.Key, s.Key), cmp.Or(f.Job, s.Job), cmp.Or(f.Attempt, s.Attempt)
	r.Needs, r.Inputs, r.Log, r.Commands, r.GPUs, r.GPUUUIDs = s.Needs, s.Inputs, s.Log, s.Commands, s.GPUs, s.GPUUUIDs
	if f.Host != "" { // a cluster chose the GPUs after the start
		r.GPUs, r.GPUUUIDs = f.GPUs, f.GPUUUIDs
	}
	r.Started, r.Port = s.Started, s.Port
	r.LogFrom, r.Memory, r.Close, r.Snapshot, r.Engine = s.LogFrom, s.Memory, s.Close, s.Snapshot, s.Engine
	r.Metrics, r.Measured = nil, nil
	if r.State == Succeeded {
		r.Commands = nil
	}
	return r
}

// Simulated reports whether the attempt ran on simulated GPUs.
func (r *Record) Simulated() bool { return slices.ContainsFunc(r.GPUUUIDs, gpu.UUID.Simulated) }

// Of returns a key's last record in the ledger of one of the batch's files, or nil. Identical jobs
// in files of different folders have separate records.
func (h *History) Of(ledger int, key string) *Record {
	if r := h.last[ledgerKey{ledger, key}]; r != nil {
		return r
	}
	if b := h.base[ledger]; b != nil {
		return b.Find(key)
	}
	return nil
}

// StartOf returns the complete start of the attempt that ended with r; the Record keeps only part
// of it. It works only for records that were in the ledger when it was read.
func (h *History) StartOf(r *Record) (f Fact, ok bool) {
	if b := h.base[r.Ledger]; b != nil && r.StartSeq > 0 {
		f, ok = b.Fact(r.StartSeq)
	}
	return f, ok && f.Kind == KindStart && f.UniID == r.UniID
}

// MetricsOf returns the metrics of the attempt that ended with r, which a Record leaves out. It
// works only for records that were in the ledger when it was read.
func (h *History) MetricsOf(r *Record) map[string]any {
	if b := h.base[r.Ledger]; b != nil {
		if f, ok := b.Fact(r.EndSeq); ok && f.Kind == KindEnd && f.UniID == r.UniID {
			return f.Metrics
		}
	}
	return nil
}

// A Plain is the time of a key's last end, in nanoseconds since 1970, if that end is a valid
// success of a job without needs. Otherwise, it is 0.
type Plain int64

// Plain returns a key's Plain without reading its record, so that a large batch that is up to date
// can be checked quickly. If it returns 0, use Of. key is the decoded form of a key with 32 hex
// digits.
func (h *History) Plain(ledger int, key [16]byte) Plain {
	b := h.base[ledger]
	if b == nil || len(h.last) > 0 && h.last[ledgerKey{ledger, hex.EncodeToString(key[:])}] != nil {
		return 0
	}
	return b.Plain(key)
}

// Plain returns the time when r ended if r is a valid success of a job without needs, else 0.
func (r *Record) Plain() Plain {
	if r.State != Succeeded || r.Forgotten || r.Simulated() || r.Needs != "" || r.By != "" {
		return 0
	}
	return Plain(r.Time.UnixNano())
}

// Empty reports whether no key has an end.
func (h *History) Empty() bool {
	for _, b := range h.base {
		if b.Len() > 0 {
			return false
		}
	}
	return len(h.last) == 0
}

// Records yields the last end of every key of every ledger, in no particular order.
func (h *History) Records() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for _, r := range h.last {
			if !yield(r) {
				return
			}
		}
		for ledger, b := range h.base {
			for r := range b.All() {
				if h.last[ledgerKey{ledger, r.Key}] == nil && !yield(r) {
					return
				}
			}
		}
	}
}

// Named returns the newest record of a job name in one ledger, whatever its key, or nil. If a name
// has history but the job's key has none, the job has changed. The index is built on first use,
// because a batch that is up to date never needs it.
func (h *History) Named(ledger int, name string) *Record {
	if h.named == nil {
		h.named = map[ledgerKey]newest{}
		for r := range h.Records() {
			h.name(r)
		}
	}
	if r := h.Of(ledger, h.named[ledgerKey{ledger, name}].key); r != nil && r.Job == name {
		return r
	}
	return nil
}

func (h *History) name(r *Record) {
	at := ledgerKey{r.Ledger, r.Job}
	if h.named[at].end < r.EndSeq {
		h.named[ledgerKey{at.ledger, strings.Clone(r.Job)}] = newest{strings.Clone(r.Key), r.EndSeq}
	}
}

// Attempts returns the open attempts in start order.
func (h *History) Attempts() []*Attempt {
	return slices.SortedFunc(maps.Values(h.Open), func(a, b *Attempt) int { return cmp.Compare(a.Seq, b.Seq) })
}

// NewerThan reports whether r ended after other started: by line number if both are in one ledger,
// else by time. A mark that confirms an earlier success is as old as that success.
func (r *Record) NewerThan(other *Record) bool {
	ended := r.Confirms
	switch inOrder := other.StartSeq > 0 && r.Ledger == other.Ledger; {
	case inOrder && (ended.IsZero() || r.EndSeq < other.StartSeq):
		return r.EndSeq > other.StartSeq
	case ended.IsZero():
		ended = r.Time
	}
	began := other.Start
	if began.IsZero() {
		began = other.Time.Add(-time.Duration(other.Seconds * float64(time.Second)))
	}
	return ended.After(began)
}
