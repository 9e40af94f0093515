package keeper

import (
	"slices"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
)

// The keeper reports Running once, soon, and before any other event of the attempt.
func TestRunningIsReportedOnce(t *testing.T) {
	said := make(chan string, 10)
	k := &keeper{tell: func(m *wire.Message) { said <- m.Op }}
	a := newAttempt(k, &engine.Launch{})
	a.unreported = &engine.Running{PID: 1}
	a.send(&wire.Message{Op: wire.Declined})
	a.send(&wire.Message{Op: wire.Background})
	if got, want := []string{<-said, <-said, <-said}, []string{wire.Running, wire.Declined, wire.Background}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	ends := make(chan end)
	a.unreported, a.exit = &engine.Running{PID: 1}, ends
	go func() {
		if got := <-said; got != wire.Running {
			t.Errorf("told %q of one that goes on", got)
		}
		ends <- end{}
	}()
	began := time.Now()
	a.follow()
	if took := time.Since(began); took < sendWithin {
		t.Errorf("told after %v, want it to travel with an end that comes by then", took)
	}
	if a.unreported != nil || len(said) > 0 {
		t.Error("told again")
	}
}
