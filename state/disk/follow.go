package disk

import (
	"bufio"
	"io"
	"os"
	"path/filepath"

	"gpurun/state"
)

// A Follower reads what is added to a ledger while a run writes it.
type Follower struct {
	path string
	from int64
}

// Follow begins at the end of the ledger in a batch's folder.
func Follow(dir string) *Follower {
	f := &Follower{path: filepath.Join(dir, ledgerName)}
	if fi, err := os.Stat(f.path); err == nil {
		f.from = fi.Size()
	}
	return f
}

// Next gives the facts that have been added since the last call. A line that is
// being written waits for its end; a broken one says nothing.
func (f *Follower) Next(take func(state.Fact)) {
	file, err := os.Open(f.path)
	if err != nil {
		return
	}
	defer file.Close()
	if _, err := file.Seek(f.from, io.SeekStart); err != nil {
		return
	}
	for in := bufio.NewReader(file); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		f.from += int64(len(line))
		if fact, err := decode(line[:len(line)-1]); err == nil {
			take(fact)
		}
	}
}
