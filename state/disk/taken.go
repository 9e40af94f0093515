package disk

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gpurun/state/host"
)

// A TakenError reports that someone changed a run's state while it was running.
type TakenError struct {
	What string // "removed ledger.jsonl"
	Err  error  // why the run's records could not be restored; nil if they were
}

func (e *TakenError) Error() string {
	text := "another process " + e.What + " during this run"
	if e.Err != nil {
		return text + ", and restoring the run's records failed: " + e.Err.Error()
	}
	return text
}

// intact checks that the ledger's path still leads to the same file, and that the file has the size
// this run expects. If not, it returns what happened. The caller holds l.mu.
func (l *ledger) intact() (what string) {
	var st, at unix.Stat_t
	if unix.Fstat(int(l.f.Fd()), &st) != nil {
		return ""
	}
	switch err := unix.Lstat(l.path, &at); {
	case err == unix.ENOENT || err == unix.ENOTDIR:
		if now, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", l.f.Fd())); sameFile(l.f, now) {
			return "moved " + ledgerName + " to " + now
		}
		return "removed " + ledgerName
	case err != nil:
		return "" // unknown
	case at.Dev != st.Dev || at.Ino != st.Ino:
		return "replaced " + ledgerName
	case st.Size < l.size:
		return "truncated " + ledgerName
	case st.Size > l.size:
		return "edited " + ledgerName
	}
	return ""
}

// guard restores the lines that the ledger lacks because someone changed it: all lines if the ledger
// is gone, else this run's lines. It returns an error, once per change, unless no line was lost. The
// caller holds l.mu.
func (l *ledger) guard() error {
	what := l.intact()
	if what == "" {
		return nil
	}
	put, err := l.putBack()
	if err == nil && put == 0 && l.intact() == "" {
		return nil // someone appended to it; nothing is lost
	}
	l.taken = &TakenError{What: what, Err: err}
	return l.taken
}

// putBack reopens the ledger by its path and appends the lines it lacks. It returns their size in
// bytes.
func (l *ledger) putBack() (n int, err error) {
	if err := makeFolder(filepath.Dir(l.path)); err != nil {
		return 0, err
	}
	f, err := host.OpenOwn(l.path, os.O_RDWR|os.O_APPEND, 0)
	gone := isNotExist(err)
	if gone {
		f, err = host.OpenOwn(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
	}
	if err != nil {
		return 0, host.Cause(err)
	}
	defer func() {
		if err != nil {
			if gone { // the next try must restore all lines, too
				_ = os.Remove(l.path)
			}
			f.Close()
			err = host.Cause(err)
		}
	}()
	own, err := l.lines(f, gone)
	if err != nil {
		return 0, err
	}
	lacking, torn, err := missing(f, own)
	if err != nil {
		return 0, err
	}
	if _, err := f.Write(lacking); err != nil {
		return 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	l.f.Close()
	l.f, l.torn, l.size, l.began, l.room = f, torn && len(lacking) == 0, fi.Size(), 0, 0
	return len(lacking), nil
}

// lines returns the lines that the ledger must contain: all lines if all is set, else this run's. If
// another file is now at the ledger's path, they are read from the file that is still open. If the
// ledger was edited in place, only the remembered lines are left.
func (l *ledger) lines(now *os.File, all bool) ([]byte, error) {
	fi, err := l.f.Stat()
	if err != nil {
		return nil, err
	}
	if sameFile(l.f, now.Name()) || fi.Size() != l.size {
		return l.recent, nil
	}
	from := l.began
	if all {
		from = 0
	}
	b := make([]byte, l.size-from)
	_, err = l.f.ReadAt(b, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b, err
}

// missing returns the lines in own that a ledger lacks, ready to be appended, and whether the
// ledger's last line has no newline.
func missing(f *os.File, own []byte) (out []byte, torn bool, err error) {
	seed := maphash.MakeSeed()
	has := map[uint64]bool{}
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), 256<<10)
	for {
		text, _, whole, err := nextLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, fmt.Errorf("cannot read the ledger: %w", err)
		}
		if !whole {
			torn = len(text) > 0
			break
		}
		has[maphash.Bytes(seed, text)] = true
	}
	for line := range bytes.Lines(own) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) > 0 && !has[maphash.Bytes(seed, line)] {
			out = append(append(out, line...), '\n')
		}
	}
	if torn && len(out) > 0 {
		out = append([]byte{'\n'}, out...)
	}
	return out, torn, nil
}

// maxRecent bounds how many bytes of its own lines a run remembers.
const maxRecent = 16 << 20

// remember keeps the most recent lines written by this run.
func (l *ledger) remember(lines []byte) {
	if len(l.recent)+len(lines) > maxRecent {
		half := l.recent[len(l.recent)/2:]
		l.recent = append([]byte(nil), half[bytes.IndexByte(half, '\n')+1:]...)
	}
	l.recent = append(l.recent, lines...)
}
