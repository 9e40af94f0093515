package local

import (
	"path/filepath"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/runner/engine/procs"
	"gpurun/state"
	"gpurun/state/host"
)

// An attempt that was open when the machine went down is lost. Its PIDs are meaningless, so the
// runner neither waits for processes that have them now nor ends them.
func TestAttemptsAreLostAfterReboot(t *testing.T) {
	p := sleeper(t)
	began := time.Now().Add(-time.Hour).UTC()
	for _, c := range []struct {
		name, boot string
		lost       bool
	}{{"another boot", "of another boot", true}, {"this boot", host.BootID(), false}} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "u")
			putRecord(t, dir, &wire.Record{
				State: wire.StateOpen, UniID: "u", Steps: 1, Begun: 1, Roots: []procs.ID{p.ID}, Boot: time.Hour, BootID: c.boot, End: state.End{ExitCode: -1, Started: began},
			})
			l := newLocal(engine.Config{Dir: dir})
			l.start(func() { l.out.Pump(l.events, l.stop) })
			e := newEntry(engine.Attempt{Identity: engine.Identity{UniID: "u", Dir: dir}, Started: began})
			got := make(chan *state.End, 1)
			go func() { got <- l.follow(e) }()
			if !c.lost { // the attempt is alive, and followed until the engine is closed
				if ev := <-l.events; ev.Running == nil || ev.Running.PID != p.PID {
					t.Errorf("got %+v, want Running of %d", ev, p.PID)
				}
			}
			if c.lost {
				defer close(l.stop)
			} else {
				close(l.stop)
			}
			ended := <-got
			switch {
			case !c.lost && ended != nil:
				t.Errorf("got end %+v of a living attempt", ended)
			case c.lost && (ended == nil || !ended.Lost || ended.Void || ended.Elapsed != 0 || !ended.Started.Equal(began)):
				t.Errorf("got %+v, want it lost, with the start of the ledger", ended)
			}
			if !procs.Alive(p.ID) {
				t.Error("the process that has the PID now was ended")
			}
		})
	}
}
