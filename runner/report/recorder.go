// Package report shows what happened in a batch: as one file for a browser, and as data. It
// also keeps the readings of GPUs that are shown there, while a run is alive.
//
// It reads no state: the command line hands it what it knows.
package report

import (
	"time"

	"gpurun/state"
	"gpurun/state/schema"
)

// A Store keeps the readings of a batch.
type Store interface {
	Load() *state.GPUReadings
	Append(text []byte) error
	Replace(text []byte) error
}

// A Recorder follows a run, and keeps what is read of the GPUs. It never blocks, and what it
// cannot write it does without.
type Recorder struct {
	store Store
	say   func(error)
	news  chan news
	done  chan struct{}
	last  time.Time // of the latest news
}

type news struct {
	at   time.Time
	gpus []state.Pressure
}

// every is how often something is noted.
const every = time.Second

// closeFor is how long the end of a run waits for a disk that does not answer.
const closeFor = time.Second

// NewRecorder returns a sink; Close ends it. start starts a goroutine and handles its
// panics, and say is told, once, why the readings cannot be kept.
func NewRecorder(store Store, start func(func()), say func(error)) *Recorder {
	r := &Recorder{store: store, say: say, news: make(chan news, 4), done: make(chan struct{})}
	start(r.run)
	return r
}

// Snapshot notes the state of the GPUs, unless the disk is still busy with earlier ones.
func (r *Recorder) Snapshot(s *schema.Status) {
	if apart := s.Now.Sub(r.last); len(s.Live.GPUs) == 0 || apart >= 0 && apart < every {
		return
	}
	select {
	case r.news <- news{s.Now, s.Live.GPUs}:
		r.last = s.Now
	default:
	}
}

// Fact does nothing: GPUs are no facts.
func (r *Recorder) Fact(int, state.Fact) {}

// Close writes what is left. No snapshot may follow.
func (r *Recorder) Close() {
	close(r.news)
	select {
	case <-r.done:
	case <-time.After(closeFor):
	}
}

func (r *Recorder) run() {
	defer close(r.done)
	g := r.store.Load()
	stale := true // whether the file lacks more than the last row
	for n := range r.news {
		stale = r.add(g, n, stale)
	}
	if len(g.Rows) > 0 {
		r.told(r.store.Replace(g.Text(true)))
	}
}

// add adds readings, and reports whether the file lacks more than the last row.
func (r *Recorder) add(g *state.GPUReadings, n news, stale bool) bool {
	done, anew := g.Add(n.at, n.gpus)
	switch {
	case anew, stale && done != nil:
		return !r.told(r.store.Replace(g.Text(false)))
	case done != nil:
		return !r.told(r.store.Append(done.Line()))
	}
	return stale
}

// told reports whether something worked, and says why not the first time.
func (r *Recorder) told(err error) bool {
	if err != nil && r.say != nil {
		r.say(err)
		r.say = nil
	}
	return err == nil
}
