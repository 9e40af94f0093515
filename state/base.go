package state

import (
	"encoding/hex"
	"iter"
)

// A Base is what one ledger had when it was read, in a form from which records are made
// on demand: a million of them would not fit in memory.
type Base interface {
	Find(key string) *Record // a new Record on each call, or nil
	Plain(key [16]byte) bool // see History.Plain
	All() iter.Seq[*Record]  // each key once, in no particular order
	Len() int
}

// Found sets the base of a ledger to which nothing has been applied yet. Facts after
// the base's last line arrive through Apply; seq is that line's sequence number.
func (h *History) Found(ledger int, b Base, seq int64) {
	if h.base == nil {
		h.base = map[int]Base{}
	}
	h.base[ledger] = b
	h.seq = max(h.seq, seq)
}

// Plain reports whether the last end of a key (32 hex digits) is a success that counts
// and whose job has no needs. False is inconclusive: ask Of. It allocates no record,
// which makes it the fast path for large batches that are up to date.
func (h *History) Plain(ledger int, key [16]byte) bool {
	b := h.base[ledger]
	if b == nil {
		return false
	}
	if len(h.Last) > 0 {
		var text [32]byte
		hex.Encode(text[:], key[:])
		if h.Last[string(text[:])] != nil {
			return false
		}
	}
	return len(h.more) == 0 && b.Plain(key)
}

// Plain reports whether r is a success that counts and whose job has no needs.
func (r *Record) Plain() bool {
	return r.State == Succeeded && !r.Forgotten && !r.Sim && r.Needs == ""
}

// Seq returns the sequence number of the last fact applied.
func (h *History) Seq() int64 { return h.seq }

// Empty reports whether no key has an end.
func (h *History) Empty() bool {
	for _, b := range h.base {
		if b.Len() > 0 {
			return false
		}
	}
	return len(h.Last) == 0
}

// Records yields the last end of every key of every ledger, in no particular order.
func (h *History) Records() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for _, r := range h.Last {
			if !yield(r) {
				return
			}
		}
		for _, r := range h.more {
			if !yield(r) {
				return
			}
		}
		for ledger, b := range h.base {
			for r := range b.All() {
				if h.above(ledger, r.Key) == nil && !yield(r) {
					return
				}
			}
		}
	}
}

// above returns a key's record from applied facts, ignoring the base.
func (h *History) above(ledger int, key string) *Record {
	if r := h.Last[key]; r != nil && int(r.Ledger) == ledger {
		return r
	}
	if len(h.more) == 0 {
		return nil
	}
	return h.more[ledgerKey{ledger, key}]
}

// lift copies a base's record into the history, where it can be changed.
func (h *History) lift(r *Record) {
	if h.above(int(r.Ledger), r.Key) != nil {
		return
	}
	h.place(r)
}
