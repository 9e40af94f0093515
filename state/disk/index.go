package disk

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strings"

	"gpurun/state"
	"gpurun/state/host"
)

// indexName is a file next to the ledger with the result of its lines up to some
// point, so that only later lines must be read: those of 100,000 jobs take most of a
// second. It is derived data. If it is missing, broken or of another ledger, it is
// ignored and the whole ledger is read.
const indexName = "ledger.index"

// An index consists of, in this order:
//
//	magic; header; aside, as JSON
//	the entries, the records (packed.go)
//	a checksum of all of the above
type index struct {
	header
	aside aside
	base  *packed
}

// aside is what a reader finds besides records.
type aside struct {
	Run      state.Fact // the last one
	Warnings []string   // of the lines that are covered
}

// header is the fixed-size header of an index.
type header struct {
	Offset  int64  // bytes of the ledger covered, in complete lines
	Line    int64  // lines in them
	Seq     int64  // facts applied up to there
	Sum     uint32 // of these bytes
	Entries uint32
	Aside   uint32 // its size in bytes
}

const indexMagic = "gpurun ledger index 5\n"

var errNoIndex = errors.New("no usable index")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openIndex reads the index of a ledger that is open for reading.
func openIndex(path string, ledger *os.File, file int) (*index, error) {
	f, err := host.OpenOwn(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, errNoIndex
	}
	x, err := readIndex(f, fi.Size(), file)
	if err != nil {
		return nil, err
	}
	sum, err := sumOf(ledger, x.Offset)
	if err != nil || sum != x.Sum {
		return nil, errNoIndex
	}
	return x, nil
}

// readIndex reads an index of the given size and verifies it; afterwards its records
// are trusted.
func readIndex(from io.Reader, size int64, file int) (*index, error) {
	if size < 4 {
		return nil, errNoIndex
	}
	var text strings.Builder
	text.Grow(int(size))
	sum := crc32.New(castagnoli)
	if n, err := io.CopyN(io.MultiWriter(&text, sum), from, size-4); err != nil || n != size-4 {
		return nil, errNoIndex
	}
	var want [4]byte
	if _, err := io.ReadFull(from, want[:]); err != nil || binary.LittleEndian.Uint32(want[:]) != sum.Sum32() {
		return nil, errNoIndex
	}
	return parseIndex(text.String(), file)
}

// parseIndex parses an index, without its checksum.
func parseIndex(text string, file int) (*index, error) {
	size := len(indexMagic) + binary.Size(header{})
	if len(text) < size || !strings.HasPrefix(text, indexMagic) {
		return nil, errNoIndex
	}
	x := &index{base: &packed{ledger: file}}
	if _, err := binary.Decode([]byte(text[len(indexMagic):size]), binary.LittleEndian, &x.header); err != nil {
		return nil, errNoIndex
	}
	rest := text[size:]
	if int(x.Aside)+entrySize*int(x.Entries) > len(rest) {
		return nil, errNoIndex
	}
	if json.Unmarshal([]byte(rest[:x.Aside]), &x.aside) != nil {
		return nil, errNoIndex
	}
	rest = rest[x.Aside:]
	x.base.entries.read, x.base.records.read = rest[:entrySize*int(x.Entries)], rest[entrySize*int(x.Entries):]
	return x, nil
}

// sumOf returns a checksum of the part of a ledger that an index covers, since anybody
// may have edited it. Parsing the lines would take twenty times as long.
func sumOf(ledger io.ReaderAt, offset int64) (uint32, error) {
	sum := crc32.New(castagnoli)
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{io.NewSectionReader(ledger, 0, offset)}, make([]byte, 256<<10))
	if err != nil || n != offset {
		return 0, errNoIndex
	}
	return sum.Sum32(), nil
}

// writeTo writes the index.
func (x *index) writeTo(to io.Writer) error {
	aside, err := json.Marshal(x.aside)
	if err != nil {
		return err
	}
	base := x.base.living()
	x.Entries, x.Aside = uint32(base.count()), uint32(len(aside))
	sum := crc32.New(castagnoli)
	buffer := bufio.NewWriterSize(to, 256<<10)
	out := io.MultiWriter(buffer, sum)
	_, _ = io.WriteString(out, indexMagic)
	_ = binary.Write(out, binary.LittleEndian, x.header)
	_, _ = out.Write(aside)
	for _, g := range []*growing{&base.entries, &base.records} {
		for _, text := range []string{g.read, g.more.String()} {
			_, _ = io.Copy(out, strings.NewReader(text))
		}
	}
	_ = binary.Write(buffer, binary.LittleEndian, sum.Sum32())
	return buffer.Flush() // returns the first error of all writes
}
