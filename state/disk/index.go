package disk

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"strings"

	"gpurun/state"
)

// indexName is a file beside the ledger that has what the ledger comes to up to
// some line, so that only the lines behind it are read: those of 100,000 jobs take
// most of a second. It is derived. Deleted, broken or of another ledger, it
// counts for nothing, and the ledger is read whole.
const indexName = "ledger.index"

// An index is, in this order:
//
//	magic; header; the last run fact as JSON
//	the records, by bucket: length, key, the rest (indexrecord.go)
//	the places of the buckets, and one more for their end
//	a checksum of all that
type index struct {
	header
	host    state.Fact
	ledger  int
	buckets string // of four bytes each
	records string
}

// header is what an index says of itself.
type header struct {
	Offset  int64    // bytes of the ledger that it covers, whole lines
	Line    int64    // lines in them
	Seq     int64    // facts that were applied until then
	Tie     [32]byte // to the ledger's first bytes and the last ones that are covered
	Records uint32
	Buckets uint32 // a power of two
	Host    uint32 // bytes of the run fact
}

const indexMagic = "gpurun ledger index 1\n"

var errNoIndex = errors.New("no index that can be used")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openIndex reads the index of a ledger that is open for reading.
func openIndex(path string, ledger *os.File, file int) (*index, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text strings.Builder
	if fi, err := f.Stat(); err == nil && fi.Mode().IsRegular() {
		text.Grow(int(fi.Size()))
	}
	if _, err := io.Copy(&text, f); err != nil {
		return nil, err
	}
	x, err := parseIndex(text.String())
	if err != nil {
		return nil, err
	}
	x.ledger = file
	tie, err := tieOf(ledger, x.Offset)
	if err != nil || tie != x.Tie {
		return nil, errNoIndex
	}
	return x, nil
}

// parseIndex checks an index as a whole: its records are believed afterwards.
func parseIndex(text string) (*index, error) {
	size := len(indexMagic) + binary.Size(header{})
	if len(text) < size+4 || !strings.HasPrefix(text, indexMagic) {
		return nil, errNoIndex
	}
	body := text[:len(text)-4]
	if crc := crcOf(body); string(binary.LittleEndian.AppendUint32(nil, crc)) != text[len(body):] {
		return nil, errNoIndex
	}
	x := &index{}
	if _, err := binary.Decode([]byte(text[len(indexMagic):size]), binary.LittleEndian, &x.header); err != nil {
		return nil, errNoIndex
	}
	rest := body[size:]
	places := 4 * (int(x.Buckets) + 1)
	if int(x.Host) > len(rest) || x.Buckets == 0 || x.Buckets&(x.Buckets-1) != 0 || places > len(rest)-int(x.Host) {
		return nil, errNoIndex
	}
	if json.Unmarshal([]byte(rest[:x.Host]), &x.host) != nil {
		return nil, errNoIndex
	}
	rest = rest[x.Host:]
	x.records, x.buckets = rest[:len(rest)-places], rest[len(rest)-places:]
	return x, nil
}

// crcOf works in pieces: a string has no bytes that hash/crc32 could be given.
func crcOf(s string) uint32 {
	var piece [4096]byte
	var crc uint32
	for len(s) > 0 {
		n := copy(piece[:], s)
		crc = crc32.Update(crc, castagnoli, piece[:n])
		s = s[n:]
	}
	return crc
}

// tieLength is how much of a ledger's head, and of what lies before the offset,
// an index is tied to.
const tieLength = 4096

// tieOf hashes the parts of a ledger by which its index knows it.
func tieOf(ledger io.ReaderAt, offset int64) (tie [32]byte, err error) {
	h := sha256.New()
	n := min(offset, tieLength)
	for _, at := range []int64{0, offset - n} {
		if m, err := io.Copy(h, io.NewSectionReader(ledger, at, n)); err != nil || m != n {
			return tie, errNoIndex
		}
	}
	return [32]byte(h.Sum(nil)), nil
}

// place is where bucket i begins.
func (x *index) place(i uint32) int {
	b := x.buckets[4*i : 4*i+4]
	return int(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
}

func bucketOf(key string, buckets uint32) uint32 {
	h := uint32(2166136261) // FNV-1a
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return (h ^ h>>16) & (buckets - 1)
}

// Find makes the record of a key, or returns nil.
func (x *index) Find(key string) *state.Record {
	i := bucketOf(key, x.Buckets)
	from, to := x.place(i), x.place(i+1)
	if from > to || to > len(x.records) {
		return nil
	}
	for d := (decoder{rest: x.records[from:to]}); len(d.rest) > 0 && !d.bad; {
		one := decoder{rest: d.text()}
		if one.text() == key {
			return one.record(key, x.ledger)
		}
	}
	return nil
}

// All makes every record.
func (x *index) All() iter.Seq[*state.Record] {
	return func(yield func(*state.Record) bool) {
		for d := (decoder{rest: x.records}); len(d.rest) > 0 && !d.bad; {
			one := decoder{rest: d.text()}
			key := one.text()
			if r := one.record(key, x.ledger); r != nil && !yield(r) {
				return
			}
		}
	}
}

// Len is the number of records.
func (x *index) Len() int { return int(x.Records) }

// writeIndex writes the index of what a history has of one ledger.
func writeIndex(to io.Writer, h *state.History, file int, head header, host state.Fact) error {
	hostText, err := json.Marshal(host)
	if err != nil {
		return err
	}
	places, ordered := inBuckets(h, file)
	head.Records, head.Buckets, head.Host = uint32(len(ordered)), uint32(len(places)-1), uint32(len(hostText))
	sum := crc32.New(castagnoli)
	buffer := bufio.NewWriterSize(to, 256<<10)
	out := io.MultiWriter(buffer, sum)
	_, _ = io.WriteString(out, indexMagic)
	_ = binary.Write(out, binary.LittleEndian, head)
	_, _ = out.Write(hostText)
	at := 0
	var one, framed []byte
	for i, r := range ordered {
		if b := bucketOf(r.Key, head.Buckets); i == 0 || b != bucketOf(ordered[i-1].Key, head.Buckets) {
			places[b] = uint32(at)
		}
		one = appendRecord(one[:0], r)
		framed = append(binary.AppendUvarint(framed[:0], uint64(len(one))), one...)
		if at += len(framed); at > 1<<31 {
			return errNoIndex
		}
		_, _ = out.Write(framed)
	}
	places[head.Buckets] = uint32(at)
	for i := int(head.Buckets) - 1; i >= 0; i-- { // an empty bucket begins where the next one does
		if places[i] == emptyBucket {
			places[i] = places[i+1]
		}
	}
	_ = binary.Write(out, binary.LittleEndian, places)
	_ = binary.Write(buffer, binary.LittleEndian, sum.Sum32())
	return buffer.Flush() // has the first error of all writes
}

const emptyBucket = ^uint32(0)

// inBuckets orders the records of one ledger by their bucket, by counting.
func inBuckets(h *state.History, file int) (places []uint32, ordered []*state.Record) {
	n := 0
	for r := range h.Records() {
		if int(r.Ledger) == file {
			n++
		}
	}
	buckets := uint32(1)
	for int(buckets) < n {
		buckets *= 2
	}
	list := make([]*state.Record, 0, n)
	places = make([]uint32, buckets+1)
	next := make([]uint32, buckets+1)
	for r := range h.Records() {
		if int(r.Ledger) == file {
			list = append(list, r)
			next[bucketOf(r.Key, buckets)+1]++
		}
	}
	for i := range buckets {
		next[i+1] += next[i]
	}
	ordered = make([]*state.Record, n)
	for _, r := range list {
		b := bucketOf(r.Key, buckets)
		ordered[next[b]] = r
		next[b]++
	}
	for i := range places {
		places[i] = emptyBucket
	}
	return places, ordered
}
