package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The first reading of a large batch takes long. The next does not wait ten times as long.
func TestALongReadingDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Config: Config{Limits: Limits{Idle: time.Minute}}}
		s.ctx, s.end = context.WithCancel(t.Context())
		defer s.Close()
		n := 0
		w := newWatch(s, time.Millisecond, func(context.Context) (int, error) {
			if n++; n == 1 {
				time.Sleep(time.Second)
			}
			return n, nil
		})
		first, err := w.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.next(first):
		case <-time.After(8 * time.Second):
			t.Error("nothing was read for eight seconds after a reading of one second")
		}
	})
}
