package disk

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"gpurun/state"
	"gpurun/state/host"
)

// indexName is the name of a file next to the ledger that summarizes the ledger's first part, so
// that a batch of 100,000 jobs with nothing to do need not read 300,000 lines. If it is missing,
// broken or belongs to another ledger, all lines are read. It contains a checksum, then an index
// value encoded by gob.
const indexName = "ledger.index"

// These limits decide when to write an index, in bytes of the ledger.
const (
	indexFrom  = 4 << 20 // below this, reading all lines is fast enough
	indexShare = 8       // the new part must also be at least 1/indexShare of the covered part
	indexClose = 1 << 30 // a run that added this much or more leaves the index to the next run
)

// indexFormat is the version of the format. An index of another version is ignored.
const indexFormat = 2

// manyWarnings is the maximum number of warnings in an index, more than anyone reads.
const manyWarnings = 100

// An index stores the entries field by field, because gob is fast with long slices. The covered
// part's description is JSON, because gob does not distinguish a pointer to 0, such as an exit
// status, from nil.
type index struct {
	Format       int // must be indexFormat; gob ignores unknown fields and leaves missing ones zero
	CoveredJSON  []byte
	Sum          uint32 // of the covered bytes of the ledger, which anyone may have edited
	IDs          []byte
	Starts, Ends []int64
	Forgotten    []bool
	Plains       []state.Plain
	Families     []state.SeedGroup
}

// castagnoli builds its table once, on first use.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// readIndex returns the content of an open ledger's index, or nothing if the index is invalid.
func readIndex(ledger string, f *os.File) (covered, []entry, []state.SeedGroup) {
	var x index
	var c covered
	b, err := host.ReadOwn(indexPath(ledger), 1<<40)
	switch {
	case err != nil || len(b) < 4 || binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli()),
		gob.NewDecoder(bytes.NewReader(b[4:])).Decode(&x) != nil || x.Format != indexFormat,
		json.Unmarshal(x.CoveredJSON, &c) != nil:
		return covered{}, nil, nil
	}
	n := len(x.Ends)
	if len(x.IDs) != 16*n || len(x.Starts) != n || len(x.Forgotten) != n || len(x.Plains) != n {
		return covered{}, nil, nil
	}
	if sum, err := sumOf(f, c.Offset); err != nil || sum != x.Sum {
		return covered{}, nil, nil
	}
	entries := make([]entry, n)
	for i := range entries {
		entries[i] = entry{keyID(x.IDs[16*i:]), x.Starts[i], x.Ends[i], x.Forgotten[i], x.Plains[i]}
	}
	return c, entries, x.Families
}

func writeIndex(ledger string, f *os.File, c covered, entries []entry, groups []state.SeedGroup) error {
	x := index{Format: indexFormat, Families: groups}
	for i := range entries {
		e := &entries[i]
		x.IDs, x.Starts, x.Ends = append(x.IDs, e.id[:]...), append(x.Starts, e.start), append(x.Ends, e.end)
		x.Forgotten, x.Plains = append(x.Forgotten, e.forgotten), append(x.Plains, e.plain)
	}
	var err error
	if x.CoveredJSON, err = json.Marshal(c); err != nil {
		return err
	}
	if x.Sum, err = sumOf(f, c.Offset); err != nil {
		return err
	}
	b := bytes.NewBuffer(make([]byte, 4))
	if err := gob.NewEncoder(b).Encode(x); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(b.Bytes(), crc32.Checksum(b.Bytes()[4:], castagnoli()))
	return renameio.WriteFile(indexPath(ledger), b.Bytes(), 0o644, renameio.WithTempDir(filepath.Dir(ledger)))
}

func sumOf(ledger io.ReaderAt, size int64) (uint32, error) {
	sum := crc32.New(castagnoli())
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{io.NewSectionReader(ledger, 0, size)}, make([]byte, 256<<10))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return sum.Sum32(), err
}

func indexPath(ledger string) string { return filepath.Join(filepath.Dir(ledger), indexName) }
