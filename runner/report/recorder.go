// Package report shows what happened in a batch, as a single HTML file and as JSON. During a run,
// it also records the GPU readings that the report shows.
//
// It reads no state: the command line passes in what the report needs.
package report

import (
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// A Store persists the GPU readings of a batch.
type Store interface {
	Load() *state.GPUReadings
	Append(text []byte) error
	Replace(text []byte) error
}

// A Recorder records the GPU readings of a run. It never blocks, and drops readings that it cannot
// write.
type Recorder struct {
	store    Store
	onError  func(error)
	readings chan *schema.Status
	done     chan struct{}
	last     time.Time // when the last reading was taken
}

// interval is the least time between two readings.
const interval = time.Second

// closeTimeout is how long Close waits for a disk that does not respond.
const closeTimeout = time.Second

// NewRecorder returns a sink, which Close ends. start starts a goroutine and handles its panics.
// The recorder calls say only for the first failed write.
func NewRecorder(store Store, start func(func()), say func(error)) *Recorder {
	r := &Recorder{store: store, onError: say, readings: make(chan *schema.Status, 4), done: make(chan struct{})}
	start(r.run)
	return r
}

// Snapshot records the state of the GPUs, at most once per interval. It drops the reading if the disk
// is still busy with earlier ones.
func (r *Recorder) Snapshot(s *schema.Status) {
	if apart := s.Now.Sub(r.last); len(s.Live.GPUs) == 0 || apart >= 0 && apart < interval {
		return
	}
	select {
	case r.readings <- s:
		r.last = s.Now
	default:
	}
}

// Fact does nothing: readings come with snapshots.
func (r *Recorder) Fact(int, state.Fact) {}

// Close writes the remaining readings. Do not call Snapshot after it.
func (r *Recorder) Close() {
	close(r.readings)
	select {
	case <-r.done:
	case <-time.After(closeTimeout):
	}
}

func (r *Recorder) run() {
	defer close(r.done)
	g := r.store.Load()
	stale := true // the file needs a rewrite; appending the last row is not enough
	for s := range r.readings {
		done, anew := g.Add(s.Now, s.Live.GPUs)
		switch {
		case anew, stale && done != nil:
			stale = !r.succeeded(r.store.Replace(g.Text(false)))
		case done != nil:
			stale = !r.succeeded(r.store.Append(done.Line()))
		}
	}
	if len(g.Rows) > 0 {
		r.succeeded(r.store.Replace(g.Text(true)))
	}
}

// succeeded reports whether a write succeeded, and passes the first error to onError.
func (r *Recorder) succeeded(err error) bool {
	if err != nil && r.onError != nil {
		r.onError(err)
		r.onError = nil
	}
	return err == nil
}
