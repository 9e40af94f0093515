package web

import (
	"context"
	"sync"
	"time"
)

// A watch is something that is read as long as somebody asks for it: once for all who do.
type watch[T comparable] struct {
	server *Server
	get    func(context.Context) (T, error)
	every  time.Duration

	one sync.Mutex // held while it is read

	mu      sync.Mutex
	asked   time.Time // when somebody last did
	reading bool
	first   chan struct{} // closed once it has been read since reading began
	news    chan struct{} // closed when there is another value
	now     T
	err     error // of the last reading
}

// restFor bounds what reading costs, as a multiple of the time that it takes. One that is long
// once, such as the first, which reads everything, is followed by shorter ones.
const restFor = 10

func newWatch[T comparable](s *Server, every time.Duration, get func(context.Context) (T, error)) *watch[T] {
	return &watch[T]{server: s, get: get, every: every, news: make(chan struct{})}
}

// read returns the present value. It is about as old as the time between two readings.
func (w *watch[T]) read(ctx context.Context) (T, error) {
	w.mu.Lock()
	w.asked = time.Now()
	if !w.reading {
		w.reading, w.first = true, make(chan struct{})
		w.server.goes(w.run)
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

// next returns a channel that is closed when there is another value than v.
func (w *watch[T]) next(v T) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = time.Now()
	if w.now != v {
		return closed
	}
	return w.news
}

// last returns the value that was read last.
func (w *watch[T]) last() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// run reads until nobody asks.
func (w *watch[T]) run() {
	for first, before, took := true, time.Duration(0), time.Duration(0); ; first = false {
		before, took = took, w.look()
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
		case <-time.After(max(w.every, restFor*min(before, took))):
		case <-w.server.ctx.Done():
		}
	}
}

// look reads once.
func (w *watch[T]) look() (took time.Duration) {
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

// fresh reads if nobody else does, and waits for the first value of somebody who does.
func (w *watch[T]) fresh() (T, error) {
	w.mu.Lock()
	reading, first := w.reading, w.first
	w.mu.Unlock()
	if reading {
		<-first
	} else {
		w.look()
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
