package local

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A message that is not urgent goes out with the next one, in order, or by itself a
// moment later.
func TestPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		l := newLink(ours, false, plain(nil))
		var got []string
		var at []time.Duration
		began := time.Now()
		read := make(chan error)
		far := newLink(theirs, true, plain(nil))
		go func() {
			read <- far.receive(func(m *message) {
				got, at = append(got, m.Op+" "+m.UniID), append(at, time.Since(began))
			})
		}()
		send := func(f func(*message) error, op, id string) {
			if err := f(&message{Op: op, UniID: id}); err != nil {
				t.Error(err)
			}
		}
		send(l.sendSoon, opRunning, "a")
		time.Sleep(time.Millisecond)
		send(l.send, opEnded, "a")
		synctest.Wait()
		send(l.sendSoon, opRunning, "b")
		time.Sleep(time.Minute)
		send(l.sendSoon, opRunning, "c")
		l.close() // flushes it
		<-read
		far.close()
		want := []string{"running a", "ended a", "running b", "running c"}
		when := []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond + putOff, time.Minute + time.Millisecond}
		for i := range want {
			if i >= len(got) || got[i] != want[i] || at[i] != when[i] {
				t.Fatalf("got %q at %v, want %q at %v", got, at, want, when)
			}
		}
		if err := l.sendSoon(&message{Op: opRunning}); err == nil {
			t.Error("a closed link accepted a message")
		}
	})
}
