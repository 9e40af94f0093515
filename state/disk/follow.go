package disk

import (
	"bufio"
	"io"
	"os"
	"path/filepath"

	"gpurun/state"
)

// A Follower reads a ledger as a run appends to it.
type Follower struct {
	path string
	from int64
}

// Follow starts at the current end of the ledger in a batch's folder.
func Follow(dir string) *Follower {
	f := &Follower{path: filepath.Join(dir, ledgerName)}
	if fi, err := os.Stat(f.path); err == nil {
		f.from = fi.Size()
	}
	return f
}

// Next passes the facts added since the last call to take. An incomplete last line is
// left for the next call; broken lines are skipped.
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
		var fact state.Fact
		if decode(line[:len(line)-1], &fact) == nil {
			take(fact)
		}
	}
}
