// Package terminal is what the user sees of a run: on a terminal, a live view of the
// running jobs with a bar for the batch; elsewhere, a line for every start and end; and
// the summary at the end.
//
// A View is an observer: it receives facts and snapshots, and never asks. It only stores
// them; its own goroutine reads logs and writes, so a blocked terminal (Ctrl-S, a slow
// connection) holds up nothing. A terminal that disappears is not an error: the run
// continues without it.
//
// Pure functions turn a width and a Frame or a Fact into lines of text. Names and log
// lines are cleaned before they are shown.
package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"gpurun/state"
)

// Config describes how a view shows a run.
type Config struct {
	Out   io.Writer
	Live  bool             // Out is a terminal that can be redrawn
	Color bool             // whether to use colors
	Size  func() Size      // the terminal's size, asked at every redraw; nil for 80×24
	Now   func() time.Time // wall clock
	Past  []float64        // seconds that jobs took in earlier runs, for the first estimate
	Open  []state.Fact     // starts of earlier runs that have no end yet
	Go    func(func())     // starts the writer and handles its panics; nil for a plain go statement
}

// A View shows one run. It is a runner.Sink.
type View struct {
	cfg     Config
	wake    chan struct{} // capacity 1: there is something to write
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the writer has exited

	mu     sync.Mutex
	lines  []string // to be written, in order
	lost   int      // lines dropped for lack of room
	snap   *state.Snapshot
	hint   string
	closed bool
	gone   bool                  // the output is gone
	starts map[string]state.Fact // of live attempts, by uni_id
	pace   pace
	minute time.Time         // of the last summary line
	silent []string          // keepers last reported as not answering
	behind map[string]string // by uni_id: the background process last reported
	alike  state.Grouping
	held   map[string]bool // causes for which held families were reported
}

// maxLines bounds the lines queued for a terminal that is blocked.
const maxLines = 20000

// New starts a view; Close ends it.
func New(c Config) *View {
	if c.Size == nil {
		c.Size = func() Size { return Size{80, 24} }
	}
	v := &View{
		cfg: c, wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		starts: map[string]state.Fact{}, behind: map[string]string{}, held: map[string]bool{}, minute: c.Now(),
	}
	for _, f := range c.Open {
		v.starts[f.UniID] = f
	}
	for _, s := range c.Past {
		v.pace.add(time.Duration(s * float64(time.Second)))
	}
	if c.Go == nil {
		c.Go = func(f func()) { go f() }
	}
	c.Go(v.write)
	return v
}

// Fact records a fact.
func (v *View) Fact(job int, f state.Fact) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch f.Kind {
	case state.KindStart:
		v.starts[f.UniID] = state.Fact{GPUs: f.GPUs, Log: f.Log, Job: f.Job}
		if !v.cfg.Live {
			v.line(f.Time, StartLine(f))
		}
	case state.KindEnd:
		start := v.starts[f.UniID]
		delete(v.starts, f.UniID)
		delete(v.behind, f.UniID)
		if f.State == state.Succeeded {
			v.pace.add(time.Duration(f.Seconds * float64(time.Second)))
		}
		if !v.oneMore(f) {
			v.line(f.Time, EndLine(f, start, v.cfg.Color))
		}
	}
}

// enoughAlike is how many ends that are alike the live view prints; it counts the rest.
const enoughAlike = 3

// oneMore reports whether enough ends like this one have had a line.
func (v *View) oneMore(f state.Fact) bool {
	if !v.cfg.Live || f.ErrorType == "" {
		return false
	}
	i := v.alike.Add(f.Job, "", f.Failure())
	return i >= 0 && v.alike.Groups[i].Count > enoughAlike
}

// Snapshot records the state of the run.
func (v *View) Snapshot(s state.Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.snap = &s
	now := v.cfg.Now()
	for _, h := range s.Held {
		if !v.held[h.Cause] {
			v.held[h.Cause] = true
			v.line(now, HeldLine(h))
		}
	}
	if !v.cfg.Live {
		v.changes(&s, now)
	}
	if !v.cfg.Live && now.Sub(v.minute) >= time.Minute {
		v.minute = now
		v.line(now, MinuteLine(s, now, v.pace.left(s, now)))
	}
	v.notify()
}

// changes prints what only a snapshot tells, if nothing is redrawn. The caller holds mu.
func (v *View) changes(s *state.Snapshot, now time.Time) {
	for _, text := range s.Silent {
		if !slices.Contains(v.silent, text) {
			v.line(now, CleanText(text))
		}
	}
	if len(v.silent) > 0 && len(s.Silent) == 0 {
		v.line(now, "the keeper answers again")
	}
	v.silent = s.Silent
	for _, r := range s.Running {
		if r.Note != v.behind[r.UniID] {
			v.behind[r.UniID] = r.Note
			v.line(now, "running     "+name(r.Job, r.Attempt)+", "+CleanText(r.Note))
		}
	}
}

// Hint shows what a key press does now, until the next hint.
func (v *View) Hint(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hint = text
	if !v.cfg.Live {
		v.line(v.cfg.Now(), text)
	}
	v.notify()
}

// Print shows a line above the live view.
func (v *View) Print(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line(v.cfg.Now(), text)
}

// Warn shows a warning.
func (v *View) Warn(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line(v.cfg.Now(), paint(v.cfg.Color, Yellow, Pad("warning", 12))+CleanText(text))
}

// Close writes what is left, erases the live view and releases the terminal. It waits
// at most a second for one that is blocked.
func (v *View) Close() {
	v.mu.Lock()
	if !v.closed {
		v.closed = true
		close(v.closing)
	}
	v.notify()
	v.mu.Unlock()
	select {
	case <-v.done:
	case <-time.After(time.Second):
	}
}

// line queues a line, with its time if nothing is redrawn. The caller holds mu.
func (v *View) line(t time.Time, text string) {
	if v.gone {
		return
	}
	if len(v.lines) >= maxLines {
		v.lost++
		return
	}
	if !v.cfg.Live {
		text = clock(t) + " " + text
	}
	v.lines = append(v.lines, text)
	v.notify()
}

func (v *View) notify() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// job is what the writer takes to write at once.
type job struct {
	lines  []string
	frame  *Frame
	closed bool
}

func (v *View) take() job {
	v.mu.Lock()
	defer v.mu.Unlock()
	j := job{lines: v.lines, closed: v.closed}
	v.lines = nil
	if v.lost > 0 {
		j.lines = append(j.lines, fmt.Sprintf("… %d lines omitted", v.lost))
		v.lost = 0
	}
	if v.cfg.Live && v.snap != nil && !v.closed {
		now := v.cfg.Now()
		j.frame = &Frame{Snap: *v.snap, Now: now, ETA: v.pace.left(*v.snap, now), Hint: v.hint, Color: v.cfg.Color}
	}
	return j
}

// redrawPause bounds how often the live view is drawn: thousands of short jobs may end
// in a second.
const redrawPause = 50 * time.Millisecond

// write is the goroutine that owns the output. It ends after Close, or when the output
// is gone.
func (v *View) write() {
	defer close(v.done)
	var scr screen
	last := tails{}
	for range v.wake {
		j := v.take()
		if _, err := io.WriteString(v.cfg.Out, v.draw(&scr, last, j)); err != nil {
			v.leave()
			return
		}
		if j.closed {
			return
		}
		if v.cfg.Live {
			select {
			case <-time.After(redrawPause):
			case <-v.closing:
			}
		}
	}
}

// draw returns the text of one update.
func (v *View) draw(scr *screen, last tails, j job) string {
	if !v.cfg.Live {
		if len(j.lines) == 0 {
			return ""
		}
		return strings.Join(j.lines, "\n") + "\n"
	}
	size := v.cfg.Size()
	if j.frame == nil {
		return scr.update(j.lines, nil, size)
	}
	j.frame.Last = map[string]string{}
	for i, r := range j.frame.Snap.Running {
		if i >= size.Height {
			break
		}
		j.frame.Last[r.UniID] = last.line(r.Log)
	}
	last.forget()
	return scr.update(j.lines, j.frame.Rows(size), size)
}

// leave makes the view drop everything from now on.
func (v *View) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone, v.lines = true, nil
}
