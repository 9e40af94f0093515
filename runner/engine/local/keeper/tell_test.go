package keeper

import (
	"slices"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
)

// The keeper reports Running once, before any other event of the attempt, but delays it a little so
// that it can travel with an early end.
func TestRunningIsReportedOnce(t *testing.T) {
	said := make(chan string, 10)
	k := &keeper{tell: func(m *wire.Message) { said <- m.Op }}
	a := newAttempt(k, &engine.Launch{})
	a.unreported = &engine.Running{PID: 1}
	a.send(&wire.Message{Op: wire.Declined})
	a.send(&wire.Message{Op: wire.Background})
	if got, want := []string{<-said, <-said, <-said}, []string{wire.Running, wire.Declined, wire.Background}; !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
	ends := make(chan end)
	a.unreported, a.exit = &engine.Running{PID: 1}, ends
	go func() {
		if got := <-said; got != wire.Running {
			t.Errorf("reported %q, want Running", got)
		}
		ends <- end{}
	}()
	began := time.Now()
	a.follow()
	if took := time.Since(began); took < sendWithin {
		t.Errorf("Running was reported after %v, want at least %v", took, sendWithin)
	}
	if a.unreported != nil || len(said) > 0 {
		t.Error("Running was reported twice")
	}
}
