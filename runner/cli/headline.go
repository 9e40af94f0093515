package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"gpurun/jobspec"
	"gpurun/state"
)

// headline is the first line of a run's output: file, dialect, work dir, and the numbers of jobs
// and usable GPUs. Reading a huge file or starting a driver takes seconds, so the line is written
// in parts: the files immediately, the GPUs once they have answered.
type headline struct {
	out   io.Writer
	paths string
	named func() bool // stops the timer and reports whether the paths were written
	open  bool        // the line is incomplete, but contains more than the paths
}

// headlineAfter is how long to wait for the batch before writing only the paths.
const headlineAfter = 60 * time.Millisecond

// newHeadline returns a headline. It writes the file names if reading the batch takes longer than
// headlineAfter.
func newHeadline(out io.Writer, paths []string) *headline {
	h := &headline{out: out, paths: strings.Join(paths, ", ") + ": "}
	h.named = unlessStopped(headlineAfter, func() { io.WriteString(out, h.paths) })
	return h
}

// batch writes a summary of the files, and leaves the line open.
func (h *headline) batch(b *jobspec.Batch) {
	if !h.named() {
		io.WriteString(h.out, h.paths)
	}
	words := names(len(b.Files), func(i int) string { return fileWords(b.Files[i]) })
	io.WriteString(h.out, strings.Join(words, "; "))
	h.open = true
}

// end completes the line.
func (h *headline) end(text string) { io.WriteString(h.out, ", "+text+"\n") }

// abandon ends an incomplete line, so that an error starts on its own line.
func (h *headline) abandon() {
	if h.named() || h.open {
		io.WriteString(h.out, "\n")
	}
}

// fileWords returns "native, work dir /home/me/exp, 24 jobs".
func fileWords(f jobspec.File) string {
	return fmt.Sprintf("%s, work dir %s, %s", f.Dialect, f.WorkDir, state.Count(f.Count, "job"))
}

// unlessStopped calls f after some time unless stop is called first. stop reports whether f was
// called.
func unlessStopped(after time.Duration, f func()) (stop func() bool) {
	var once sync.Once
	ran := false
	timer := time.AfterFunc(after, func() {
		once.Do(func() {
			f()
			ran = true
		})
	})
	return func() bool {
		timer.Stop()
		once.Do(func() {})
		return ran
	}
}
