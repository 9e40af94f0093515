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

// headline is the first line of a run: file, dialect, work dir, number of jobs and of
// usable GPUs. Reading a huge file or starting a driver takes seconds, and silence is a
// bug, so the line is written piece by piece: the files at once, the GPUs when they
// have answered.
type headline struct {
	out   io.Writer
	paths string
	named func() bool // stops the clock; reports whether the paths were written
	open  bool        // more than the paths is written, but not the end
}

// headlineAfter is how long nothing may appear.
const headlineAfter = 60 * time.Millisecond

// newHeadline starts the line with the file names, unless more is known soon.
func newHeadline(out io.Writer, paths []string) *headline {
	h := &headline{out: out, paths: strings.Join(paths, ", ") + ": "}
	h.named = unlessStopped(headlineAfter, func() { io.WriteString(out, h.paths) })
	return h
}

// batch writes what is known from the files; the line stays open.
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

// abandon ends a line that is never completed, so an error starts on its own line.
func (h *headline) abandon() {
	if h.named() || h.open {
		io.WriteString(h.out, "\n")
	}
}

// fileWords returns "native, work dir /home/me/exp, 24 jobs".
func fileWords(f jobspec.File) string {
	return fmt.Sprintf("%s, work dir %s, %s", f.Dialect, f.WorkDir, state.Count(f.Count, "job"))
}

// unlessStopped runs f after some time, unless stop is called before. stop reports
// whether f has run.
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
