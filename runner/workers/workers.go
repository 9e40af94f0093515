// Package workers reuses goroutines. A new goroutine starts with a stack of 2 KiB,
// which is copied each time it proves too small. For work that takes a fraction of a
// millisecond, that is a good part of the cost.
package workers

// A Pool runs functions concurrently with its caller. It keeps as many goroutines as
// were ever busy at once.
type Pool struct {
	next  chan func()
	start func(func())
	done  <-chan struct{}
}

// New returns a pool. start starts a goroutine. Idle goroutines end when done is
// closed.
func New(start func(func()), done <-chan struct{}) *Pool {
	return &Pool{next: make(chan func()), start: start, done: done}
}

// Run runs f in a goroutine, and never blocks.
func (p *Pool) Run(f func()) {
	select {
	case p.next <- f: // an idle goroutine took it
	default:
		p.start(func() { p.work(f) })
	}
}

func (p *Pool) work(f func()) {
	for {
		f()
		select {
		case f = <-p.next:
		case <-p.done:
			return
		}
	}
}
