package procs

import (
	"testing"
	"time"

	"gpurun/state/host"
)

func TestEndingKeepsTheEarliestKill(t *testing.T) {
	var e Ending
	if e.Look() != nil || e.Stuck() {
		t.Error("an ending that has not begun is due or stuck")
	}
	e.Begin(time.Hour)
	first := e.killAt
	e.Begin(2 * time.Hour)
	if e.killAt != first {
		t.Error("a second Begin delayed SIGKILL")
	}
	e.Begin(0)
	e.Signal(nil, ID{})
	if !e.killed || e.Stuck() {
		t.Errorf("killed %v, stuck %v, want true, false", e.killed, e.Stuck())
	}
	e.killedAt -= stuckAfter
	if !e.Stuck() {
		t.Errorf("not stuck %v after SIGKILL", stuckAfter)
	}
}

func TestAlarmFiresWhenDue(t *testing.T) {
	var a Alarm
	if a.C() != nil || a.Due() {
		t.Error("an alarm that is off is due or has a channel")
	}
	a.Set(host.Boottime() + time.Millisecond)
	for !a.Due() {
		<-a.C()
	}
	if left := a.at - host.Boottime(); left > 0 || a.C() != nil {
		t.Errorf("due %v early, or still on", left)
	}
	a.Set(host.Boottime() + time.Hour)
	if a.Due() {
		t.Error("due an hour early")
	}
	a.Off()
}
