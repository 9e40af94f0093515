package local

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"gpurun/runner/engine"
	"gpurun/state/jsonline/jsonlinetest"
)

// What comes out of a packed frame is what comes out of one with JSON, with every
// field set and with none.
func TestPackedSaysWhatJSONSays(t *testing.T) {
	full := []*message{
		{Op: opLaunch, Launch: &engine.Launch{}, env: []byte("A=b\x00")},
		{Op: opRunning, Running: &engine.Running{}}, {Op: opEnded, Ended: &engine.Ended{}},
	}
	jsonlinetest.Fill(full[0].Launch)
	jsonlinetest.Fill(full[1].Running)
	jsonlinetest.Fill(full[2].Ended)
	empty := []*message{
		{Op: opLaunch, UniID: "u", Launch: &engine.Launch{}}, {Op: opRunning, Running: &engine.Running{}},
		{Op: opEnded, Ended: &engine.Ended{}},
	}
	for _, m := range append(full, empty...) {
		if !packable(m) {
			t.Fatalf("%s is not packable", m.Op)
		}
		named, err := m.encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := readMessage(bufio.NewReader(bytes.NewReader(named)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readMessage(bufio.NewReader(bytes.NewReader(m.encodePacked(nil))))
		if err != nil || text(got) != text(want) || !bytes.Equal(got.env, want.env) {
			t.Errorf("%s: %v\n got %s\nwant %s", m.Op, err, text(got), text(want))
		}
	}
}

func text(m *message) string {
	b, _ := json.Marshal(m)
	return string(b)
}

// A link to a program that may be another sends JSON, and either side reads both.
func TestOnlyTheSameProgramIsSentPackedMessages(t *testing.T) {
	m := &message{Op: opEnded, UniID: "u", Ended: &engine.Ended{ExitCode: 3}}
	for _, same := range []bool{false, true} {
		l := &link{same: same}
		if err := l.queue(m); err != nil {
			t.Fatal(err)
		}
		if packed := !bytes.Contains(l.out, []byte(`"op":"ended"`)); packed != same {
			t.Errorf("same %v: %q", same, l.out)
		}
		got, err := readMessage(bufio.NewReader(bytes.NewReader(l.out)))
		if err != nil || got.Ended == nil || got.Ended.ExitCode != 3 {
			t.Errorf("same %v: %+v, %v", same, got, err)
		}
	}
}

// Whatever comes, a frame is a message or an error, and a packed one is read in one
// way only.
func FuzzFrame(f *testing.F) {
	for _, m := range []*message{
		{Op: opLaunch, Launch: &engine.Launch{Job: "j", Shell: []string{"sh", "-c"}}, env: []byte("A=b\x00")},
		{Op: opRunning, Running: &engine.Running{PID: 1, Started: time.Unix(5, 6)}},
		{Op: opEnded, Ended: &engine.Ended{Stuck: []int{7}}},
	} {
		b, _ := m.encode(nil)
		f.Add(b)
		f.Add(m.encodePacked(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMessage(bufio.NewReader(bytes.NewReader(b)))
		if err != nil || !packable(m) {
			return
		}
		again, err := readMessage(bufio.NewReader(bytes.NewReader(m.encodePacked(nil))))
		if err != nil {
			t.Fatalf("%v of %q", err, b)
		}
		if !bytes.Equal(again.encodePacked(nil), m.encodePacked(nil)) {
			t.Errorf("%s is %s the second time", text(m), text(again))
		}
	})
}
