package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gpurun/gpu"
	"gpurun/runner/engine"
	"gpurun/state"
)

func plainly(f func()) { go f() }

// Messages arrive complete and in order. A closed link accepts none.
func TestLinkDeliversMessagesInOrder(t *testing.T) { synctest.Test(t, linkDelivers) }

func linkDelivers(t *testing.T) {
	ours, theirs := net.Pipe()
	l, far := NewLink(ours, plainly), NewLink(theirs, plainly)
	odd := "caf\xe9"
	sent := []*Message{
		{Version: Version, Op: Launch, UniID: "a", Launch: &engine.Launch{
			Identity: engine.Identity{Job: "\x00", Dir: odd},
			Command:  engine.Command{WorkDir: "é", Shell: []string{"sh", odd}, Commands: []string{"\x00\xff", ""}, Env: []string{"A=" + odd, "B=\u00e9"}},
		}},
		{Version: Version, Op: Ended, UniID: "a", Ended: &state.End{ExitCode: 3}},
	}
	var got []*Message
	read := make(chan error)
	go func() { read <- far.Receive(func(m *Message) { got = append(got, m) }) }()
	for _, m := range sent {
		if err := l.Send(m); err != nil {
			t.Error(err)
		}
	}
	l.Close() // sends queued messages, then ends Receive
	<-read
	far.Close()
	if !slices.EqualFunc(got, sent, func(x, y *Message) bool { return reflect.DeepEqual(x, y) }) {
		t.Errorf("got %+v, want %+v", got, sent)
	}
	if err := l.Send(sent[1]); err == nil {
		t.Error("a closed link accepted a message")
	}
}

// Sending to a peer that does not read must not block. Closing may block only briefly.
func TestUnreadLinkDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		l := NewLink(ours, plainly)
		for range 1000 {
			if err := l.Send(&Message{Op: Warn, Warnings: []string{"x"}}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		l.Close()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("closing took %v", took)
		}
	})
}

// Runners and keepers of earlier versions frame messages like this, so the format must not change.
func TestFrameFormatIsStable(t *testing.T) {
	const text = `{"v":3,"op":"adopt","uni_id":"u"}`
	want := append([]byte{byte(len(text)), 0, 0, 0, 0, 0, 0, 0}, text...)
	got, err := encode(&Message{Op: Adopt, UniID: "u"})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	m, err := decode(bytes.NewReader(want))
	if err != nil || m.Op != Adopt || m.UniID != "u" {
		t.Errorf("got %+v, %v", m, err)
	}
}

// Keepers of earlier versions use encoding/json, which must read and write the same messages.
func TestMessagesOfEarlierVersions(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		m := &Message{}
		fill(random, reflect.ValueOf(m).Elem())
		m.Version = Version
		frame, err := encode(m)
		if err != nil {
			t.Fatal(err)
		}
		var theirs Message
		if err := json.Unmarshal(frame[8:], &theirs); err != nil {
			t.Fatalf("%v of %q", err, frame)
		}
		text, err := json.Marshal(&theirs)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := decode(bytes.NewReader(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)))
		if err != nil || !reflect.DeepEqual(ours, m) {
			t.Fatalf("got %+v, %v, want %+v", ours, err, m)
		}
	}
}

// A runner of the release whose messages have no version must not read a failure as a success. That
// release used the field names below.
func TestRunnerWithoutVersionReadsTheEnd(t *testing.T) {
	type former struct {
		ExitCode                 int
		Signal, Why              string
		Started, At              time.Time
		Elapsed                  time.Duration
		OOMKilled, Lost          bool
		Err, Report, LeftRunning string
		LeftOver                 int
		PeakHost                 gpu.Bytes
		Readings                 int
		Unsaved                  string
		Stuck                    []int
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	frame, err := encode(&Message{Op: Ended, UniID: "u", Ended: &state.End{
		ExitCode: 4, Signal: "SIGKILL", Why: "timeout", Started: at, At: at.Add(time.Second), Elapsed: time.Second, OOMKilled: true, Lost: true,
		Err: `{"exit":0}`, Report: "normal_exit", LeftRunning: "python", LeftOver: 3, PeakHost: 4096, Readings: 2, Unsaved: "no", Stuck: []int{7},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Ended former }
	want := former{4, "SIGKILL", "timeout", at, at.Add(time.Second), time.Second, true, true, `{"exit":0}`, "normal_exit", "python", 3, 4096, 2, "no", []int{7}}
	if err := json.Unmarshal(frame[8:], &got); err != nil || !reflect.DeepEqual(got.Ended, want) {
		t.Errorf("got %+v, %v, want %+v, from %s", got.Ended, err, want, frame[8:])
	}
}

// fill sets every field, at any depth, to a random value, or occasionally leaves it empty.
func fill(random *rand.Rand, v reflect.Value) {
	if random.IntN(5) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(random, v.Elem())
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Unix(random.Int64N(1<<32), random.Int64N(1e9)).UTC()
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(random, v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+random.IntN(3), 4))
		for i := range v.Len() {
			fill(random, v.Index(i))
		}
	case reflect.String:
		v.SetString([]string{"é\u2028 <&>", "a=\"b\"\n\t\x01", "plain", "\U0001f600"}[random.IntN(4)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(random.NormFloat64())
	default:
		if v.CanInt() {
			v.SetInt(random.Int64() - 1<<62)
		} else {
			v.SetUint(random.Uint64())
		}
	}
}

// FuzzFrame checks that every frame that decodes can be encoded and decoded again.
func FuzzFrame(f *testing.F) {
	for _, m := range []*Message{
		{Op: Launch, Launch: &engine.Launch{Identity: engine.Identity{Job: "j\xff"}, Command: engine.Command{Shell: []string{"sh", "-c"}}}},
		{Op: Running, Running: &engine.Running{PID: 1, Started: time.Unix(5, 6)}},
		{Op: Ended, Ended: &state.End{Stuck: []int{7}}},
	} {
		b, _ := encode(m)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := encode(m)
		if err != nil {
			t.Fatalf("%v of %q", err, b)
		}
		if _, err := decode(bytes.NewReader(again)); err != nil {
			t.Errorf("%v of %q", err, again)
		}
	})
}
