package engine

import "sync"

// A Mailbox keeps what is put into it, however much, until it is taken.
type Mailbox[T any] struct {
	Poked chan struct{} // has something once there is more to take
	mu    sync.Mutex
	all   []T
}

// NewMailbox returns an empty mailbox.
func NewMailbox[T any]() *Mailbox[T] { return &Mailbox[T]{Poked: make(chan struct{}, 1)} }

// Put adds to a mailbox. Any goroutine may call it, and it never waits.
func (m *Mailbox[T]) Put(x T) {
	m.mu.Lock()
	m.all = append(m.all, x)
	m.mu.Unlock()
	Poke(m.Poked)
}

// Take empties a mailbox.
func (m *Mailbox[T]) Take() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all
	m.all = nil
	return all
}

// Pump passes on what is put into a mailbox until quit is closed.
func (m *Mailbox[T]) Pump(to chan<- T, quit <-chan struct{}) {
	for {
		for _, x := range m.Take() {
			select {
			case to <- x:
			case <-quit:
				return
			}
		}
		select {
		case <-m.Poked:
		case <-quit:
			return
		}
	}
}

// Poke leaves a mark in a channel that has room for one, unless it has one.
func Poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
