package terminal

import (
	"bytes"
	"os"
	"syscall"
)

// tails reads the last lines of logs, each again only when it has grown.
type tails map[string]tailed

type tailed struct {
	size int64
	line string
	used bool
}

// tailBytes is how much of a log's end is searched for its last line.
const tailBytes = 4096

// line returns the last non-empty line of the log at path, cleaned.
func (t tails) line(path string) string {
	if path == "" {
		return ""
	}
	// The job file may name anything as a log; a FIFO must not block the view.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	old, ok := t[path]
	if ok && old.size == fi.Size() {
		t[path] = tailed{old.size, old.line, true}
		return old.line
	}
	from := max(fi.Size()-tailBytes, 0)
	b := make([]byte, fi.Size()-from)
	n, _ := f.ReadAt(b, from)
	line := lastLine(b[:n])
	t[path] = tailed{fi.Size(), line, true}
	return line
}

// forget drops logs that were not asked for since the last call.
func (t tails) forget() {
	for path, v := range t {
		if !v.used {
			delete(t, path)
			continue
		}
		v.used = false
		t[path] = v
	}
}

// lastLine returns the last non-empty line of b.
func lastLine(b []byte) string {
	for len(b) > 0 {
		i := bytes.LastIndexByte(b, '\n')
		if s := Clean(string(b[i+1:])); s != "" {
			return s
		}
		b = b[:max(i, 0)]
	}
	return ""
}

// LastLine returns the last non-empty line of the log at path, cleaned, or "".
func LastLine(path string) string { return tails{}.line(path) }
