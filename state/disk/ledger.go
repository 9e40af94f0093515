package disk

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/state"
	"gpurun/state/host"
)

// maxLine is the maximum length of a ledger line, including the newline.
const maxLine = 64 << 10

// endsRoom is how many bytes must be free on disk before a job starts, so that the ends of running
// jobs and of the run still fit.
const endsRoom = 16 << 10

// A ledger is a ledger file open for appending.
type ledger struct {
	mu     sync.Mutex // the core appends while the syncer syncs and checks
	path   string
	f      *os.File
	size   int64     // size of the file, according to this run's writes
	began  int64     // size when this run opened it
	born   time.Time // of its first line
	room   int64     // size up to which disk blocks are reserved for it
	recent []byte    // lines written by this run; see remember
	torn   bool      // the last line has no newline, so write one before the next line
	taken  error     // set if someone changed the file, so that no more jobs start
	buf    []byte
	ends   []int // end offsets of the lines in buf
}

func openLedger(path string, torn bool) (*ledger, error) {
	_, statErr := os.Lstat(path)
	f, err := host.OpenOwn(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if isNotExist(statErr) {
		syncDir(filepath.Dir(path))
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &ledger{path: path, f: f, torn: torn, size: fi.Size(), began: fi.Size(), born: firstTime(f)}, nil
}

// firstTime returns the time of a ledger's first fact, or now if there is none.
func firstTime(f io.ReaderAt) time.Time {
	var first state.Fact
	if text, _, _, _ := nextLine(bufio.NewReader(io.NewSectionReader(f, 0, math.MaxInt64))); decode(text, &first) != nil {
		return time.Now()
	}
	return first.Time
}

// append writes one line per fact, all in a single write, and returns how many of them are in the
// ledger. It cuts off the partial line of a short write. If that fails, the line stays torn and the
// next append terminates it.
func (l *ledger) append(facts ...state.Fact) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.guard(); err != nil {
		return 0, err
	}
	full := l.keepRoom()
	if slices.ContainsFunc(facts, func(f state.Fact) bool { return f.Kind == state.KindStart }) {
		if l.taken != nil {
			return 0, l.taken // the syncer found the change first, and the run may not know of it yet
		}
		if full != nil {
			return 0, full
		}
	}
	l.buf, l.ends = l.buf[:0], l.ends[:0]
	if l.torn {
		l.buf = append(l.buf, '\n')
	}
	var failed error
	for i := range facts {
		b, err := encode(&facts[i])
		if err != nil {
			failed = err // the facts before it can still be written
			break
		}
		l.buf = append(append(l.buf, b...), '\n')
		l.ends = append(l.ends, len(l.buf))
	}
	if len(l.ends) == 0 {
		return 0, failed
	}
	written, err := l.f.Write(l.buf)
	for n < len(l.ends) && l.ends[n] <= written {
		n++
	}
	whole := 0 // bytes of whole lines
	if n > 0 {
		whole = l.ends[n-1]
	}
	switch {
	case written == whole || l.cut(written-whole):
		l.torn = l.torn && n == 0
		written = whole
	default:
		l.torn = true
	}
	l.size += int64(written)
	l.remember(l.buf[:whole])
	if err == nil && n < len(l.ends) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = failed
	}
	return n, err
}

// keepRoom reserves disk blocks for the next lines. It returns an error if the disk is full. Some
// file systems do not support this, and report a full disk only on write.
func (l *ledger) keepRoom() error {
	if l.size+endsRoom <= l.room {
		return nil
	}
	switch err := unix.Fallocate(int(l.f.Fd()), unix.FALLOC_FL_KEEP_SIZE, l.size, 2*endsRoom); err {
	case nil:
		l.room = l.size + 2*endsRoom
	case unix.ENOSPC, unix.EDQUOT:
		return &os.PathError{Op: "write", Path: l.path, Err: err}
	case unix.EINTR: // the next append retries
	default:
		l.room = math.MaxInt64
	}
	return nil
}

// cut removes the last n bytes, an incomplete line. A line that lacks only its newline would become
// valid once the next one follows, although append reported it as not written.
func (l *ledger) cut(n int) bool {
	l.room = 0 // truncating frees the reserved blocks
	info, err := l.f.Stat()
	return err == nil && l.f.Truncate(info.Size()-int64(n)) == nil
}

// encode returns a fact's line without its newline. If the line is too long, encode shortens or drops
// the data that can be long: commands, inputs, settings, metrics.
func encode(fact *state.Fact) ([]byte, error) {
	f := *fact
	inPaths(&f, host.Legible)
	b, err := json.Marshal(&f)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %q record of job %q: %w", fact.Kind, fact.Job, err)
	}
	if len(b) < maxLine {
		return b, nil
	}
	for _, shorten := range []func(*state.Fact){
		func(f *state.Fact) { f.Commands = shortened(f.Commands, 1<<10) },
		func(f *state.Fact) { f.Inputs = nil }, // changes to them are then detected by modification time alone
		func(f *state.Fact) { f.Params, f.Settings, f.Traits, f.Files = nil, nil, nil, nil },
		func(f *state.Fact) { f.Commands = shortened(f.Commands[:min(8, len(f.Commands))], 256) },
		func(f *state.Fact) { f.Points, f.PointsRule = nil, "" },
		func(f *state.Fact) { f.Metrics = map[string]any{"gpurun": "metrics are too long for the ledger"} },
		func(f *state.Fact) { f.Reason = f.Reason[:min(len(f.Reason), 1<<10)] },
	} {
		shorten(&f)
		if b, err = json.Marshal(&f); err != nil || len(b) < maxLine {
			return b, err
		}
	}
	return nil, fmt.Errorf("%q record of job %q is longer than 64 KiB", f.Kind, f.Job)
}

// inPaths applies change to the paths in a fact that are opened again later.
func inPaths(f *state.Fact, change func(string) string) {
	for _, path := range []*string{&f.Log, &f.Stderr, &f.Snapshot} {
		*path = change(*path)
	}
}

// shortened truncates each text to n bytes and marks truncated ones.
func shortened(texts []string, n int) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = t
		if len(t) > n {
			out[i] = t[:n] + fmt.Sprintf(" … (%d bytes)", len(t))
		}
	}
	return out
}

// fsync syncs the ledger to disk, and checks that the next run will find it.
func (l *ledger) fsync() error {
	l.mu.Lock()
	err := l.guard()
	f := l.f
	l.mu.Unlock()
	return errors.Join(err, f.Sync())
}

// look checks that no other process has changed the ledger.
func (l *ledger) look() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guard()
}

func (l *ledger) close() error { return l.f.Close() }
