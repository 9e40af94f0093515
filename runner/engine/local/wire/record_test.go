package wire

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpurun/runner/engine/procs"
	"gpurun/state"
)

func TestRecordIsReadBack(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	full := Record{
		State: StateOver, UniID: "u", Steps: 2, Begun: 2, Roots: []procs.ID{{PID: 4, Start: 5}, {PID: 6, Start: 7}}, Latest: now,
		End:     state.End{Why: "timeout", ExitCode: -1, Signal: "SIGKILL", Started: now, At: now.Add(time.Hour), Elapsed: time.Hour, OOMKilled: true, Report: "normal_exit", LeftOver: 3, Stuck: []int{7}},
		Timeout: time.Hour, Grace: time.Second, Boot: 9,
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, StatusFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, r := range []*Record{{State: StateOpen, UniID: "u", End: state.End{Started: now}}, &full} {
		if err := r.Put(f); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadRecord(dir, "u")
	if err != nil || !reflect.DeepEqual(*got, full) {
		t.Errorf("got %+v, %v, want %+v", got, err, full)
	}
	if fi, _ := os.Stat(filepath.Join(dir, StatusFile)); fi.Size() != StatusSize {
		t.Errorf("the file has %d bytes, want %d", fi.Size(), StatusSize)
	}
}

// A record of an earlier release must be readable.
func TestRecordOfEarlierRelease(t *testing.T) {
	const text = `{"state":"ended","uni_id":"u","steps":1,"exit":-1,"signal":"SIGKILL","why":"timeout","started":"2026-01-02T03:04:05Z","ended":"2026-01-02T03:04:07Z",` +
		`"elapsed_ns":2000000000,"oom_killed":true,"lost":true,"void":true,"error":"why","report":"normal_exit","left_over":3,"stuck":[7],"left_running":"python",` +
		`"peak_host_memory_bytes":4096,"peak_readings":2,"unfit_gpu_memory_bytes":5,"background":true}`
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Record{State: StateOver, UniID: "u", Steps: 1, Unfit: 5, Behind: true, End: state.End{
		ExitCode: -1, Signal: "SIGKILL", Why: "timeout", Started: at, At: at.Add(2 * time.Second), Elapsed: 2 * time.Second, OOMKilled: true, Lost: true, Void: true, Err: "why",
		Report: "normal_exit", LeftOver: 3, Stuck: []int{7}, LeftRunning: "python", PeakHost: 4096, Readings: 2, Uncharged: "why", Displaced: true,
	}}
	if got, err := RecordIn(Seal([]byte(text), StatusSize), "u"); err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// A record has a constant length, whatever it contains.
func TestRecordLengthIsConstant(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 3000, 3500, 4000, 5000, 100000} {
		r := Record{UniID: "u", Roots: make([]procs.ID, n), End: state.End{Err: strings.Repeat("\x01é", n), Stuck: make([]int, n)}}
		if got := len(r.Encode()); got != StatusSize {
			t.Errorf("content of length %d: record has %d bytes, want %d", n, got, StatusSize)
		}
	}
}

// A record that is truncated anywhere, or has any byte changed, must not be accepted: it could give
// an end that was not written.
func TestTornOrChangedRecordIsRejected(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, StatusFile)
	whole := (&Record{State: StateOver, UniID: "u", End: state.End{ExitCode: 0}}).Encode()
	text := strings.TrimRight(string(whole), " \n")
	for i := range text {
		flipped := []byte(text)
		flipped[i] ^= 4
		for _, b := range [][]byte{[]byte(text[:i]), flipped} {
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			if r, err := ReadRecord(dir, "u"); !errors.Is(err, ErrNoRecord) {
				t.Fatalf("torn or changed at byte %d: got %+v, %v, want ErrNoRecord", i, r, err)
			}
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add((&Record{State: StateOver}).Encode())
	f.Add([]byte("00000000 "))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, StatusFile), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := ReadRecord(dir, "u"); (r == nil) == (err == nil) {
			t.Errorf("got %+v, %v, want either a record or an error", r, err)
		}
	})
}
