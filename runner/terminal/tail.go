package terminal

import (
	"bytes"
	"os"
	"syscall"
)

// tails reads the last line of logs, and reads a log again only when it has grown.
type tails map[string]tailed

type tailed struct {
	size int64
	line string
	used bool
}

// tailBytes is how much of a log's end is looked at for its last line.
const tailBytes = 4096

// line is the last line of the log at path that says anything, cleaned.
func (t tails) line(path string) string {
	if path == "" {
		return ""
	}
	// A log may be anything that the job file names; a FIFO must not block the view.
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

// forget drops what has not been asked for since the last call.
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

// lastLine is the last line of b that says anything.
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

// LastLine is the last line of the log at path that says anything, cleaned, or "".
func LastLine(path string) string { return tails{}.line(path) }
