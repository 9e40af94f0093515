package disk

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gpurun/state"
)

// A packed base holds one ledger's records in two long strings, without pointers for
// the garbage collector to follow: fixed-size entries, and the records they refer to
// (indexrecord.go). Entries are in start order, as far as the ledger was written in one
// run, so jobs queried in file order are found one after another. Only other lookups
// use the hash table, which is built on first use.
//
// put may be used by only one goroutine. After that, queries may be concurrent.
type packed struct {
	ledger  int
	entries growing
	records growing
	dead    []uint64 // bitmap of entries replaced by later ones; nil if none
	deaths  int
	next    atomic.Int32 // the entry after the one found last
	slots   []int32      // entry + 1, hashed by the first bytes of its key; see table
	once    sync.Once
}

// An entry is a key (keyID), the offset of its record in six bytes, and flags in two
// bytes.
const entrySize = 24

const (
	flagPlain = 1 << iota // state.Record.Plain
	flagOdd               // the key is not 32 hex digits, and is stored before the record
)

// growing is a string that was read, and what has been appended to it since.
type growing struct {
	read string
	more strings.Builder
}

func (g *growing) size() int { return len(g.read) + g.more.Len() }

// from returns the string from an offset on. It never spans the two parts.
func (g *growing) from(at int) string {
	if at < len(g.read) {
		return g.read[at:]
	}
	return g.more.String()[at-len(g.read):]
}

// keyID returns the 16 bytes by which a key is looked up.
func keyID(key string) (id [16]byte, odd bool) {
	if len(key) == 32 && strings.IndexFunc(key, func(c rune) bool { return !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') }) < 0 {
		if _, err := hex.Decode(id[:], []byte(key)); err == nil {
			return id, false
		}
	}
	sum := sha256.Sum256([]byte(key))
	return [16]byte(sum[:16]), true
}

func (x *packed) count() int { return x.entries.size() / entrySize }

// Len returns the number of records.
func (x *packed) Len() int { return x.count() - x.deaths }

func (x *packed) entry(i int) string { return x.entries.from(i * entrySize)[:entrySize] }

func (x *packed) isDead(i int) bool { return i/64 < len(x.dead) && x.dead[i/64]>>(i%64)&1 == 1 }

// number reads eight bytes.
func number(b string) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// split decodes an entry.
func split(entry string) (key string, place int, flags uint16) {
	n := number(entry[16:])
	return entry[:16], int(n & (1<<48 - 1)), uint16(n >> 48)
}

// find returns the entry of a key, or -1.
func (x *packed) find(id [16]byte) int {
	if next := int(x.next.Load()); next < x.count() && x.entry(next)[:16] == string(id[:]) && !x.isDead(next) {
		x.next.Store(int32(next + 1))
		return next
	}
	x.once.Do(x.table)
	mask := len(x.slots) - 1
	for at := slotOf(string(id[:])) & mask; x.slots[at] != 0; at = (at + 1) & mask {
		if i := int(x.slots[at]) - 1; x.entry(i)[:16] == string(id[:]) {
			x.next.Store(int32(i + 1))
			return i
		}
	}
	return -1
}

func slotOf(key string) int { return int(uint32(number(key))) }

// table builds the slots, with room to double.
func (x *packed) table() {
	size := 8
	for size < 4*x.count() {
		size *= 2
	}
	x.slots = make([]int32, size)
	for i := range x.count() {
		if !x.isDead(i) {
			x.enter(i)
		}
	}
}

// enter adds an entry to the slots. It returns the older entry of its key that it
// replaces, or -1.
func (x *packed) enter(i int) (older int) {
	key := x.entry(i)[:16]
	mask := len(x.slots) - 1
	at := slotOf(key) & mask
	for x.slots[at] != 0 {
		if older = int(x.slots[at]) - 1; x.entry(older)[:16] == key {
			x.slots[at] = int32(i + 1)
			return older
		}
		at = (at + 1) & mask
	}
	x.slots[at] = int32(i + 1)
	return -1
}

// put adds records, each replacing an older one of the same key.
func (x *packed) put(list []*state.Record) {
	slices.SortFunc(list, func(a, b *state.Record) int {
		return cmp.Compare(cmp.Or(a.StartSeq, a.EndSeq), cmp.Or(b.StartSeq, b.EndSeq))
	})
	x.once.Do(x.table)
	var one []byte
	for _, r := range list {
		i := x.count()
		id, odd := keyID(r.Key)
		flags := uint16(0)
		if r.Plain() {
			flags |= flagPlain
		}
		one = one[:0]
		if odd {
			flags |= flagOdd
			one = appendText(one, r.Key)
		}
		if 2*i >= len(x.slots) {
			x.table()
		}
		x.add(id, flags, appendRecord(one, r))
		if older := x.enter(i); older >= 0 {
			x.bury(older)
		}
	}
}

// add appends an entry and its record.
func (x *packed) add(id [16]byte, flags uint16, record []byte) {
	var b [entrySize]byte
	copy(b[:], id[:])
	binary.LittleEndian.PutUint64(b[16:], uint64(x.records.size())|uint64(flags)<<48)
	x.entries.more.Write(b[:])
	x.records.more.Write(binary.AppendUvarint(b[:0], uint64(len(record))))
	x.records.more.Write(record)
}

func (x *packed) bury(i int) {
	for len(x.dead) <= x.count()/64 {
		x.dead = append(x.dead, 0)
	}
	x.dead[i/64] |= 1 << (i % 64)
	x.deaths++
}

// record returns the record of entry i, or nil if the file was corrupt.
func (x *packed) record(i int) *state.Record {
	key, flags, text := x.parts(i)
	d := decoder{rest: text}
	if flags&flagOdd != 0 {
		key = d.text()
	} else {
		key = hex.EncodeToString([]byte(key))
	}
	return d.record(key, x.ledger)
}

// parts returns what is stored of entry i; text is empty if the file was corrupt.
func (x *packed) parts(i int) (key string, flags uint16, text string) {
	key, place, flags := split(x.entry(i))
	if place >= x.records.size() {
		return key, flags, ""
	}
	frame := decoder{rest: x.records.from(place)}
	return key, flags, frame.text()
}

// Find returns a new record of a key, or nil.
func (x *packed) Find(key string) *state.Record {
	id, _ := keyID(key)
	i := x.find(id)
	if i < 0 {
		return nil
	}
	if r := x.record(i); r != nil && r.Key == key {
		return r
	}
	return nil
}

// Plain implements state.Base.
func (x *packed) Plain(key [16]byte) bool {
	i := x.find(key)
	if i < 0 {
		return false
	}
	_, _, flags := split(x.entry(i))
	return flags&(flagPlain|flagOdd) == flagPlain
}

// All yields every record.
func (x *packed) All() iter.Seq[*state.Record] {
	return func(yield func(*state.Record) bool) {
		for i := range x.count() {
			if x.isDead(i) {
				continue
			}
			if r := x.record(i); r != nil && !yield(r) {
				return
			}
		}
	}
}

// living returns x without replaced entries.
func (x *packed) living() *packed {
	if x.deaths == 0 {
		return x
	}
	y := &packed{ledger: x.ledger}
	for i := range x.count() {
		if x.isDead(i) {
			continue
		}
		key, flags, text := x.parts(i)
		y.add([16]byte([]byte(key)), flags, []byte(text))
	}
	return y
}
