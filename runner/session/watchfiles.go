package session

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gpurun/jobspec"
	"gpurun/runner"
	"gpurun/runner/batches"
	"gpurun/state"
	"gpurun/state/disk"
	"gpurun/state/host"
	"gpurun/state/schema"
)

// WatchInterval is how often a run with --watch checks its files for changes. It polls because a
// network file system does not report changes. Tests shorten it.
var WatchInterval = time.Second

// A fileWatch detects changes to the files of a batch: job files, parameter tables, config bases,
// settings.
type fileWatch struct {
	jobFiles []string
	again    chan<- struct{}
	say      func(string)
	idle     bool // the message that all jobs are done has been printed

	mu    sync.Mutex
	known map[string]host.Stamp // state of each file just before it was last read
	noted map[string]host.Stamp // the same for the reading in progress
}

// begin starts a reading. Callers call note before they read each file, and end after the last one,
// so that changes during the reading are detected. After a failed reading, the files of the
// previous one stay watched, since the failed one may have missed some.
func (w *fileWatch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noted = map[string]host.Stamp{}
	for _, path := range w.jobFiles {
		w.noted[path] = host.StampOf(path)
	}
}

func (w *fileWatch) note(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.noted[path]; !known {
		w.noted[path] = host.StampOf(path)
	}
}

func (w *fileWatch) end(failed bool) (read []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, was := range w.known {
		if _, again := w.noted[path]; failed && !again {
			w.noted[path] = was
		}
	}
	w.known, w.noted = w.noted, nil
	return slices.Sorted(maps.Keys(w.known))
}

// run watches until done is closed. It reports a change only after the file has stayed the same for
// one check, since a write may still be in progress.
func (w *fileWatch) run(done <-chan struct{}) {
	before := map[string]host.Stamp{}
	for {
		select {
		case <-done:
			return
		case <-time.After(WatchInterval):
		}
		if w.changed(before) {
			select {
			case w.again <- struct{}{}:
			default: // a reload is already pending
			}
		}
	}
}

// changed reports whether a file has changed since it was last read, but not since the previous
// check. It reports each change once.
func (w *fileWatch) changed(before map[string]host.Stamp) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	settled := true
	now := map[string]host.Stamp{}
	for path, was := range w.known {
		now[path] = host.StampOf(path)
		if now[path] != was {
			changed = true
			if last, looked := before[path]; !looked || last != now[path] {
				settled = false
			}
		}
	}
	maps.Copy(before, now)
	if changed && settled {
		maps.Copy(w.known, now)
	}
	return changed && settled
}

func (w *fileWatch) Fact(int, state.Fact) {}

// Snapshot prints a message when all jobs are done.
func (w *fileWatch) Snapshot(s *schema.Status) {
	if s.Is(schema.RunWatching) && !w.idle {
		var files []string
		for _, f := range w.jobFiles {
			files = append(files, batches.Shown(f))
		}
		w.say("all done; watching for changes in " + strings.Join(files, ", ") + " (gpurun stop --drain ends the run)")
	}
	w.idle = s.Is(schema.RunWatching)
}

// watchFiles starts watching the job files before they are read.
func (r *Run) watchFiles(paths []string) error {
	if !r.Watch {
		return nil
	}
	r.changes = &fileWatch{jobFiles: paths}
	return atStart(onlyOurs(paths))
}

func atStart(err error) error {
	if err == nil {
		return nil
	}
	return &batches.Failure{Code: batches.ExitUsage, Text: err.Error(), Hint: "nothing was started; without --watch, gpurun reads the files only once, at the start", Err: err}
}

// load loads a batch and from then on watches its files; with a nil w, it only loads. It refuses
// files that other users can modify, since those could run any command as this user.
func (w *fileWatch) load(paths []string, o jobspec.Options, load func([]string, jobspec.Options) (*jobspec.Batch, error)) (*jobspec.Batch, error) {
	if w == nil {
		return load(paths, o)
	}
	w.begin()
	o.Reading = w.note
	b, err := load(paths, o)
	read := w.end(err != nil)
	if err == nil {
		err = onlyOurs(read)
	}
	return b, err
}

func onlyOurs(paths []string) error {
	for _, path := range paths {
		if err := disk.CheckOwnership(path); err != nil {
			return &runner.Mistake{Text: "--watch would run jobs that are later added to the files, but " + err.Error()}
		}
	}
	return nil
}

// sinks adds the sinks that the run's settings and flags require, and starts watching its files.
func (r *Run) sinks(sinks []runner.Sink, sig *signals, view Viewer) []runner.Sink {
	if r.Detached != nil {
		sinks = append(sinks, r.Detached)
	}
	if w := r.changes; w != nil {
		done := make(chan struct{})
		r.OnClose(func() { close(done) })
		w.again, w.say = sig.again, view.Print
		r.Go(func() { w.run(done) })
		sinks = append(sinks, w)
	}
	return sinks
}
