// Package workers keeps goroutines for the next thing to do. A new goroutine begins
// with a stack of 2 KiB, which is copied each time that it proves too small: for
// what lasts a fraction of a millisecond that is a good part of the work.
package workers

// A Pool runs functions beside its caller. As many goroutines stay as have been
// busy at one time.
type Pool struct {
	next  chan func()
	start func(func())
	done  <-chan struct{}
}

// New makes a pool. start starts a goroutine; those that wait for work end when
// done is closed.
func New(start func(func()), done <-chan struct{}) *Pool {
	return &Pool{next: make(chan func()), start: start, done: done}
}

// Run runs f beside the caller, and never waits.
func (p *Pool) Run(f func()) {
	select {
	case p.next <- f: // somebody was waiting for it
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
