// Package terminal is what a person sees of a run: on a terminal a live view of
// the jobs that run, with a bar for the batch; elsewhere a line for every start
// and end; and the summary at the end.
//
// A View is an observer: it is told facts and snapshots, and never asks. What it
// is told it only notes down; one goroutine of its own reads logs and writes, so
// that a terminal that stands still (Ctrl-S, a slow connection) holds up nothing.
// A terminal that is gone is no error: the run goes on without it.
//
// What is drawn is worked out by pure functions, from a width and a Frame or a
// Fact to lines of text. Names and log lines are cleaned before they are shown.
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

// Config says how a view shows a run.
type Config struct {
	Out   io.Writer
	Live  bool             // Out is a terminal and is to be redrawn
	Color bool             // colours are wanted
	Size  func() Size      // of the terminal, asked at every redraw; nil for 80×24
	Now   func() time.Time // wall clock
	Past  []float64        // seconds that jobs of this batch took in earlier runs, for the first guess
	Open  []state.Fact     // starts of earlier runs that have no end yet
	Go    func(func())     // starts the writer, and catches its panics; nil for a bare go statement
}

// A View shows one run. It is a runner.Sink.
type View struct {
	cfg     Config
	wake    chan struct{} // capacity 1: there is something to write
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the writer has gone

	mu     sync.Mutex
	lines  []string // to be written, in order
	lost   int      // lines that had no room
	snap   *state.Snapshot
	hint   string
	closed bool
	gone   bool                  // nobody is there to see anything
	starts map[string]state.Fact // of live attempts, by uni_id
	pace   pace
	minute time.Time         // of the last summary line
	silent []string          // keepers that were last said not to answer
	behind map[string]string // by uni_id: what each attempt was last said to go on as
	alike  state.Grouping
	held   map[string]bool // causes for which a family is held, as far as told
}

// maxLines is how many lines wait for a terminal that stands still.
const maxLines = 20000

// New makes a view; Close ends it.
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

// Fact notes a fact down.
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

// enoughAlike is how many ends the live view tells one by one of those that are
// alike; it counts the others.
const enoughAlike = 3

// oneMore reports whether an end is like so many before that it needs no line.
func (v *View) oneMore(f state.Fact) bool {
	if !v.cfg.Live || f.ErrorType == "" {
		return false
	}
	i := v.alike.Add(f.Job, "", f.Failure())
	return i >= 0 && v.alike.Groups[i].Count > enoughAlike
}

// Snapshot notes down where the run is.
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

// changes prints what a snapshot says that no fact does, where nothing is redrawn.
// The caller holds mu.
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
		if r.Background != v.behind[r.UniID] {
			v.behind[r.UniID] = r.Background
			v.line(now, "running     "+name(r.Job, r.Attempt)+", "+inBackground(r))
		}
	}
}

// Hint shows what a key does now, until another hint.
func (v *View) Hint(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hint = text
	if !v.cfg.Live {
		v.line(v.cfg.Now(), text)
	}
	v.notify()
}

// Print shows a line of its own, above the live view.
func (v *View) Print(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line(v.cfg.Now(), text)
}

// Warn shows a warning when there is reason for it.
func (v *View) Warn(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line(v.cfg.Now(), paint(v.cfg.Color, Yellow, Pad("warning", 12))+CleanText(text))
}

// Close writes what is left, takes the live view off the screen and lets go of
// the terminal. It waits at most a second for one that stands still.
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

// line queues one; with its time where nothing is redrawn. The caller holds mu.
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

// job is what the writer takes over from the noted down, in one go.
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
		j.lines = append(j.lines, fmt.Sprintf("… %d lines left out", v.lost))
		v.lost = 0
	}
	if v.cfg.Live && v.snap != nil && !v.closed {
		now := v.cfg.Now()
		j.frame = &Frame{Snap: *v.snap, Now: now, ETA: v.pace.left(*v.snap, now), Hint: v.hint, Color: v.cfg.Color}
	}
	return j
}

// redrawPause bounds how often the live view is drawn; thousands of short jobs
// may end in a second.
const redrawPause = 50 * time.Millisecond

// write is the goroutine that owns the output. It ends after Close, or when the
// output is gone.
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

// draw is the text of one update.
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

// leave has everything dropped from now on.
func (v *View) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone, v.lines = true, nil
}
