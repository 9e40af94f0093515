package web

import (
	"context"
	"sync"
	"time"
)

// A watch reads a value repeatedly while clients ask for it, and shares it among them.
type watch[T comparable] struct {
	server *Server
	get    func(context.Context) (T, error)
	every  time.Duration

	one sync.Mutex // held during a reading

	mu      sync.Mutex
	asked   time.Time // time of the last request
	reading bool
	first   chan struct{} // closed after the first reading since run started
	news    chan struct{} // closed when the value changes
	now     T
	err     error // from the last reading
}

// pauseFactor is the pause after a reading, as a multiple of the time that the shorter of the last
// two readings took. So a single slow reading, such as the first one, causes no long pause.
const pauseFactor = 10

func newWatch[T comparable](s *Server, every time.Duration, get func(context.Context) (T, error)) *watch[T] {
	return &watch[T]{server: s, get: get, every: every, news: make(chan struct{})}
}

// read returns the current value, which is at most about one interval old.
func (w *watch[T]) read(ctx context.Context) (T, error) {
	w.mu.Lock()
	w.asked = time.Now()
	if !w.reading {
		w.reading, w.first = true, make(chan struct{})
		w.server.spawn(w.run)
	}
	first := w.first
	w.mu.Unlock()
	select {
	case <-first:
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now, w.err
}

// next returns a channel that is closed when the value is no longer v.
func (w *watch[T]) next(v T) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = time.Now()
	if w.now != v {
		return closed
	}
	return w.news
}

func (w *watch[T]) last() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// run reads the value until no client asks for it any more.
func (w *watch[T]) run() {
	for first, before, took := true, time.Duration(0), time.Duration(0); ; first = false {
		before, took = took, w.readOnce()
		w.mu.Lock()
		if first {
			close(w.first)
		}
		if time.Since(w.asked) > w.server.Limits.Idle || w.server.ctx.Err() != nil {
			w.reading = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		select {
		case <-time.After(max(w.every, pauseFactor*min(before, took))):
		case <-w.server.ctx.Done():
		}
	}
}

func (w *watch[T]) readOnce() (took time.Duration) {
	w.one.Lock()
	defer w.one.Unlock()
	began := time.Now()
	v, err := w.get(w.server.ctx)
	took = time.Since(began)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err = err; err == nil && v != w.now {
		w.now = v
		close(w.news)
		w.news = make(chan struct{})
	}
	return took
}

// fresh reads the value, unless run is active. In that case, it returns the value that run read last,
// and waits for it if there is none yet.
func (w *watch[T]) fresh() (T, error) {
	w.mu.Lock()
	reading, first := w.reading, w.first
	w.mu.Unlock()
	if reading {
		<-first
	} else {
		w.readOnce()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now, w.err
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
