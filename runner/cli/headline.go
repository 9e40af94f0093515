package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"gpurun/jobspec"
)

// headline is the first line of a run. It names file, dialect, work dir, number
// of jobs and how many GPUs may be used. Reading a huge file or starting a driver
// takes seconds, and silence is a bug, so the line is written as it comes to be
// known: the files at once, the GPUs when they have answered.
type headline struct {
	out io.Writer

	mu      sync.Mutex
	begun   bool // something of the line is written
	timer   *time.Timer
	waiting string
}

// patience is how long nothing may be seen.
const headlineAfter = 60 * time.Millisecond

// newHeadline begins the line with the names of the files, unless more is known soon.
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

// batch writes what the files say; the line stays open.
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

// abandon ends a line that is never completed, so that an error stands on its own.
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

// batchWords is "native, work dir /home/me/exp, 24 jobs".
func batchWords(b *jobspec.Batch) string {
	parts := make([]string, len(b.Files))
	for i, f := range b.Files {
		parts[i] = fmt.Sprintf("%s, work dir %s, %s", f.Dialect, f.WorkDir, count(f.Count, "job"))
	}
	return strings.Join(parts, "; ")
}
