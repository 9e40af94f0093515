package state

import (
	"encoding/hex"
	"iter"
)

// A Base is what the facts of one ledger came to up to one of its lines, kept in
// a form from which a record is made when somebody asks for it: a batch of a
// million jobs that is up to date asks once for each.
type Base interface {
	Find(key string) *Record // a new Record each time, or nil
	Plain(key [16]byte) bool // see History.Plain
	All() iter.Seq[*Record]  // each key once, in no order
	Len() int
}

// Found puts a base under a ledger of which nothing has been applied yet. The
// facts behind the base's last line come by Apply; seq is the order of that line.
func (h *History) Found(ledger int, b Base, seq int64) {
	if h.base == nil {
		h.base = map[int]Base{}
	}
	h.base[ledger] = b
	h.seq = max(h.seq, seq)
}

// Settle takes the records of one ledger that were applied out of the history, for
// its base: it must have them before anybody asks again. So whoever reads a long
// ledger holds little of it as records at any time.
func (h *History) Settle(ledger int) []*Record {
	var settled []*Record
	for key, r := range h.Last {
		if int(r.Ledger) == ledger {
			settled = append(settled, r)
			delete(h.Last, key)
		}
	}
	for at, r := range h.more {
		if at.ledger == ledger {
			settled = append(settled, r)
			delete(h.more, at)
		}
	}
	return settled
}

// Plain says that the last end of a key, 32 hex digits, is a success that counts,
// of an attempt that needed no other job. False says nothing: see Of. It is what
// most jobs of a large batch that is up to date are asked, and makes no record.
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

// Plain says this of a record.
func (r *Record) Plain() bool {
	return r.State == Succeeded && !r.Forgotten && !r.Sim && r.Needs == ""
}

// Seq is the order of the last fact that was applied.
func (h *History) Seq() int64 { return h.seq }

// Empty says that no key has an end.
func (h *History) Empty() bool {
	for _, b := range h.base {
		if b.Len() > 0 {
			return false
		}
	}
	return len(h.Last) == 0
}

// Records are the last ends of all keys of all ledgers, in no order.
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

// above is the record of a key from facts that were applied, whatever lies below.
func (h *History) above(ledger int, key string) *Record {
	if r := h.Last[key]; r != nil && int(r.Ledger) == ledger {
		return r
	}
	if len(h.more) == 0 {
		return nil
	}
	return h.more[ledgerKey{ledger, key}]
}

// lift makes a record of a base one that can be changed.
func (h *History) lift(r *Record) {
	if h.above(int(r.Ledger), r.Key) != nil {
		return
	}
	h.place(r)
	if at := (ledgerKey{int(r.Ledger), r.Job}); h.named[at] != nil && h.named[at].EndSeq == r.EndSeq {
		h.named[at] = r
	}
}
