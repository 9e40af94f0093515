package disk

import (
	"io"
	"os"
	"path/filepath"

	"gpurun/state"
	"gpurun/state/host"
)

// When it is worth writing an index, in ledger bytes since the last one.
const (
	indexFrom  = 4 << 20 // less is read quickly anyway
	indexShare = 8       // and at least 1/indexShare of what is already covered
	indexClose = 1 << 30 // at the end of a run, leave more than this to the next run
)

// manyWarnings is more than a person reads; an index does not store that many.
const manyWarnings = 100

// settleEach is how many facts a reader keeps as records before it packs them.
const settleEach = 64 << 10

// into makes the reader apply the ledger to h, starting from its index if there is one
// and may allows it, and packing records to save memory.
func (r *reader) into(h *state.History, file int, may bool) {
	r.history, r.file, r.base, r.each = h, file, &packed{ledger: file}, settleEach
	r.found = func(ledger *os.File) {
		seq := int64(0)
		if may {
			seq = r.begin(ledger)
		}
		h.Found(file, r.base, seq)
	}
}

// begin skips what the index covers, and returns the sequence number of its last fact.
func (r *reader) begin(ledger *os.File) (seq int64) {
	x, err := openIndex(indexPath(r.path), ledger, r.file)
	if err != nil {
		return 0
	}
	if _, err := ledger.Seek(x.Offset, io.SeekStart); err != nil {
		return 0
	}
	r.from, r.offset, r.line, r.base = x.Offset, x.Offset, int(x.Line), x.base
	r.host, r.warnings = x.aside.Run, x.aside.Warnings
	return x.Seq
}

// settle packs this ledger's records from the history.
func (r *reader) settle() { r.base.put(r.history.Settle(r.file)) }

func indexPath(ledger string) string { return filepath.Join(filepath.Dir(ledger), indexName) }

// index writes the index of a ledger that has just been read into h, if that is worth
// it. What may still change (a torn line, an open attempt) is better read from the
// ledger itself.
func (r *reader) index() {
	added := r.offset - r.from
	if added < indexFrom || added < r.from/indexShare || r.torn || len(r.warnings) > manyWarnings {
		return
	}
	for _, a := range r.history.Open {
		if a.Ledger == r.file {
			return
		}
	}
	// Everything works without an index, only slower.
	_ = r.writeIndex()
}

func (r *reader) writeIndex() error {
	ledger, err := host.OpenOwn(r.path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer ledger.Close()
	sum, err := sumOf(ledger, r.offset)
	if err != nil {
		return err
	}
	// A crash may leave a partial index, which its checksum reveals. So there is no
	// need to sync it, which would take longer than everything else. Nobody else
	// writes one, because the ledger is locked.
	tmp, err := host.OpenOwn(indexPath(r.path)+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	r.settle()
	x := &index{
		header: header{Offset: r.offset, Line: int64(r.line), Seq: r.history.Seq(), Sum: sum},
		aside:  aside{r.host, r.warnings}, base: r.base,
	}
	err = x.writeTo(tmp)
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

// freshen writes the index of what this run has added, to save the next run reading
// it.
func (s *State) freshen(file int) {
	added := s.ledgers[file].added
	if added < indexFrom || added > indexClose {
		return
	}
	h := state.NewHistory()
	r := newReader(filepath.Join(s.dirs[file], ledgerName), func(f state.Fact) { h.Apply(file, f) })
	r.into(h, file, true)
	if r.read() == nil {
		r.index()
	}
}
