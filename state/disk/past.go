package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"os"
	"slices"
	"strings"

	"gpurun/state"
)

// A past is a state.Base for the lines of a ledger. For each key, it stores the offsets of the last
// end and of that attempt's start. Records are read from there on demand, so a million jobs fit in
// memory.
type past struct {
	f       *os.File
	ledger  int   // index in the batch
	first   int64 // sequence number of the line at offset 0
	entries []entry
	at      map[keyID]int32 // index in entries; nil until find needs it
	next    int             // index after that of the last entry found
}

type entry struct {
	id         keyID
	start, end int64 // offsets; start is -1 if there is none
	forgotten  bool
	plain      state.Plain
}

func newPast(f *os.File, ledger int, first int64) *past {
	return &past{f: f, ledger: ledger, first: first}
}

// settleEach is how many facts a history collects before their records become entries.
const settleEach = 8 << 10

// A keyID identifies a key: the 16 bytes that the key encodes in hexadecimal or, for a key of
// another form, a hash.
type keyID [16]byte

func idOf(key string) (id keyID) {
	if key == "" {
		return id
	}
	if len(key) == 2*len(id) && key == strings.ToLower(key) {
		if _, err := hex.Decode(id[:], []byte(key)); err == nil && id != (keyID{}) {
			return id
		}
	}
	sum := sha256.Sum256([]byte(key))
	return keyID(sum[:])
}

// load adds a ledger to a history that has none of its facts. If ended is nil, it uses the ledger's
// index; else it reads all lines and calls ended for each attempt that has ended. If save is set
// and many lines were read, it writes an index for the next time.
func (r *reader) load(h *state.History, file int, ended func(uniID string), save bool) error {
	f, err := r.open()
	if f == nil || err != nil {
		return err
	}
	p, n := newPast(f, file, h.Seq()+1), 0
	if ended == nil {
		var groups []state.SeedGroup
		r.covered, p.entries, groups = readIndex(r.path, f)
		r.from = r.Offset
		h.SetSeedGroups(file, groups)
	}
	h.SetBase(file, p, p.first+r.Offset)
	err = r.read(f, func(fact *state.Fact, at int64) {
		h.ApplyAt(file, p.first+at, *fact)
		if a := h.Open[fact.UniID]; a != nil && fact.Kind == state.KindStart {
			a.Within = r.Run.Within
		}
		if n++; n%settleEach == 0 {
			h.Settle(file, p.put)
		}
		if fact.Kind == state.KindEnd && ended != nil {
			ended(fact.UniID)
		}
	})
	if err != nil {
		f.Close()
		return err
	}
	h.Settle(file, p.put)
	added, open := r.Offset-r.from, slices.ContainsFunc(h.Attempts(), func(a *state.Attempt) bool { return a.Ledger == file })
	if save && added >= indexFrom && added >= r.from/indexShare && !r.torn && !open && len(r.Warnings) <= manyWarnings {
		_ = writeIndex(r.path, f, r.covered, p.entries, h.SeedGroups(file)) // without an index, loading is only slower
	}
	return nil
}

// put sets the entry of a record's key.
func (p *past) put(r *state.Record) {
	e := entry{idOf(r.Key), r.StartSeq - p.first, r.EndSeq - p.first, r.Forgotten, r.Plain()}
	if r.StartSeq == 0 {
		e.start = -1
	}
	i, known := p.find(e.id)
	if !known {
		i = int32(len(p.entries))
		p.at[e.id], p.entries = i, append(p.entries, e)
	}
	p.entries[i] = e
}

// near is how far apart the positions of a job in the batch and in the order of starts may be. They
// differ because several jobs start at the same time.
const near = 64

// find returns the index of a key's entry. Jobs are usually looked up in the order of the batch, in
// which most of them started. In that case, find needs no map. For a million jobs, building one would
// take a fifth of the total time.
func (p *past) find(id keyID) (int32, bool) {
	is := func(i int) bool { return 0 <= i && i < len(p.entries) && p.entries[i].id == id }
	switch {
	case is(p.next):
		p.next++
		return int32(p.next - 1), true
	case p.at == nil:
		for d := range near {
			for _, i := range [...]int{p.next + d, p.next - 1 - d} {
				if is(i) {
					p.next = max(p.next, i+1)
					return int32(i), true
				}
			}
		}
		p.at = make(map[keyID]int32, len(p.entries))
		for i := range p.entries {
			p.at[p.entries[i].id] = int32(i)
		}
	}
	i, known := p.at[id]
	if known {
		p.next = int(i) + 1
	}
	return i, known
}

func (p *past) record(e entry) *state.Record {
	end, ok := lineAt(p.f, e.end)
	var a *state.Attempt
	if e.start >= 0 {
		start, found := lineAt(p.f, e.start)
		ok = ok && found
		a = &state.Attempt{Start: start, Seq: p.first + e.start, Ledger: p.ledger}
	}
	if !ok {
		return nil
	}
	r := state.NewRecord(p.ledger, p.first+e.end, end, a)
	r.Forgotten = e.forgotten
	return r
}

// Find implements state.Base.
func (p *past) Find(key string) *state.Record {
	i, known := p.find(idOf(key))
	if !known {
		return nil
	}
	if r := p.record(p.entries[i]); r != nil && r.Key == key {
		return r
	}
	return nil
}

// Fact implements state.Base.
func (p *past) Fact(seq int64) (state.Fact, bool) { return lineAt(p.f, seq-p.first) }

// Plain implements state.Base.
func (p *past) Plain(key [16]byte) state.Plain {
	i, known := p.find(key)
	if !known {
		return 0
	}
	return p.entries[i].plain
}

// Close implements state.Base.
func (p *past) Close() error { return p.f.Close() }

// Len implements state.Base.
func (p *past) Len() int { return len(p.entries) }

// All implements state.Base.
func (p *past) All() iter.Seq[*state.Record] {
	return func(yield func(*state.Record) bool) {
		for _, e := range p.entries {
			if r := p.record(e); r != nil && !yield(r) {
				return
			}
		}
	}
}
