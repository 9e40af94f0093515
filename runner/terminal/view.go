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
	"slices"
	"strings"
	"sync"
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// Config describes how a view shows a run.
type Config struct {
	Screen              // shows the live view; if it is not live, a line for every event
	Open   []state.Fact // starts of earlier runs that have no end yet
	Go     func(func()) // starts the writer and handles its panics
}

// A View shows one run. It is a runner.Sink.
type View struct {
	screen  Screen        // the writer's
	live    bool          // whether it is redrawn
	wake    chan struct{} // capacity 1: there is something to write
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the writer has exited

	mu sync.Mutex
	unwritten
	gone   bool                  // the output is gone
	minute time.Time             // of the last summary line
	starts map[string]state.Fact // of live attempts, by uni_id
	alike  state.Grouping
	last   *schema.Status  // the one before; nil for none
	held   map[string]bool // causes for which held groups were reported
}

// unwritten is what the writer takes to write at once.
type unwritten struct {
	lines  []string
	lost   int            // lines dropped for lack of room
	snap   *schema.Status // the newest
	hint   string
	closed bool
}

// maxLines bounds the lines queued for a terminal that is blocked.
const maxLines = 20000

// New starts a view; Close ends it.
func New(c Config) *View {
	v := &View{
		screen: c.Screen, live: c.Live, wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		minute: time.Now(), starts: map[string]state.Fact{}, held: map[string]bool{},
	}
	for _, f := range c.Open {
		v.starts[f.UniID] = f
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
		v.starts[f.UniID] = state.Fact{GPUs: f.GPUs, Log: f.Log, Job: f.Job, Engine: f.Engine}
		if !v.live {
			v.line(f.Time, StartLine(f))
		}
	case state.KindStalled:
		v.line(f.Time, StalledLine(f))
	case state.KindRunning:
		if s, ok := v.starts[f.UniID]; ok && f.Host != "" {
			s.GPUs, s.Host = f.GPUs, f.Host
			v.starts[f.UniID] = s
			if !v.live {
				v.line(f.Time, StartLine(f))
			}
		}
	case state.KindEnd:
		start := v.starts[f.UniID]
		delete(v.starts, f.UniID)
		if !v.oneMore(f, start) {
			v.line(f.Time, EndLine(f, start))
		}
	}
}

// enoughAlike is how many ends that are alike the live view prints; it counts the rest.
const enoughAlike = 3

// oneMore reports whether enough ends like this one have had a line. What a cluster refuses is the
// same for all that it refuses.
func (v *View) oneMore(f, start state.Fact) bool {
	enough := enoughAlike
	if refused := f.Cause == state.CauseStartFailed && start.Engine != "" && start.Host == ""; refused {
		enough = 1
	} else if !v.live || f.ErrorType == "" {
		return false
	}
	i := v.alike.Add(f.Job, "", f.Failure())
	return i >= 0 && v.alike.Groups[i].Count > enough
}

// Snapshot records the state of the run.
func (v *View) Snapshot(s *schema.Status) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	v.snap = s
	for _, h := range s.Live.Held {
		if !v.held[h.Cause] {
			v.held[h.Cause] = true
			v.line(now, HeldLine(h))
		}
	}
	if !v.live {
		v.changes(s, now)
	}
	v.last = s
	v.notify()
}

// changes prints what only a snapshot tells, if nothing is redrawn. The caller holds mu.
func (v *View) changes(s *schema.Status, now time.Time) {
	last := v.last
	if last == nil {
		last = &schema.Status{Live: &schema.Live{}}
	}
	for _, text := range s.Live.Silent {
		if !slices.Contains(last.Live.Silent, text) {
			v.line(now, CleanText(text))
		}
	}
	if len(last.Live.Silent) > 0 && len(s.Live.Silent) == 0 {
		who := "it"
		if strings.Contains(last.Live.Silent[0], "keeper") {
			who = "the keeper"
		}
		v.line(now, who+" answers again")
	}
	before := map[string]string{}
	for _, j := range last.In(state.Running, state.Queued) {
		before[schema.Value(j.Attempt.UniID)] = Note(j)
	}
	for _, j := range s.In(state.Running) {
		if note := Note(j); note != before[schema.Value(j.Attempt.UniID)] && note != "" {
			v.line(now, "running     "+name(j.Name, j.Attempt.N)+", "+CleanText(note))
		}
	}
	if now.Sub(v.minute) >= time.Minute {
		v.minute = now
		v.line(now, MinuteLine(s, now))
	}
}

// Hint shows what a key press does now, until the next hint.
func (v *View) Hint(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hint = text
	if !v.live {
		v.line(time.Now(), text)
	}
	v.notify()
}

// Print shows a line above the live view.
func (v *View) Print(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line(time.Now(), text)
}

// Warn shows a warning.
func (v *View) Warn(text string) { v.Print(Paint(Yellow, Pad("warning", 12)) + CleanText(text)) }

// Close writes what is left, erases the live view and releases the terminal. It waits
// at most a second for one that is blocked, or for a machine that is too busy.
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

// Wait waits, after Close, until everything is written, or nobody reads it any more.
func (v *View) Wait() { <-v.done }

// line queues a line with its time, and the date unless somebody watches. The caller holds mu.
func (v *View) line(t time.Time, text string) {
	if v.gone {
		return
	}
	if len(v.lines) >= maxLines {
		v.lost++
		return
	}
	when := clock(t)
	if v.live {
		when = t.Local().Format(time.TimeOnly)
	}
	v.lines = append(v.lines, when+" "+text)
	v.notify()
}

func (v *View) notify() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

func (v *View) take() unwritten {
	v.mu.Lock()
	defer v.mu.Unlock()
	u := v.unwritten
	if u.lost > 0 {
		u.lines = append(u.lines, fmt.Sprintf("… %d lines omitted", u.lost))
	}
	v.lines, v.lost = nil, 0
	return u
}

// redrawPause bounds how often the live view is drawn: thousands of short jobs may end
// in a second.
const redrawPause = 50 * time.Millisecond

// write is the goroutine that owns the output. It ends after Close, or when the output
// is gone.
func (v *View) write() {
	defer close(v.done)
	for range v.wake {
		u := v.take()
		var rows []string
		size := CurrentSize()
		if v.live && u.snap != nil && !u.closed {
			rows = Frame{Snap: u.snap, Now: time.Now(), Last: LastLine, Hint: u.hint}.Rows(size)
		}
		if err := v.screen.update(u.lines, rows, size); err != nil {
			v.mu.Lock()
			v.gone, v.lines = true, nil // drop everything from now on
			v.mu.Unlock()
			return
		}
		if u.closed {
			return
		}
		if v.live {
			select {
			case <-time.After(redrawPause):
			case <-v.closing:
			}
		}
	}
}
