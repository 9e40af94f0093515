package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"gpurun/jobspec"
)

// headline is the first line of a run: file, dialect, work dir, number of jobs and of
// usable GPUs. Reading a huge file or starting a driver takes seconds, and silence is a
// bug, so the line is written piece by piece: the files at once, the GPUs when they
// have answered.
type headline struct {
	out io.Writer

	mu      sync.Mutex
	begun   bool // part of the line is written
	timer   *time.Timer
	waiting string
}

// headlineAfter is how long nothing may appear.
const headlineAfter = 60 * time.Millisecond

// newHeadline starts the line with the file names, unless more is known soon.
func newHeadline(out io.Writer, paths []string) *headline {
	h := &headline{out: out, waiting: strings.Join(paths, ", ") + ": "}
	h.timer = time.AfterFunc(headlineAfter, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.waiting != "" {
			io.WriteString(h.out, h.waiting)
			h.begun, h.waiting = true, ""
		}
	})
	return h
}

// batch writes what is known from the files; the line stays open.
func (h *headline) batch(b *jobspec.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer.Stop()
	text := h.waiting + batchWords(b)
	h.begun, h.waiting = true, ""
	io.WriteString(h.out, text)
}

// end completes the line.
func (h *headline) end(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	io.WriteString(h.out, ", "+text+"\n")
	h.begun = false
}

// abandon ends a line that is never completed, so an error starts on its own line.
func (h *headline) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer.Stop()
	h.waiting = ""
	if h.begun {
		h.begun = false
		io.WriteString(h.out, "\n")
	}
}

// batchWords describes each file.
func batchWords(b *jobspec.Batch) string {
	parts := make([]string, len(b.Files))
	for i, f := range b.Files {
		parts[i] = fileWords(f)
	}
	return strings.Join(parts, "; ")
}

// fileWords returns "native, work dir /home/me/exp, 24 jobs".
func fileWords(f jobspec.File) string {
	return fmt.Sprintf("%s, work dir %s, %s", f.Dialect, f.WorkDir, count(f.Count, "job"))
}
