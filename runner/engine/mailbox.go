package engine

import "sync"

// A Mailbox holds any number of items until they are taken.
type Mailbox[T any] struct {
	Poked chan struct{} // receives a value when there are items to take
	mu    sync.Mutex
	all   []T
}

// NewMailbox returns an empty mailbox.
func NewMailbox[T any]() *Mailbox[T] { return &Mailbox[T]{Poked: make(chan struct{}, 1)} }

// Put adds an item. Any goroutine may call it, and it never waits.
func (m *Mailbox[T]) Put(x T) {
	m.mu.Lock()
	m.all = append(m.all, x)
	m.mu.Unlock()
	Poke(m.Poked)
}

// Take removes and returns all items.
func (m *Mailbox[T]) Take() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all
	m.all = nil
	return all
}

// Pump sends a mailbox's items to a channel until quit is closed.
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

// Poke sends to a channel unless its buffer is full.
func Poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
