package local

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/runner/engine/local/wire"
	"gpurun/state"
	"gpurun/state/host"
)

// If a runner does not understand a keeper's messages, it waits for the keeper's jobs and reads
// their ends from their records.
func TestRunnerWaitsForNewerKeeper(t *testing.T) {
	s := newScene(t, "echo up >up")
	at := s.launch.Identity
	rec := &wire.Record{UniID: at.UniID, State: wire.StateOpen, Steps: 1}
	putRecord(t, at.Dir, rec)
	ln, err := net.Listen("unix", filepath.Join(s.dir, "keeper-00000000.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	left := make(chan bool)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		var size uint64
		_ = binary.Read(c, binary.LittleEndian, &size)
		_, _ = io.ReadFull(c, make([]byte, size)) // the adopt message
		for range 2 {
			m, _ := json.Marshal(wire.Message{Version: wire.Version + 1, Op: wire.Ended, UniID: at.UniID, Ended: &state.End{}})
			_, _ = c.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(m))), m...))
		}
		_, _ = io.Copy(io.Discard, c)
		close(left)
	}()
	s.open()
	s.adopt()
	if ev := s.next(); len(ev.Warnings) != 1 || !strings.Contains(ev.Warnings[0], "version 4; this gpurun supports up to 3") {
		t.Fatalf("got %+v, want a warning with both versions", ev)
	}
	rec.State, rec.ExitCode, rec.At = wire.StateOver, 7, time.Now()
	putRecord(t, at.Dir, rec)
	<-left // the runner disconnects, because a keeper does not exit while it has a runner
	ln.Close()
	if ev := s.next(); ev.Ended == nil || ev.Ended.ExitCode != 7 {
		t.Errorf("got %+v, want the end from the record", ev)
	}
}

// A runner follows a keeper of the previous release. If that keeper is killed, the runner follows
// its attempts by the records in their folders.
func TestRunnerFollowsOlderKeeper(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			s := newScene(t, "exit")
			at, p := s.launch.Identity, sleeper(t)
			stat := fmt.Sprintf("%d (sleep) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 %d\n", p.PID, p.Start)
			oldRecord(t, at.Dir, &wire.Record{UniID: at.UniID, State: wire.StateOpen, Steps: 1, BootID: host.BootID(), End: state.End{Started: time.Now()}}, stat)
			ln, err := net.Listen("unix", filepath.Join(s.dir, "keeper-00000000.sock"))
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			send := make(chan any)
			go func() {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				for m := range send {
					b, _ := json.Marshal(m)
					_, _ = c.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...))
				}
			}()
			s.open()
			s.adopt()
			send <- map[string]any{"v": 1, "op": "running", "uni_id": at.UniID, "running": engine.Running{PID: p.PID, PIDStart: p.Start}}
			if ev := s.next(); ev.Running == nil || ev.Running.PID != p.PID || !ev.Running.Adopted {
				t.Fatalf("got %+v, want Running of %d", ev, p.PID)
			}
			if !killed {
				send <- map[string]any{"v": 1, "op": "ended", "uni_id": at.UniID, "ended": json.RawMessage(
					`{"ExitCode":5,"Signal":"","Why":"","Started":"2026-01-02T03:04:05Z","At":"2026-01-02T03:04:07Z","Elapsed":2000000000,"OOMKilled":true,"Lost":false,"Void":false,"Err":"\"At\":","Refused":false,"NoRoom":false,"Report":"","LeftOver":3,"PeakHost":4096,"Unsaved":"no","LeftRunning":"python","Stuck":[7]}`)}
				at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
				want := state.End{ExitCode: 5, Started: at, At: at.Add(2 * time.Second), Elapsed: 2 * time.Second, OOMKilled: true, Err: `"At":`, LeftOver: 3, PeakHost: 4096, Unsaved: "no", LeftRunning: "python", Stuck: []int{7}}
				if got := s.ended(); !reflect.DeepEqual(got, want) {
					t.Errorf("ended as %+v, want %+v", got, want)
				}
				close(send)
				return
			}
			close(send)
			s.engine.Stop(at.UniID, state.WhyCancelled, engine.Term)
			if got := s.ended(); !got.Lost || got.Void || got.Why != state.WhyCancelled {
				t.Errorf("ended as %+v, want lost and cancelled", got)
			}
		})
	}
}

// If an end arrives with the start, the runner passes on the start only if it was not reported
// before.
func TestStartAndEndArriveInOneEvent(t *testing.T) {
	for _, reported := range []bool{false, true} {
		l, keeper := newLocal(engine.Config{}), &remote{}
		l.live["u"] = &entry{Attempt: engine.Attempt{Identity: engine.Identity{UniID: "u"}}, home: keeper, reported: reported}
		l.handle(keeper, &wire.Message{Op: wire.Ended, UniID: "u", Running: &engine.Running{PID: 7}, Ended: &state.End{ExitCode: 4}})
		all := l.out.Take()
		if len(all) != 1 || all[0].Ended == nil || all[0].Ended.ExitCode != 4 || (all[0].Running == nil) != reported {
			t.Errorf("start reported before: %v: got %+v", reported, all)
		}
	}
}
