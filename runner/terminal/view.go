// Package terminal shows a run to the user. On a terminal, it shows a live view of the running
// jobs; elsewhere, a line for each start and end. Both end with a summary.
//
// The methods of a View that receive facts and snapshots only store them. A separate goroutine reads
// logs and writes to the terminal, so a blocked terminal (Ctrl-S, a slow connection) does not block
// the run. A terminal that disappears is not an error: the run continues without it.
//
// Pure functions format a Frame or a Fact as lines of a given width. They clean names and log lines.
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

// Config configures a View.
type Config struct {
	Screen              // shows the live view or, if it is not live, a line for each event
	Open   []state.Fact // starts of attempts from earlier runs that have not ended
	Go     func(func()) // starts the writer and handles its panics
}

// A View shows a run. It implements runner.Sink.
type View struct {
	screen  Screen        // used only by the writer
	live    bool          // the screen is redrawn
	wake    chan struct{} // capacity 1; signals that there is something to write
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the writer has exited

	mu sync.Mutex
	unwritten
	gone   bool                  // writing to the output has failed
	minute time.Time             // when the last MinuteLine was printed
	starts map[string]state.Fact // of open attempts, by uni_id
	ends   map[string]int        // failed attempts by kind
	last   *schema.Status        // the previous snapshot, or nil
	held   map[string]bool       // causes for which held groups were reported
}

// unwritten is the state that the writer takes for its next write.
type unwritten struct {
	lines  []string
	lost   int            // lines dropped because the queue was full
	snap   *schema.Status // the newest snapshot
	hint   string
	closed bool
}

// maxLines is how many lines are queued for a blocked terminal.
const maxLines = 20000

// New starts a view, which Close ends.
func New(c Config) *View {
	v := &View{
		screen: c.Screen, live: c.Live, wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		minute: time.Now(), starts: map[string]state.Fact{}, held: map[string]bool{}, ends: map[string]int{},
	}
	for _, f := range c.Open {
		v.starts[f.UniID] = f
	}
	c.Go(v.write)
	return v
}

// Fact receives a fact.
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
		if !v.repeats(f, start) {
			v.line(f.Time, EndLine(f, start))
		}
	}
}

// maxEqualEnds is how many equal failures the live view prints before it only counts them.
const maxEqualEnds = 3

// repeats reports whether enough ends like this one have been printed. A refusal by a cluster is
// printed only once per reason, since the cluster refuses all similar jobs for that reason.
func (v *View) repeats(f, start state.Fact) bool {
	enough := maxEqualEnds
	if refused := f.Cause == state.CauseStartFailed && start.Engine != "" && start.Host == ""; refused {
		enough = 1
	} else if !v.live || f.ErrorType == "" {
		return false
	}
	kind := f.Failure().Kind()
	v.ends[kind]++
	return v.ends[kind] > enough
}

// Snapshot receives the state of the run.
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

// changes prints changes that have no fact, for outputs without a live view. The caller holds mu.
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
		who := "the cluster"
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

// Hint shows what the next key press does, until the next call.
func (v *View) Hint(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hint = text
	if !v.live {
		v.line(time.Now(), text)
	}
	v.notify()
}

// Print prints a line above the live view.
func (v *View) Print(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line(time.Now(), text)
}

// Warn prints a warning.
func (v *View) Warn(text string) { v.Print(Paint(Yellow, Pad("warning", 12)) + CleanText(text)) }

// Close writes the remaining lines, erases the live view and releases the terminal. If the terminal
// is blocked or the machine is busy, it gives up after a second.
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

// Wait blocks, after Close, until everything is written or the output has failed.
func (v *View) Wait() { <-v.done }

// line queues a line with the time and, outside the live view, the date. The caller holds mu.
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

// redrawPause is the least time between redraws: thousands of short jobs may end in one second.
const redrawPause = 50 * time.Millisecond

// write is the goroutine that owns the output. It ends after Close, or when writing fails.
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
			v.gone, v.lines = true, nil // discard further lines
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
