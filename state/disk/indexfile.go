package disk

import (
	"os"
	"path/filepath"

	"gpurun/state"
)

// When an index is worth its writing, in bytes of the ledger behind the last one.
const (
	indexFrom  = 4 << 20   // less is read in a moment
	indexShare = 8         // nor less than one part in so many of what is covered already
	indexClose = 256 << 20 // more is left to the next run, which reads it anyway
)

// base lets a reader begin with the index of its ledger, if there is one.
func (r *reader) base(h *state.History, file int) {
	r.found = func(ledger *os.File) {
		x, err := openIndex(indexPath(r.path), ledger, file)
		if err != nil {
			return
		}
		if _, err := ledger.Seek(x.Offset, 0); err != nil {
			return
		}
		r.from, r.offset, r.line, r.host = x.Offset, x.Offset, int(x.Line), x.host
		h.Found(file, x, x.Seq)
	}
}

func indexPath(ledger string) string { return filepath.Join(filepath.Dir(ledger), indexName) }

// index writes the index of a ledger that has just been read into h, if that is
// worth it. What is not simply an end (a broken line, an attempt that is open)
// is better read from the ledger itself.
func (r *reader) index(h *state.History, file int) {
	added := r.offset - r.from
	if added < indexFrom || added < r.from/indexShare || r.torn || len(r.warnings) > 0 {
		return
	}
	for _, a := range h.Open {
		if a.Ledger == file {
			return
		}
	}
	// Without an index everything goes as before, only later.
	_ = r.writeIndex(h, file)
}

func (r *reader) writeIndex(h *state.History, file int) error {
	ledger, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer ledger.Close()
	tie, err := tieOf(ledger, r.offset)
	if err != nil {
		return err
	}
	// A crash may leave half of it in its place: its checksum tells. So it need not
	// be carried to the disk, which would take longer than all else.
	tmp, err := os.CreateTemp(filepath.Dir(r.path), indexName+".*")
	if err != nil {
		return err
	}
	err = writeIndex(tmp, h, file, header{Offset: r.offset, Line: int64(r.line), Seq: h.Seq(), Tie: tie}, r.host)
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), indexPath(r.path))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// freshen writes the index of what this run has added, so that the next one need
// not read it.
func (s *State) freshen(file int) {
	added := s.ledgers[file].added
	if added < indexFrom || added > indexClose {
		return
	}
	h := state.NewHistory()
	r := newReader(filepath.Join(s.dirs[file], ledgerName), func(f state.Fact) { h.Apply(file, f) })
	r.base(h, file)
	if r.read() == nil {
		r.index(h, file)
	}
}
